//! Creating one object of an attempt: tried again while that may help, read before it is posted again, never adopted from
//! another attempt (C-32, C-33).

use futures::future;
use runner_core::{Error, labels};
use tokio_util::sync::CancellationToken;

use super::{Attempt, CREATE_BUDGET, LATE, Made};
use crate::client::{Call, Shape, found};
use crate::error::Failure;
use crate::retry::Retry;
use crate::secrets::PlannedSecret;
use crate::wire::Object;

/// Why an object was not created, and whether it may be there all the same.
pub(super) struct NotCreated {
    pub(super) failure: Failure,
    pub(super) unknown: bool,
}

impl Attempt {
    /// All Secrets, or those that were made and the first failure.
    pub(super) async fn create_secrets(
        &self,
        secrets: &[PlannedSecret],
        gone: &CancellationToken,
    ) -> (Vec<Made>, Option<Failure>) {
        let Some((first, rest)) = secrets.split_first() else {
            return (Vec::new(), None);
        };
        // The first one decides between two starts of one id, also those of two processes: whoever does not get it makes
        // none. All at once, each could get some, and neither would start.
        let mut results = vec![self.create_secret(first, gone).await];
        if results.iter().all(Result::is_ok) {
            results.extend(future::join_all(rest.iter().map(|s| self.create_secret(s, gone))).await);
        }
        let mut made = Vec::new();
        let mut first_failure = None;
        for (secret, result) in secrets.iter().zip(results) {
            match result {
                Ok(uid) => made.push(Made {
                    name: secret.name.clone(),
                    uid,
                }),
                Err(not_created) => {
                    if not_created.unknown {
                        made.extend(self.resolve_secret(&secret.name).await);
                    }
                    first_failure.get_or_insert(not_created.failure);
                }
            }
        }
        (made, first_failure)
    }

    async fn create_secret(&self, secret: &PlannedSecret, gone: &CancellationToken) -> Result<String, NotCreated> {
        let known = |failure| NotCreated {
            failure,
            unknown: false,
        };
        let path = self.cluster.path("secrets", None).map_err(known)?;
        let call = Call::create(path, &secret.to_manifest(&self.id)).lean(Shape::Metadata);
        match self.create("secrets", &secret.name, &call, gone).await {
            Err(refused) if refused.failure.is_already_exists() && self.frees(&secret.name).await => {
                self.create("secrets", &secret.name, &call, gone).await
            }
            result => result,
        }
    }

    /// The Secret of that name was left by a start that is over, and is gone now (WG-06).
    async fn frees(&self, secret: &str) -> bool {
        match self.cluster.free_secret(&self.pod_name, secret).await {
            Ok(free) => free,
            Err(failure) => {
                tracing::warn!(secret, error = %failure, "a secret in the way of a start cannot be looked at");
                false
            }
        }
    }

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
            let failure = match self.write(call, gone).await {
                Ok(object) => return Ok(object.metadata.uid),
                Err(failure) => failure,
            };
            unknown |= failure.outcome_unknown();
            if unknown {
                match self.read_once(resource, name).await {
                    Ok(Some(object)) if self.is_ours(&object) => return Ok(object.metadata.uid),
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

    /// One write. Neither the caller's deadline nor its going away cuts it short: what it did would not be known, and a
    /// slow server would make the pod after its Secrets were removed. It gets [`LATE`] to come to its end.
    pub(super) async fn write(&self, call: &Call, gone: &CancellationToken) -> Result<Object, Failure> {
        let late = async {
            gone.cancelled().await;
            tokio::time::sleep(LATE).await;
        };
        tokio::select! {
            answer = self.writer.read_once(call) => answer,
            () = late => Err(Failure::Timeout),
        }
    }

    async fn read_once(&self, resource: &str, name: &str) -> Result<Option<Object>, Failure> {
        let path = self.cluster.path(resource, Some(name))?;
        found(self.cluster.read_once(&Call::get(path).lean(Shape::Metadata)).await)
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
        tracing::debug!(pod = self.pod_name, error = %self.shown(failure), ?pause, "trying again");
        match gone.run_until_cancelled(tokio::time::sleep(pause)).await {
            Some(()) => Ok(()),
            None => Err(Failure::Cancelled),
        }
    }

    /// Made by this attempt.
    pub(super) fn is_ours(&self, object: &Object) -> bool {
        object.metadata.annotations.get(labels::STARTUP_ATTEMPT) == Some(&self.id)
    }

    /// What the caller sees; logged once, here (S-717). Neither shows a value of the workload (C-35).
    pub(super) fn error(&self, failure: Failure) -> Error {
        let error = self.shown(&failure);
        tracing::error!(pod = self.pod_name, kind = ?error.kind, error = %error, "kubernetes api error");
        error
    }

    fn shown(&self, failure: &Failure) -> Error {
        self.redactor.clean(failure.to_error())
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
