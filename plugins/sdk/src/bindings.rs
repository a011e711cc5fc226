//! Generated from `wit/`; nothing else is here. One small world for what every plugin has and one for each hook, so that
//! a plugin exports just the hooks it implements: the linker joins the worlds of the macros that it calls.

/// What every plugin imports and exports, and the types that hooks share.
pub mod base {
    wit_bindgen::generate!({
        inline: "
            package runner:sdk-base;
            world base {
                import runner:policy/types@0.1.0;
                import runner:policy/settings@0.1.0;
                import runner:policy/log@0.1.0;
                import runner:policy/pod-view@0.1.0;
                import runner:policy/provenance@0.1.0;
                export runner:policy/plugin@0.1.0;
            }
        ",
        path: "../../wit",
        generate_all,
        generate_unused_types: true,
        additional_derives: [PartialEq],
        runtime_path: "::plugin_sdk::wit_bindgen::rt",
        pub_export_macro: true,
        export_macro_name: "export",
    });
}

/// The catalog-mapping hook.
pub mod catalog_mapping {
    wit_bindgen::generate!({
        inline: "
            package runner:sdk-catalog-mapping;
            world catalog-mapping { export runner:policy/catalog-mapping@0.1.0; }
        ",
        path: "../../wit",
        with: { "runner:policy/types@0.1.0": crate::bindings::base::runner::policy::types },
        additional_derives: [PartialEq],
        runtime_path: "::plugin_sdk::wit_bindgen::rt",
        pub_export_macro: true,
        export_macro_name: "export",
    });
}

/// The flavor-sizing hook.
pub mod flavor_sizing {
    wit_bindgen::generate!({
        inline: "
            package runner:sdk-flavor-sizing;
            world flavor-sizing { export runner:policy/flavor-sizing@0.1.0; }
        ",
        path: "../../wit",
        with: {
            "runner:policy/types@0.1.0": crate::bindings::base::runner::policy::types,
            "runner:policy/catalog-mapping@0.1.0": crate::bindings::catalog_mapping::exports::runner::policy::catalog_mapping,
        },
        additional_derives: [PartialEq],
        runtime_path: "::plugin_sdk::wit_bindgen::rt",
        pub_export_macro: true,
        export_macro_name: "export",
    });
}

/// The capability-policy hook.
pub mod capability_policy {
    wit_bindgen::generate!({
        inline: "
            package runner:sdk-capability-policy;
            world capability-policy { export runner:policy/capability-policy@0.1.0; }
        ",
        path: "../../wit",
        with: { "runner:policy/types@0.1.0": crate::bindings::base::runner::policy::types },
        additional_derives: [PartialEq],
        runtime_path: "::plugin_sdk::wit_bindgen::rt",
        pub_export_macro: true,
        export_macro_name: "export",
    });
}

/// The pod-mutation hook.
pub mod pod_mutation {
    wit_bindgen::generate!({
        inline: "
            package runner:sdk-pod-mutation;
            world pod-mutation { export runner:policy/pod-mutation@0.1.0; }
        ",
        path: "../../wit",
        with: { "runner:policy/types@0.1.0": crate::bindings::base::runner::policy::types },
        additional_derives: [PartialEq],
        runtime_path: "::plugin_sdk::wit_bindgen::rt",
        pub_export_macro: true,
        export_macro_name: "export",
    });
}
