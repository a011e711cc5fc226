//! Creating one object of an attempt: tried again while that may help, read before it is posted again, never adopted from
//! another attempt (C-32, C-33).

use runner_core::labels;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Attempt, CREATE_BUDGET};
use crate::client::Call;
use crate::error::Failure;
use crate::json::{annotation, meta};
use crate::retry::Retry;

/// Why an object was not created, and whether it may be there all the same.
pub(super) struct NotCreated {
    pub(super) failure: Failure,
    pub(super) unknown: bool,
}

impl Attempt {
    /// Create an object of this attempt and answer its uid. After a try whose outcome is unknown the object is read
    /// before it is posted again; one that another attempt made is never adopted.
    pub(super) async fn create(
        &self,
        resource: &str,
        name: &str,
        call: &Call,
        gone: &CancellationToken,
    ) -> Result<String, NotCreated> {
        let mut tries = self.cluster.tries(CREATE_BUDGET);
        let mut unknown = false;
        loop {
            let failure = match self.cluster.call(call).await {
                Ok(object) => return Ok(meta(&object, "uid").unwrap_or_default().to_owned()),
                Err(failure) => failure,
            };
            unknown |= failure.outcome_unknown();
            if unknown {
                match self.read_once(resource, name).await {
                    Ok(Some(object)) if self.is_ours(&object) => {
                        return Ok(meta(&object, "uid").unwrap_or_default().to_owned());
                    }
                    Ok(Some(_)) => {
                        // somebody else's; then ours cannot have been made
                        let exists = exists_already(resource, name);
                        return Err(NotCreated {
                            failure: exists,
                            unknown: false,
                        });
                    }
                    // unreadable: names are unique, so to post again is safe; the next answer tells
                    Ok(None) | Err(_) => {}
                }
            }
            if let Err(failure) = self.pause(&mut tries, &failure, gone).await {
                return Err(NotCreated { failure, unknown });
            }
        }
    }

    async fn read_once(&self, resource: &str, name: &str) -> Result<Option<Value>, Failure> {
        match self
            .cluster
            .call(&Call::get(self.cluster.path(resource, Some(name))?))
            .await
        {
            Ok(object) => Ok(Some(object)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Wait for the next try, or give the failure back when there is none. A caller that went away ends the wait.
    pub(super) async fn pause(
        &self,
        tries: &mut Retry,
        failure: &Failure,
        gone: &CancellationToken,
    ) -> Result<(), Failure> {
        let Some(pause) = tries.pause(failure) else {
            return Err(failure.clone());
        };
        tracing::debug!(pod = self.pod_name, error = %failure, ?pause, "trying again");
        match gone.run_until_cancelled(tokio::time::sleep(pause)).await {
            Some(()) => Ok(()),
            None => Err(Failure::Cancelled),
        }
    }

    /// Made by this attempt.
    pub(super) fn is_ours(&self, object: &Value) -> bool {
        annotation(object, labels::STARTUP_ATTEMPT) == Some(self.id.as_str())
    }
}

fn exists_already(resource: &str, name: &str) -> Failure {
    let status = kube::core::Status::failure(&format!("{resource} {name:?} already exists"), "AlreadyExists");
    Failure::Api {
        code: 409,
        status: Box::new(status),
        retry_after: None,
    }
}
