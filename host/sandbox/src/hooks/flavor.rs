//! `flavor-sizing`: a flavor, if one is asked for, and a workload in; sizes by role and by name out.

use runner_core::flavor::{Flavor, Sizing};
use runner_core::workload::WorkloadSpec;

use super::{Caller, Hook, Reply};
use crate::bindings::exports::runner::policy::flavor_sizing::GuestIndices;
use crate::convert;
use crate::error::CallError;

pub(crate) async fn size(
    caller: &Caller,
    at: &GuestIndices,
    flavor: Option<&Flavor>,
    spec: &WorkloadSpec,
) -> Result<Reply<Sizing>, CallError> {
    const HOOK: &str = Hook::FlavorSizing.as_str();
    let (at, flavor, workload) = (at.clone(), flavor.map(convert::flavor_out), convert::workload(spec));
    let answer = caller
        .call(HOOK, None, move |store, instance| {
            Box::pin(async move {
                at.load(&mut *store, instance)?
                    .call_size(store, flavor.as_ref(), &workload)
                    .await
            })
        })
        .await?;
    let reply = answer
        .split()
        .map_err(|rejection| caller.refused(HOOK, convert::rejection(rejection)))?;
    reply
        .check(&caller.limits, |sizing, _| Ok(convert::sizing(sizing, spec)?))
        .map_err(|failure| caller.failed(HOOK, failure))
}
