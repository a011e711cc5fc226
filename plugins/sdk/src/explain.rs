//! Why a plugin decides as it does.

/// The rule behind what this call changes at and below an RFC 6901 pointer into the pod; `""` is all of it.
///
/// Write the pointer as in the edits. It is shown to people beside the plugin's name, where they ask what set a field.
pub fn explain(pointer: &str, rule: &str) {
    crate::bindings::base::runner::policy::provenance::explain(pointer, rule);
}
