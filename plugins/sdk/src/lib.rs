//! What a runner-host plugin written in Rust imports.
//!
//! Implement [`Plugin`] and the traits of your hooks ([`catalog::CatalogMapping`], [`flavor::FlavorSizing`],
//! [`capability::CapabilityPolicy`], [`mutation::PodMutation`]) for one type, and [`export!`] it. The same input must give
//! the same output: a plugin has no clock, no randomness, no files and no network.
//!
//! Write the rule as plain functions over the types of this crate and test them natively; [`settings`], [`pod::get`],
//! [`explain()`] and [`log`] reach the host, so call them only from the trait methods.
#![warn(missing_docs)]

// Generated code names this crate by its name, also inside of it.
extern crate self as plugin_sdk;

// Generated: values cross the component boundary through raw memory, which is the only unsafe code of a plugin.
#[doc(hidden)]
#[allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::restriction,
    reason = "generated"
)]
pub mod bindings;
mod explain;
pub mod log;
pub mod pod;
mod settings;
mod types;

#[doc(hidden)]
pub use wit_bindgen;

pub use bindings::base::exports::runner::policy::plugin::{Description, Guest as Plugin};
pub use bindings::base::runner::policy::types::{
    Container, ContainerRole, Edit, Rejection, RejectionKind, Resources, Workload, Write,
};
pub use explain::explain;
pub use settings::settings;

/// The catalog-mapping hook: implement [`CatalogMapping`](catalog::CatalogMapping).
pub mod catalog {
    pub use crate::bindings::catalog_mapping::exports::runner::policy::catalog_mapping::{
        Catalog, Device, Diagnostic, Document, Flavor, Guest as CatalogMapping, StorageClass,
    };
}

/// The flavor-sizing hook: implement [`FlavorSizing`](flavor::FlavorSizing).
pub mod flavor {
    pub use crate::bindings::flavor_sizing::exports::runner::policy::flavor_sizing::{
        ContainerResources, Guest as FlavorSizing, RoleResources, Sizing,
    };
    pub use crate::catalog::{Device, Flavor};
}

/// The capability-policy hook: implement [`CapabilityPolicy`](capability::CapabilityPolicy).
pub mod capability {
    pub use crate::bindings::capability_policy::exports::runner::policy::capability_policy::{
        Applied, Capability, Guest as CapabilityPolicy,
    };
}

/// The pod-mutation hook: implement [`PodMutation`](mutation::PodMutation).
pub mod mutation {
    pub use crate::bindings::pod_mutation::exports::runner::policy::pod_mutation::Guest as PodMutation;
}

/// Makes a type the plugin: `export!(MyPlugin: flavor_sizing)`, with one or more of `catalog_mapping`, `flavor_sizing`,
/// `capability_policy` and `pod_mutation`. The type implements [`Plugin`] and the trait of each hook named.
///
/// Nothing is exported from a native build, so that a plugin's unit tests run with plain `cargo test`.
#[macro_export]
macro_rules! export {
    ($plugin:ident: $($hook:ident),+ $(,)?) => {
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::base::export!($plugin with_types_in $crate::bindings::base);
        $(
            #[cfg(target_arch = "wasm32")]
            $crate::bindings::$hook::export!($plugin with_types_in $crate::bindings::$hook);
        )+
    };
}
