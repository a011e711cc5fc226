//! The methods of this program by their path, as labels that are made once.

use std::collections::HashMap;
use std::sync::Arc;

use metrics::{Label, SharedString};
use prost::Message as _;
use prost_types::FileDescriptorSet;

use crate::proto::DESCRIPTORS;

/// All that is known.
pub(super) struct Methods {
    known: HashMap<String, Method>,
    unknown: Method,
}

/// One method; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Method {
    /// Package and name.
    pub(super) service: SharedString,
    pub(super) name: SharedString,
    kind: &'static str,
}

impl Method {
    pub(super) fn labels(&self) -> Vec<Label> {
        vec![
            Label::new("grpc_service", self.service.clone()),
            Label::new("grpc_method", self.name.clone()),
            Label::from_static_parts("grpc_type", self.kind),
        ]
    }
}

impl Methods {
    /// Of the APIs, health and reflection.
    pub(super) fn known() -> Self {
        let sets = [
            DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let mut known = HashMap::new();
        // what the build made decodes; a test looks
        for file in sets
            .iter()
            .flat_map(|set| FileDescriptorSet::decode(*set))
            .flat_map(|set| set.file)
        {
            for service in &file.service {
                let name: Arc<str> = format!("{}.{}", file.package(), service.name()).into();
                for method in &service.method {
                    let kind = match (method.client_streaming(), method.server_streaming()) {
                        (false, false) => "unary",
                        (true, false) => "client_stream",
                        (false, true) => "server_stream",
                        (true, true) => "bidi_stream",
                    };
                    let path = format!("/{name}/{}", method.name());
                    let method = Method {
                        service: SharedString::from_shared(Arc::clone(&name)),
                        name: SharedString::from_shared(method.name().into()),
                        kind,
                    };
                    known.insert(path, method);
                }
            }
        }
        let unknown = SharedString::const_str("unknown");
        let unknown = Method {
            service: unknown.clone(),
            name: unknown,
            kind: "unknown",
        };
        Self { known, unknown }
    }

    pub(super) fn of(&self, path: &str) -> Method {
        self.known.get(path).unwrap_or(&self.unknown).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown() {
        let methods = Methods::known();
        for (path, wanted) in [
            (
                "/agynio.api.runner.v1.RunnerService/StartWorkload",
                ("agynio.api.runner.v1.RunnerService", "StartWorkload", "unary"),
            ),
            (
                "/agynio.api.runner.v1.RunnerService/StreamWorkloadLogs",
                (
                    "agynio.api.runner.v1.RunnerService",
                    "StreamWorkloadLogs",
                    "server_stream",
                ),
            ),
            (
                "/agynio.api.runner.v1.RunnerService/Exec",
                ("agynio.api.runner.v1.RunnerService", "Exec", "bidi_stream"),
            ),
            (
                "/runner.host.v1.AdminService/SetLogLevel",
                ("runner.host.v1.AdminService", "SetLogLevel", "unary"),
            ),
            (
                "/grpc.health.v1.Health/Check",
                ("grpc.health.v1.Health", "Check", "unary"),
            ),
            (
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                (
                    "grpc.reflection.v1.ServerReflection",
                    "ServerReflectionInfo",
                    "bidi_stream",
                ),
            ),
            (
                "/agynio.api.runner.v1.RunnerService/MadeUp",
                ("unknown", "unknown", "unknown"),
            ),
            ("/", ("unknown", "unknown", "unknown")),
        ] {
            let Method { service, name, kind } = methods.of(path);
            assert_eq!((&*service, &*name, kind), wanted, "{path}");
        }
    }
}
