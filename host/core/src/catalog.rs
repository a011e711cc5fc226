//! The catalog as a plugin answers it. What a catalog document looks like is the plugin's own.

use crate::flavor::Flavor;

/// A storage class of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    /// Name for callers.
    pub name: String,
    /// Kubernetes StorageClass; none leaves the choice to the cluster.
    pub class_name: Option<String>,
    /// The platform's choice when the user makes none; the host does not apply it (W-511).
    pub default: bool,
    /// Still usable.
    pub deprecated: bool,
}

/// Everything a runner offers by name, in the order of the documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// Sizes.
    pub flavors: Vec<Flavor>,
    /// Storage.
    pub storage_classes: Vec<StorageClass>,
    /// Capabilities to advertise beside the implemented ones.
    pub capabilities: Vec<String>,
}

impl Catalog {
    /// The flavor of that exact name.
    pub fn flavor(&self, name: &str) -> Option<&Flavor> {
        self.flavors.iter().find(|f| f.name == name)
    }

    /// The storage class of that exact name.
    pub fn storage_class(&self, name: &str) -> Option<&StorageClass> {
        self.storage_classes.iter().find(|c| c.name == name)
    }
}

/// A problem of a catalog document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// File name.
    pub document: String,
    /// From 1; 0 when unknown.
    pub line: u32,
    /// From 1; 0 when unknown.
    pub column: u32,
    /// The document cannot be read as a catalog at all.
    pub malformed: bool,
    /// What is wrong.
    pub message: String,
}
