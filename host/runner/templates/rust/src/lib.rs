//! Say here in one sentence what the plugin decides.
//!
//! The host makes a fresh instance for every call: nothing is kept between two of them. The same input must give the same
//! output: there is no clock, no randomness, no file and no network. Rules are plain functions, so that `cargo test` runs
//! their tests natively; only the functions that the host calls reach into `host`.

mod bindings;
{{mods}}
use bindings::exports::runner::policy::plugin::{Description, Guest};
use settings::Settings;

pub struct ThisPlugin;

// A native build, for the tests, exports nothing.
#[cfg(target_arch = "wasm32")]
bindings::export!(ThisPlugin with_types_in bindings);

impl Guest for ThisPlugin {
    fn describe() -> Description {
        Description {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: env!("CARGO_PKG_DESCRIPTION").into(),
            settings_schema: settings::SCHEMA.into(),
            // Powers that the edits need, such as "extra-containers"; the operator has to give them too.
            grants: Vec::new(),
        }
    }

    /// What the schema cannot say. Called with settings that pass it; every problem, in words for the operator.
    fn check_settings() -> Result<(), Vec<String>> {
        host::settings::<Settings>()
            .map(drop)
            .map_err(|refused| vec![refused.message])
    }
}
