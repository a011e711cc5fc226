//! A plugin for `runner:policy@0.2.0`: the host has to refuse it and to name both versions.

#[allow(clippy::all)]
mod bindings {
    wit_bindgen::generate!({
        inline: r#"
            package runner:policy@0.2.0;

            interface log {
                write: func(message: string);
            }

            interface plugin {
                describe: func() -> string;
            }

            world base {
                import log;
                export plugin;
            }
        "#,
    });
}

struct WrongWorld;

#[cfg(target_arch = "wasm32")]
bindings::export!(WrongWorld with_types_in bindings);

impl bindings::exports::runner::policy::plugin::Guest for WrongWorld {
    fn describe() -> String {
        bindings::runner::policy::log::write("never seen");
        String::new()
    }
}
