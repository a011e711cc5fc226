//! The settings that the operator gave to this plugin.

use serde::de::DeserializeOwned;

use crate::Rejection;

/// Reads the settings as `T`.
///
/// The host checks them against the schema of `describe` before any other call, so a failure here means that the schema
/// allows what `T` does not; as a rejection it still tells the caller who is to be asked.
pub fn settings<T: DeserializeOwned>() -> Result<T, Rejection> {
    parse(&crate::bindings::base::runner::policy::settings::get())
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Rejection> {
    serde_json::from_str(text)
        .map_err(|error| Rejection::failed_precondition("plugin_settings_invalid", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_settings_are_the_operators_to_fix() {
        assert_eq!(parse::<u32>("7"), Ok(7));
        let refused = parse::<u32>("{}").unwrap_err();
        assert_eq!(
            (refused.kind, refused.code.as_str()),
            (crate::RejectionKind::FailedPrecondition, "plugin_settings_invalid")
        );
    }
}
