//! The wire: names, numbers, types and labels of everything in `proto/`, against a list that is checked in.
//!
//! A change of this list is a change of the protocol, and callers of the original notice.

use prost_reflect::{DescriptorPool, Kind};
use runner_host::proto::DESCRIPTORS;

#[test]
fn the_protocol_is_as_listed() {
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let mut lines = Vec::new();
    for service in pool.services().filter(|s| s.full_name().starts_with("agynio.")) {
        for method in service.methods() {
            let stream = |on| if on { "stream " } else { "" };
            lines.push(format!(
                "rpc {} ({}{}) -> {}{}",
                method.full_name(),
                stream(method.is_client_streaming()),
                method.input().full_name(),
                stream(method.is_server_streaming()),
                method.output().full_name(),
            ));
        }
    }
    let messages = pool
        .all_messages()
        .filter(|m| m.full_name().starts_with("agynio.") && !m.is_map_entry());
    for message in messages {
        lines.push(format!("message {}", message.full_name()));
        for field in message.fields() {
            let label = if field.is_map() {
                "map "
            } else if field.is_list() {
                "repeated "
            } else if field.containing_oneof().is_some_and(|o| !o.is_synthetic()) {
                "oneof "
            } else if field.supports_presence() && !matches!(field.kind(), Kind::Message(_))
                || field.field_descriptor_proto().proto3_optional()
            {
                "optional "
            } else {
                ""
            };
            lines.push(format!(
                "  {} {label}{:?} {}",
                field.number(),
                field.kind(),
                field.name()
            ));
        }
    }
    for entry in pool.all_enums().filter(|e| e.full_name().starts_with("agynio.")) {
        lines.push(format!("enum {}", entry.full_name()));
        lines.extend(entry.values().map(|v| format!("  {} {}", v.number(), v.name())));
    }
    insta::assert_snapshot!(lines.join("\n"));
}
