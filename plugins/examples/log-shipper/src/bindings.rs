//! Generated from `wit/`; nothing else is here.
#![allow(clippy::all, clippy::pedantic, dead_code, reason = "generated")]

wit_bindgen::generate!({
    inline: "
        package this:plugin;
        world this-plugin {
            include runner:policy/base@0.1.0;
            export runner:policy/pod-mutation@0.1.0;
        }
    ",
    path: "wit",
    generate_all,
    generate_unused_types: true,
    additional_derives: [PartialEq],
});
