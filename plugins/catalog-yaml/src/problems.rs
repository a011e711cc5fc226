//! What is wrong with the documents, collected to the end, and what is merely ignored.

use plugin_sdk::catalog::Diagnostic;

use crate::yaml::Node;

#[derive(Default)]
pub(crate) struct Problems {
    pub(crate) found: Vec<Diagnostic>,
    pub(crate) notes: Vec<String>,
}

impl Problems {
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    /// A rule is broken.
    pub(crate) fn rule(&mut self, at: Node<'_>, message: impl Into<String>) {
        self.push(at.diagnostic(false, message.into()));
    }

    /// The document has not the shape of a catalog.
    pub(crate) fn shape(&mut self, at: Node<'_>, message: impl Into<String>) {
        self.push(at.diagnostic(true, message.into()));
    }
}
