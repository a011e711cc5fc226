//! Protobuf messages as people write and read them: a request from a file as YAML or JSON, an answer as protobuf JSON.
//!
//! Errors name fields and places, never values: a request holds environment values and passwords.

use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context, anyhow, bail};
use prost::Message;
use prost_reflect::{DescriptorError, DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Value;

use crate::proto::DESCRIPTORS;
use crate::proto::runner_v1::StartWorkloadRequest;

/// Read a StartWorkloadRequest; `-` is standard input.
pub(crate) fn read_request(path: &Path) -> anyhow::Result<StartWorkloadRequest> {
    let text = read_text(path)?;
    request(&text).with_context(|| format!("{} is not a StartWorkloadRequest", name_of(path)))
}

/// Read a YAML or JSON document; `-` is standard input.
pub(crate) fn read_value(path: &Path) -> anyhow::Result<Value> {
    let text = read_text(path)?;
    value(&text).with_context(|| format!("{} is not YAML or JSON", name_of(path)))
}

/// Read a text; `-` is standard input.
pub(crate) fn read_text(path: &Path) -> anyhow::Result<String> {
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    text.with_context(|| format!("read {}", name_of(path)))
}

/// The file in messages.
pub(crate) fn name_of(path: &Path) -> String {
    if path.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    }
}

/// JSON is YAML.
fn value(text: &str) -> anyhow::Result<Value> {
    serde_saphyr::from_str(text).map_err(|error| anyhow!("{}", error.without_snippet()))
}

/// Protobuf JSON is JSON.
fn request(text: &str) -> anyhow::Result<StartWorkloadRequest> {
    request_of(value(text)?)
}

/// A StartWorkloadRequest from its protobuf JSON.
pub(crate) fn request_of(value: Value) -> anyhow::Result<StartWorkloadRequest> {
    if !value.is_object() {
        bail!("expected an object with fields such as main, flavor, capabilities");
    }
    let descriptor = descriptor("agynio.api.runner.v1.StartWorkloadRequest")?;
    let message = DynamicMessage::deserialize(descriptor, value)
        .map_err(|error| anyhow!("{}", without_value(&error.to_string())))?;
    Ok(StartWorkloadRequest::decode(message.encode_to_vec().as_slice())?)
}

/// The protobuf JSON of a message of runner.v1, by its name; every field is there, also one with its default value.
pub(crate) fn json(name: &str, message: &impl Message) -> anyhow::Result<Value> {
    json_of(&format!("agynio.api.runner.v1.{name}"), message)
}

/// The protobuf JSON of a message of any package, by its full name.
pub(crate) fn json_of(name: &str, message: &impl Message) -> anyhow::Result<Value> {
    let mut dynamic = DynamicMessage::new(descriptor(name)?);
    dynamic.transcode_from(message)?;
    let options = SerializeOptions::new().skip_default_fields(false);
    Ok(dynamic.serialize_with_options(serde_json::value::Serializer, &options)?)
}

fn descriptor(name: &str) -> anyhow::Result<MessageDescriptor> {
    /// Decoded once: a stream shows many messages.
    static POOL: LazyLock<Result<DescriptorPool, DescriptorError>> =
        LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS));
    POOL.as_ref()
        .map_err(|error| anyhow!("{error}"))?
        .get_message_by_name(name)
        .with_context(|| format!("the message {name} is missing from this binary"))
}

/// serde says `invalid type: string "the value", expected …`: keep the kind, drop the value.
fn without_value(error: &str) -> String {
    let Some((kind, expected)) = error
        .split_once(", expected ")
        .filter(|_| error.starts_with("invalid "))
    else {
        return error.to_owned();
    };
    let kind = kind.split(['"', '`']).next().unwrap_or_default();
    format!("{}, expected {expected}", kind.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::proto::runner_v1::{InspectWorkloadResponse, WorkloadContainer};

    #[test]
    fn json_and_yaml_say_the_same() {
        let json =
            request(r#"{"main": {"image": "a:1", "cmd": ["x"]}, "workloadId": "w", "capabilities": ["c"]}"#).unwrap();
        let yaml = request("main:\n  image: a:1\n  cmd: [x]\nworkload_id: w\ncapabilities: [c]\n").unwrap();
        assert_eq!(json, yaml);
    }

    #[test]
    fn an_unknown_field_is_named() {
        let error = format!("{:#}", request("main: {imgae: a}").unwrap_err());
        assert!(error.contains("imgae"), "{error}");
    }

    #[test]
    fn values_are_not_shown() {
        for text in [
            "main: {env: [hunter2]}",
            "main: {env: [{name: A, value: 4711}]}",
            "main: {env: [{name: A, value: hunter2]}",
            "image_pull_credentials: hunter2",
            "inline_files: {/a: 'hunter2 '}",
            "hunter2",
        ] {
            let error = format!("{:#}", request(text).unwrap_err());
            assert!(!error.contains("hunter2") && !error.contains("4711"), "{error}");
        }
        assert_eq!(
            without_value("invalid type: integer `5`, expected a string"),
            "invalid type: integer, expected a string"
        );
    }

    #[test]
    fn answers_have_every_field_but_absent_optional_ones() {
        let main = WorkloadContainer {
            name: "main".into(),
            exit_code: Some(0),
            ..WorkloadContainer::default()
        };
        let state = InspectWorkloadResponse {
            id: "w".into(),
            containers: vec![main],
            ..Default::default()
        };
        let shown = json("InspectWorkloadResponse", &state).unwrap();
        assert_eq!(shown["stateRunning"], json!(false));
        assert_eq!(shown["mounts"], json!([]));
        let main = &shown["containers"][0];
        assert_eq!(
            (&main["exitCode"], &main["role"]),
            (&json!(0), &json!("CONTAINER_ROLE_UNSPECIFIED"))
        );
        assert!(main.get("reason").is_none(), "{main}");
    }
}
