//! Failures as a Kubernetes API server words them: a `Status` document with its HTTP code. Clients match on `reason`,
//! `code` and sometimes on the message, so the texts follow the real server's.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::resource::Resource;

#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) details: Value,
    pub(crate) retry_after: Option<u32>,
}

pub(crate) type Result<T> = std::result::Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: Value::Null,
            retry_after: None,
        }
    }

    fn about(mut self, resource: Resource, name: &str) -> Self {
        self.details = json!({"name": name, "kind": resource.plural()});
        if !resource.group().is_empty() {
            crate::json::set(&mut self.details, &[], "group", resource.group());
        }
        self
    }

    pub(crate) fn not_found(resource: Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", named(resource))).about(resource, name)
    }

    pub(crate) fn already_exists(resource: Resource, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", named(resource)),
        )
        .about(resource, name)
    }

    pub(crate) fn conflict(resource: Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", named(resource));
        Self::new(409, "Conflict", message).about(resource, name)
    }

    pub(crate) fn modified(resource: Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn unknown_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// 422 with one cause for each field.
    pub(crate) fn invalid(resource: Resource, name: &str, causes: &[Cause]) -> Self {
        let texts: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let text = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut error = Self::new(
            422,
            "Invalid",
            format!("{} \"{name}\" is invalid: {text}", resource.kind()),
        );
        let causes: Vec<Value> = causes
            .iter()
            .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
            .collect();
        error.details = json!({"name": name, "kind": resource.kind(), "causes": causes});
        error
    }

    pub(crate) fn document(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        let mut details = self.details.clone();
        if let Some(seconds) = self.retry_after {
            crate::json::set(&mut details, &[], "retryAfterSeconds", seconds);
        }
        if !details.is_null() {
            crate::json::set(&mut status, &[], "details", details);
        }
        status
    }

    pub(crate) fn response(&self) -> Response {
        let mut response = json_response(self.code, &self.document());
        if let Some(seconds) = self.retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// As messages name a resource.
fn named(resource: Resource) -> String {
    match resource.group() {
        "" => resource.plural().to_owned(),
        group => format!("{}.{group}", resource.plural()),
    }
}

/// What is wrong with one field.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn required(field: impl Into<String>, more: &str) -> Self {
        let message = if more.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {more}")
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {value}: {why}"),
        }
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &str) -> Self {
        let message = format!("Duplicate value: \"{value}\"");
        Self {
            reason: "FieldValueDuplicate",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn missing(field: impl Into<String>, value: &str) -> Self {
        Self {
            reason: "FieldValueNotFound",
            field: field.into(),
            message: format!("Not found: \"{value}\""),
        }
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: &str, valid: &[&str]) -> Self {
        let valid: Vec<String> = valid.iter().map(|item| format!("\"{item}\"")).collect();
        let message = format!("Unsupported value: \"{value}\": supported values: {}", valid.join(", "));
        Self {
            reason: "FieldValueNotSupported",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            message: format!("Forbidden: {why}"),
        }
    }
}

pub(crate) fn json_response(code: u16, document: &Value) -> Response {
    let mut response = Response::new(Body::from(document.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn text_response(text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
