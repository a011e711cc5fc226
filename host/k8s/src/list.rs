//! Lists: all pages or an error, never a part (S-223).

use bytes::Bytes;
use runner_core::Result;
use serde::Deserialize;
use serde_json::Value;

use crate::client::{Call, Cluster, Shape};
use crate::error::Failure;
use crate::wire::{Lean as _, ListMetadata, Object, ObjectList};

/// Objects of one page.
const PAGE: usize = 500;
/// Starts of a list whose continue token expired half-way.
const STARTS: usize = 3;

/// A part of a list.
#[derive(Deserialize)]
pub(crate) struct Page<T> {
    #[serde(default)]
    metadata: ListMetadata,
    items: Option<Vec<T>>,
}

impl<T> Page<T> {
    /// Its objects, and where the list goes on; nowhere at its end.
    pub(crate) fn split(self) -> (Vec<T>, Option<String>) {
        let next = Some(self.metadata.next).filter(|next| !next.is_empty());
        (self.items.unwrap_or_default(), next)
    }
}

/// What a list can be made of.
pub(crate) trait Listed: Sized {
    /// Ask for it in its encoding.
    fn ask(call: Call, shape: Shape) -> Call;
    /// Read the answer; what has no `items` is no list.
    fn page(body: &Bytes) -> Result<Page<Self>, String>;
}

/// Lean, for lists that are read often.
impl Listed for Object {
    fn ask(call: Call, shape: Shape) -> Call {
        call.lean(shape)
    }

    fn page(body: &Bytes) -> Result<Page<Self>, String> {
        let ObjectList { metadata, items } = ObjectList::read(body)?;
        Ok(Page {
            metadata,
            items: Some(items),
        })
    }
}

/// With every field.
impl Listed for Value {
    fn ask(call: Call, shape: Shape) -> Call {
        call.shaped(shape)
    }

    fn page(body: &Bytes) -> Result<Page<Self>, String> {
        serde_json::from_slice(body).map_err(|e| format!("answer is no list: {e}"))
    }
}

impl Cluster {
    /// All objects that match, page by page; a token that expires half-way starts the list anew.
    pub(crate) async fn list_all<T: Listed>(
        &self,
        resource: &str,
        labels: &str,
        fields: &str,
        shape: Shape,
    ) -> Result<Vec<T>> {
        let mut starts = 1;
        loop {
            match self.list_pages(resource, labels, fields, shape).await {
                Err(failure) if failure.is_expired() && starts < STARTS => starts += 1,
                result => return result.map_err(Failure::into_error),
            }
        }
    }

    async fn list_pages<T: Listed>(
        &self,
        resource: &str,
        labels: &str,
        fields: &str,
        shape: Shape,
    ) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        let mut from = None;
        loop {
            let target = self.target(resource, labels, fields, PAGE, from.as_deref())?;
            let (items, next) = self.list_page(target, shape).await?.split();
            all.extend(items);
            from = next;
            if from.is_none() {
                return Ok(all);
            }
        }
    }

    /// The page at this path and query.
    pub(crate) async fn list_page<T: Listed>(&self, target: String, shape: Shape) -> Result<Page<T>, Failure> {
        self.read_with(&T::ask(Call::get(target), shape), T::page).await
    }

    /// Path and query of a page; blank parts are left out. `from` is where the page before ended.
    pub(crate) fn target(
        &self,
        resource: &str,
        labels: &str,
        fields: &str,
        limit: usize,
        from: Option<&str>,
    ) -> Result<String, Failure> {
        let mut target = format!("{}?limit={limit}", self.path(resource, None)?);
        for (key, value) in [
            ("labelSelector", labels),
            ("fieldSelector", fields),
            ("continue", from.unwrap_or_default()),
        ] {
            if !value.is_empty() {
                target.push_str(&format!("&{key}={}", encode(value)));
            }
        }
        Ok(target)
    }
}

/// Percent-encode a query value.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded() {
        assert_eq!(encode("a/b=c,d"), "a%2Fb%3Dc%2Cd");
    }
}
