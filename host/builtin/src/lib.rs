//! The plugins that are part of the binary, so that one file serves without configuration.
//!
//! The build script makes them from every component crate below `plugins/`; this crate holds their bytes and knows
//! nothing else about them. What they may do and how they are configured is decided where they are loaded.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Name (that of the directory below `plugins/`) and component of each, sorted by name.
pub static PLUGINS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/plugins.rs"));

/// The component of that name.
pub fn plugin(name: &str) -> Option<&'static [u8]> {
    PLUGINS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, component)| *component)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The preamble of a component: the magic number of WebAssembly, then version 13 and layer 1.
    const PREAMBLE: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn every_plugin_is_a_component() {
        assert!(!PLUGINS.is_empty());
        for (name, bytes) in PLUGINS {
            assert!(bytes.starts_with(PREAMBLE), "{name}");
            assert_eq!(plugin(name), Some(*bytes), "{name}");
        }
        assert_eq!(plugin("no such plugin"), None);
    }

    #[test]
    fn sorted_by_name() {
        assert!(PLUGINS.is_sorted_by(|(a, _), (b, _)| a < b));
    }
}
