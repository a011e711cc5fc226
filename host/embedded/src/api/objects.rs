//! One object: create, get, replace, patch, delete.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::{Request, header};
use serde_json::{Value, json};

use super::list::Shape;
use super::{Query, read_body};
use crate::patch::Edit;
use crate::resource::{Key, Resource};
use crate::server::Server;
use crate::status::{ApiError, Result, json_response};
use crate::store::DeleteOptions;
use crate::{defaults, json, validate};

pub(super) fn get(server: &Arc<Server>, key: &Key, request: &Request<Body>) -> Result<Response> {
    let object = server.store.find(key)?;
    Ok(json_response(200, &Shape::of(request).object(&object)))
}

pub(super) async fn create(
    server: &Arc<Server>,
    resource: Resource,
    namespace: &str,
    request: Request<Body>,
    query: &Query,
) -> Result<Response> {
    let dry_run = query.dry_run()?;
    let mut object = read_object(resource, request).await?;
    if !json::text(&object, "/metadata/resourceVersion").is_empty() {
        return Err(ApiError::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let given = json::text(&object, "/metadata/namespace");
    if !given.is_empty() && given != namespace {
        return Err(ApiError::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request: {given} is not {namespace}"
        )));
    }
    json::set(&mut object, &["metadata"], "namespace", namespace);
    defaults::apply(resource, &mut object, server.storage_class.as_deref());
    validate::check(resource, &object)?;
    let created = server.store.create(&Key::of(resource, &object), object, dry_run)?;
    Ok(json_response(201, &created))
}

pub(super) async fn replace(
    server: &Arc<Server>,
    key: &Key,
    status: bool,
    request: Request<Body>,
    query: &Query,
) -> Result<Response> {
    let object = read_object(key.resource, request).await?;
    update(server, key, status, Edit::Replace(object), query)
}

pub(super) async fn patch(
    server: &Arc<Server>,
    key: &Key,
    status: bool,
    request: Request<Body>,
    query: &Query,
) -> Result<Response> {
    let content_type = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let body = read_body(request).await?;
    update(server, key, status, Edit::patch(&content_type, &body)?, query)
}

fn update(server: &Arc<Server>, key: &Key, status: bool, edit: Edit, query: &Query) -> Result<Response> {
    let updated = server
        .store
        .update(key, query.dry_run()?, |old, new| edit.apply(key, status, old, new))?;
    Ok(json_response(200, &updated))
}

pub(super) async fn delete(server: &Arc<Server>, key: &Key, request: Request<Body>, query: &Query) -> Result<Response> {
    let body = read_body(request).await?;
    let body: Value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&body)
            .map_err(|error| ApiError::bad_request(format!("error decoding DeleteOptions: {error}")))?
    };
    let text = |pointer: &str| Some(json::text(&body, pointer).to_owned()).filter(|text| !text.is_empty());
    let dry_run = query.dry_run()? || json::list(&body, "/dryRun").iter().any(|value| value == "All");
    let grace = body.get("gracePeriodSeconds").and_then(Value::as_i64);
    let options = DeleteOptions {
        grace: grace.or(query.number("gracePeriodSeconds")?),
        uid: text("/preconditions/uid"),
        resource_version: text("/preconditions/resourceVersion"),
        dry_run,
    };
    let (object, gone) = server.store.delete(key, &options)?;
    // The real server answers with the object for these two, and for any that stays for now.
    if !gone || matches!(key.resource, Resource::Pods | Resource::Claims) {
        return Ok(json_response(200, &object));
    }
    let uid = json::text(&object, "/metadata/uid");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": key.name, "kind": key.resource.plural(), "uid": uid},
    });
    Ok(json_response(200, &status))
}

async fn read_object(resource: Resource, request: Request<Body>) -> Result<Value> {
    let content_type = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    if let Some(other) = content_type.filter(|kind| !kind.starts_with("application/json")) {
        let message = format!("the body of the request was in an unknown format: {other}");
        return Err(ApiError::new(415, "UnsupportedMediaType", message));
    }
    let body = read_body(request).await?;
    let object: Value = serde_json::from_slice(&body)
        .map_err(|error| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}")))?;
    let kind = json::text(&object, "/kind");
    if !object.is_object() || (!kind.is_empty() && kind != resource.kind()) {
        let expected = resource.kind();
        let version = resource.api_version();
        let message = format!("{kind} in version \"{version}\" cannot be handled as a {expected}");
        return Err(ApiError::bad_request(message));
    }
    Ok(object)
}
