//! `pods/exec`: what is checked before the connection becomes a WebSocket. From there `crate::exec` takes over.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::WebSocketUpgrade;
use axum::response::Response;
use http::Request;

use super::Query;
use super::logs::choose_container;
use crate::exec::{Channels, Session};
use crate::faults::{CutAfter, OnlyV4};
use crate::json;
use crate::resource::Key;
use crate::server::Server;
use crate::status::{ApiError, Result};

/// The largest frame taken; clients send a few KiB at a time.
const LARGEST_FRAME: usize = 4 * 1024 * 1024;

pub(super) async fn start(server: &Arc<Server>, key: &Key, request: Request<Body>, query: &Query) -> Result<Response> {
    let pod = server.store.find(key)?;
    let container = choose_container(&pod, &key.name, query.get("container"))?;
    let tty = query.flag("tty");
    let channels = Channels {
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        stderr: query.flag("stderr") && !tty,
        tty,
    };
    if !(channels.stdin || channels.stdout || channels.stderr) {
        return Err(ApiError::bad_request(
            "you must specify at least 1 of stdin, stdout, stderr",
        ));
    }
    let command = query.all("command");
    if command.iter().all(String::is_empty) {
        return Err(ApiError::bad_request("you must specify a command for the container"));
    }
    if json::text(&pod, "/spec/nodeName").is_empty() {
        return Err(ApiError::bad_request(format!(
            "pod {} does not have a host assigned",
            key.name
        )));
    }
    let instance = server.registry.instance(json::text(&pod, "/metadata/uid"), &container);
    let instance = instance.ok_or_else(|| {
        ApiError::internal(format!(
            "unable to upgrade connection: container not found (\"{container}\")"
        ))
    })?;

    let (mut parts, _) = request.into_parts();
    let cut = parts.extensions.get::<CutAfter>().map(|cut| cut.0);
    let protocols = match parts.extensions.get::<OnlyV4>() {
        Some(OnlyV4) => &["v4.channel.k8s.io"][..],
        None => &["v5.channel.k8s.io", "v4.channel.k8s.io"],
    };
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|_| ApiError::bad_request("Upgrade request required"))?;
    let upgrade = upgrade
        .protocols(protocols.iter().copied())
        .max_message_size(LARGEST_FRAME);
    let Some(protocol) = upgrade.selected_protocol() else {
        return Err(ApiError::new(
            403,
            "Forbidden",
            "no supported protocol: v5.channel.k8s.io or v4.channel.k8s.io",
        ));
    };
    let closes = protocol.as_bytes().starts_with(b"v5");
    let session = Session {
        instance,
        container,
        command,
        channels,
        closes,
        cut,
    };
    let (tasks, shutdown, mut away) = (server.tasks.clone(), server.shutdown.clone(), server.faults.away());
    Ok(upgrade.on_upgrade(move |socket| {
        tasks.track_future(async move {
            tokio::select! {
                () = session.run(socket) => {}
                () = shutdown.cancelled() => {}
                _ = away.changed() => {}
            }
        })
    }))
}
