//! `pod-mutation`: the finished pod is read lazily, the changes come back.

use std::sync::Arc;

use runner_core::edit::Edit;
use runner_core::workload::WorkloadSpec;
use serde_json::Value;

use super::{Caller, Hook, Reply};
use crate::bindings::exports::runner::policy::pod_mutation::GuestIndices;
use crate::convert;
use crate::error::CallError;

pub(crate) async fn mutate(
    caller: &Caller,
    at: &GuestIndices,
    workload: &WorkloadSpec,
    pod: Arc<Value>,
) -> Result<Reply<Vec<Edit>>, CallError> {
    const HOOK: &str = Hook::PodMutation.as_str();
    let (at, workload) = (at.clone(), convert::workload(workload));
    let answer = caller
        .call(HOOK, Some(pod), move |store, instance| {
            Box::pin(async move { at.load(&mut *store, instance)?.call_mutate(store, &workload).await })
        })
        .await?;
    let reply = answer
        .split()
        .map_err(|rejection| caller.refused(HOOK, convert::rejection(rejection)))?;
    reply
        .check(&caller.limits, convert::edits)
        .map_err(|failure| caller.failed(HOOK, failure))
}
