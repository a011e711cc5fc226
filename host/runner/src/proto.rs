//! Names for the code generated from `proto/`, and its descriptors for reflection and for requests written as JSON.

pub use packages::agynio::api::gateway::v1 as gateway_v1;
pub use packages::agynio::api::runner::v1 as runner_v1;
pub use packages::agynio::api::runners::v1 as runners_v1;
pub use packages::runner::host::v1 as host_v1;

/// Encoded `FileDescriptorSet` of all of `proto/`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Nested as the packages are: the generated code refers to its neighbours that way.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated code")]
mod packages {
    pub mod agynio {
        pub mod api {
            pub mod runner {
                pub mod v1 {
                    tonic::include_proto!("agynio.api.runner.v1");
                }
            }
            pub mod runners {
                pub mod v1 {
                    tonic::include_proto!("agynio.api.runners.v1");
                }
            }
            pub mod gateway {
                pub mod v1 {
                    tonic::include_proto!("agynio.api.gateway.v1");
                }
            }
        }
    }
    pub mod runner {
        pub mod host {
            pub mod v1 {
                tonic::include_proto!("runner.host.v1");
            }
        }
    }
}
