//! Lists: selectors, pages of one snapshot, and metadata-only shapes.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Request, header};
use serde_json::{Value, json};

use super::Query;
use crate::json;
use crate::resource::Resource;
use crate::selector::Selector;
use crate::server::Server;
use crate::status::{ApiError, Result, json_response};

/// How the client wants its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Full,
    Metadata,
}

impl Shape {
    pub(super) fn of(request: &Request<Body>) -> Self {
        let accept = request
            .headers()
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        // The first that can be served, as a client that also takes plain JSON lists it later.
        let first = accept
            .split(',')
            .find(|kind| !kind.contains("as=Table") && !kind.contains("protobuf"));
        if first.is_some_and(|kind| kind.contains("as=PartialObjectMetadata")) {
            Self::Metadata
        } else {
            Self::Full
        }
    }

    pub(super) fn object(self, object: &Value) -> Value {
        match self {
            Self::Full => object.clone(),
            Self::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": object.get("metadata").cloned().unwrap_or_default(),
            }),
        }
    }

    fn list(self, resource: Resource) -> (&'static str, String) {
        match self {
            Self::Full => (resource.api_version(), format!("{}List", resource.kind())),
            Self::Metadata => ("meta.k8s.io/v1", "PartialObjectMetadataList".to_owned()),
        }
    }
}

pub(super) fn selector(resource: Resource, query: &Query) -> Result<Selector> {
    let (labels, fields) = (query.get("labelSelector"), query.get("fieldSelector"));
    Selector::parse(resource, labels.unwrap_or_default(), fields.unwrap_or_default())
}

pub(super) fn list(
    server: &Arc<Server>,
    resource: Resource,
    namespace: Option<&str>,
    request: &Request<Body>,
    query: &Query,
) -> Result<Response> {
    let selector = selector(resource, query)?;
    let limit: usize = query.number("limit")?.unwrap_or(0);
    let (revision, after, objects) = match query.get("continue") {
        None => {
            let (revision, objects) = server.store.list(resource, namespace);
            (revision, None, objects)
        }
        Some(token) => {
            let token = Token::decode(token)?;
            (
                token.revision,
                Some(token.after),
                server.store.list_at(resource, namespace, token.revision)?,
            )
        }
    };
    let position = |object: &Value| {
        (
            json::text(object, "/metadata/namespace").to_owned(),
            json::text(object, "/metadata/name").to_owned(),
        )
    };
    let mut found = objects
        .iter()
        .filter(|object| after.as_ref().is_none_or(|after| position(object) > *after))
        .filter(|object| selector.matches(object));
    let page: Vec<&Arc<Value>> = if limit == 0 {
        found.by_ref().collect()
    } else {
        found.by_ref().take(limit).collect()
    };
    let left = found.count();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some(last) = page.last().filter(|_| left > 0) {
        let token = Token {
            revision,
            after: position(last),
        };
        json::set(&mut metadata, &[], "continue", token.encode());
        json::set(&mut metadata, &[], "remainingItemCount", left);
    }
    let shape = Shape::of(request);
    let items: Vec<Value> = page.into_iter().map(|object| item(shape, object)).collect();
    let (version, kind) = shape.list(resource);
    Ok(json_response(
        200,
        &json!({"kind": kind, "apiVersion": version, "metadata": metadata, "items": items}),
    ))
}

/// Objects in a typed list do not repeat their kind.
fn item(shape: Shape, object: &Value) -> Value {
    let mut item = shape.object(object);
    if shape == Shape::Full {
        json::remove(&mut item, &[], "kind");
        json::remove(&mut item, &[], "apiVersion");
    }
    item
}

/// Where a list goes on: after this object, of this version.
struct Token {
    revision: u64,
    after: (String, String),
}

impl Token {
    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!([self.revision, self.after.0, self.after.1]).to_string())
    }

    fn decode(text: &str) -> Result<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let parts: Option<(u64, String, String)> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let (revision, namespace, name) =
            parts.ok_or_else(|| ApiError::bad_request("continue key is not valid: invalid continue token"))?;
        Ok(Self {
            revision,
            after: (namespace, name),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_way() {
        let token = Token {
            revision: 7,
            after: ("n".into(), "a".into()),
        };
        let back = Token::decode(&token.encode()).unwrap();
        assert_eq!((back.revision, back.after), (7, ("n".to_owned(), "a".to_owned())));
        assert_eq!(Token::decode("!").err().unwrap().code, 400);
    }
}
