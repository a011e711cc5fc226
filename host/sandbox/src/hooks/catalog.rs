//! `catalog-mapping`: documents in, a checked catalog or every diagnostic out.

use runner_core::catalog::{Catalog, Diagnostic};

use super::{Caller, Hook};
use crate::bindings::exports::runner::policy::catalog_mapping::{Document, GuestIndices};
use crate::convert;
use crate::error::CallError;
use crate::revision;

pub(crate) async fn load(
    caller: &Caller,
    at: &GuestIndices,
    documents: &[revision::Document],
) -> Result<Result<Catalog, Vec<Diagnostic>>, CallError> {
    const HOOK: &str = Hook::CatalogMapping.as_str();
    let documents: Vec<Document> = documents
        .iter()
        .map(|d| Document {
            name: d.name.clone(),
            text: d.text.clone(),
        })
        .collect();
    let at = at.clone();
    let answer = caller
        .call(HOOK, None, move |store, instance| {
            Box::pin(async move { at.load(&mut *store, instance)?.call_load(store, &documents).await })
        })
        .await?;
    match answer.value {
        Ok(catalog) => Ok(Ok(
            convert::catalog(catalog).map_err(|reason| caller.failed(HOOK, reason))?
        )),
        Err(diagnostics) if diagnostics.is_empty() => {
            Err(caller.failed(HOOK, "it refused the documents without saying why".to_owned()))
        }
        Err(diagnostics) => Ok(Err(diagnostics.into_iter().map(convert::diagnostic).collect())),
    }
}
