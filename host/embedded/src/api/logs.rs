//! `pods/log`: which container's log, from where, how much; refusals as the kubelet words them.

use std::sync::Arc;

use axum::response::Response;
use http::{HeaderValue, header};
use serde_json::Value;

use super::Query;
use crate::json;
use crate::logfile::{ReadOptions, read as read_log};
use crate::resource::Key;
use crate::server::{Server, until_shutdown};
use crate::status::{ApiError, Result};

pub(super) async fn read(server: &Arc<Server>, key: &Key, query: &Query) -> Result<Response> {
    let pod = server.store.find(key)?;
    let container = choose_container(&pod, &key.name, query.get("container"))?;
    let options = options(query)?;
    let uid = json::text(&pod, "/metadata/uid");
    let log = server.registry.log(uid, &container, query.flag("previous"));
    let log = match log {
        Some(log) => log,
        None if query.flag("previous") => {
            return Err(ApiError::bad_request(format!(
                "previous terminated container \"{container}\" in pod \"{}\" not found",
                key.name
            )));
        }
        None => return Err(not_started(&pod, &key.name, &container)),
    };
    let stream = read_log(log, options)
        .await
        .map_err(|error| ApiError::internal(format!("failed to open the log of container \"{container}\": {error}")))?;
    let mut response = Response::new(until_shutdown(server, stream));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

fn not_started(pod: &Value, name: &str, container: &str) -> ApiError {
    if json::text(pod, "/spec/nodeName").is_empty() {
        return ApiError::bad_request(format!("pod {name} does not have a host assigned"));
    }
    let statuses = json::list(pod, "/status/containerStatuses")
        .iter()
        .chain(json::list(pod, "/status/initContainerStatuses"));
    let status = statuses
        .into_iter()
        .find(|status| json::text(status, "/name") == container);
    let reason = status
        .map(|status| json::text(status, "/state/waiting/reason"))
        .unwrap_or_default();
    match reason {
        "" => ApiError::bad_request(format!("container \"{container}\" in pod \"{name}\" is not available")),
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => ApiError::bad_request(format!(
            "container \"{container}\" in pod \"{name}\" is waiting to start: trying and failing to pull image"
        )),
        reason => ApiError::bad_request(format!(
            "container \"{container}\" in pod \"{name}\" is waiting to start: {reason}"
        )),
    }
}

/// The container asked for, or the only one.
pub(super) fn choose_container(pod: &Value, name: &str, asked: Option<&str>) -> Result<String> {
    let names = |list: &str| -> Vec<String> {
        json::list(pod, list)
            .iter()
            .map(|container| json::text(container, "/name").to_owned())
            .collect()
    };
    let (regular, init) = (names("/spec/containers"), names("/spec/initContainers"));
    match asked {
        Some(asked) if regular.iter().chain(&init).any(|name| name == asked) => Ok(asked.to_owned()),
        Some(asked) => Err(ApiError::bad_request(format!(
            "container {asked} is not valid for pod {name}"
        ))),
        None => match regular.as_slice() {
            [only] if init.is_empty() => Ok(only.clone()),
            _ => {
                let init = if init.is_empty() {
                    String::new()
                } else {
                    format!(" or one of the init containers: [{}]", init.join(" "))
                };
                Err(ApiError::bad_request(format!(
                    "a container name must be specified for pod {name}, choose one of: [{}]{init}",
                    regular.join(" ")
                )))
            }
        },
    }
}

fn options(query: &Query) -> Result<ReadOptions> {
    let invalid = |field: &str, value: &str| {
        ApiError::new(
            422,
            "Invalid",
            format!("PodLogOptions \"\" is invalid: {field}: Invalid value: \"{value}\""),
        )
    };
    let natural = |name: &str| -> Result<Option<u64>> {
        query
            .get(name)
            .map(|text| text.parse().map_err(|_| invalid(name, text)))
            .transpose()
    };
    let since_time = query
        .get("sinceTime")
        .map(|text| text.parse::<jiff::Timestamp>().map_err(|_| invalid("sinceTime", text)))
        .transpose()?;
    let since_seconds = natural("sinceSeconds")?
        .map(|seconds| jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
        .and_then(|ago| jiff::Timestamp::now().checked_sub(ago).ok());
    Ok(ReadOptions {
        follow: query.flag("follow"),
        timestamps: query.flag("timestamps"),
        since: since_time.or(since_seconds),
        tail: natural("tailLines")?,
        limit: natural("limitBytes")?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_container_must_be_clear() {
        let one = json!({"spec": {"containers": [{"name": "main"}]}});
        assert_eq!(choose_container(&one, "p", None).unwrap(), "main");
        assert_eq!(
            choose_container(&one, "p", Some("x")).unwrap_err().message,
            "container x is not valid for pod p"
        );
        let two =
            json!({"spec": {"containers": [{"name": "main"}, {"name": "side"}], "initContainers": [{"name": "i"}]}});
        assert_eq!(
            choose_container(&two, "p", None).unwrap_err().message,
            "a container name must be specified for pod p, choose one of: [main side] or one of the init containers: [i]"
        );
        assert_eq!(choose_container(&two, "p", Some("i")).unwrap(), "i");
    }
}
