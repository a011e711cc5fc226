//! `capability-policy`: the offered capabilities, and the changes of the pod for one of them.

use std::sync::Arc;

use runner_core::capability::{Applied, Capability};
use runner_core::workload::WorkloadSpec;
use serde_json::Value;

use super::{Caller, Hook, Reply};
use crate::bindings::exports::runner::policy::capability_policy::GuestIndices;
use crate::convert;
use crate::error::CallError;

const HOOK: &str = Hook::CapabilityPolicy.as_str();

pub(crate) async fn capabilities(caller: &Caller, at: &GuestIndices) -> Result<Vec<Capability>, CallError> {
    let at = at.clone();
    let answer = caller
        .call(HOOK, None, move |store, instance| {
            Box::pin(async move { at.load(&mut *store, instance)?.call_capabilities(store).await })
        })
        .await?;
    convert::capabilities(answer.value).map_err(|reason| caller.failed(HOOK, reason))
}

pub(crate) async fn apply(
    caller: &Caller,
    at: &GuestIndices,
    capability: &str,
    workload: &WorkloadSpec,
    pod: Arc<Value>,
) -> Result<Reply<Applied>, CallError> {
    let (at, capability, workload) = (at.clone(), capability.to_owned(), convert::workload(workload));
    let answer = caller
        .call(HOOK, Some(pod), move |store, instance| {
            Box::pin(async move {
                at.load(&mut *store, instance)?
                    .call_apply(store, &capability, &workload)
                    .await
            })
        })
        .await?;
    let reply = answer
        .split()
        .map_err(|rejection| caller.refused(HOOK, convert::rejection(rejection)))?;
    reply
        .check(&caller.limits, convert::applied)
        .map_err(|failure| caller.failed(HOOK, failure))
}
