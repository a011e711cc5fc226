//! `flavor-sizing`: a flavor, if one is asked for, and a workload in; sizes by role and by name out.

use runner_core::flavor::{Flavor, Sizing};
use runner_core::workload::WorkloadSpec;

use super::{Caller, Hook};
use crate::bindings::exports::runner::policy::flavor_sizing::GuestIndices;
use crate::convert;
use crate::error::CallError;

pub(crate) async fn size(
    caller: &Caller,
    at: &GuestIndices,
    flavor: Option<&Flavor>,
    spec: &WorkloadSpec,
) -> Result<Sizing, CallError> {
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
    match answer {
        Ok(sizing) => convert::sizing(sizing, spec).map_err(|reason| caller.failed(HOOK, reason)),
        Err(rejection) => Err(caller.refused(HOOK, convert::rejection(rejection))),
    }
}
