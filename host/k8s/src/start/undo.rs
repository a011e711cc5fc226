//! After a failed start: find out what exists, and remove the Secrets of this attempt, with time of its own (W-324).

use futures::future;
use runner_core::Result;

use super::create::NotCreated;
use super::{Attempt, Made, ROLL_BACK_BUDGET, Started};

impl Attempt {
    /// The pod was not created, or nobody knows (W-324).
    pub(super) async fn give_up(&self, not_created: NotCreated, made: Vec<Made>) -> Result<Started> {
        let NotCreated { failure, unknown } = not_created;
        if unknown {
            match self.unhurried().find_metadata("pods", &self.pod_name).await {
                Ok(Some(pod)) if self.is_ours(&pod) => {
                    return Ok(self.finish(pod.metadata.uid, made));
                }
                Ok(_) => {}
                Err(unreadable) => {
                    tracing::warn!(pod = self.pod_name, error = %unreadable, "start-up secrets kept: pod cannot be read");
                    return Err(self.error(failure));
                }
            }
        }
        self.remove_secrets(&made).await;
        Err(self.error(failure))
    }

    /// A Secret whose creation has an unknown outcome.
    pub(super) async fn resolve_secret(&self, name: &str) -> Option<Made> {
        match self.unhurried().find_metadata("secrets", name).await {
            Ok(Some(secret)) if self.is_ours(&secret) => Some(Made {
                name: name.to_owned(),
                uid: secret.metadata.uid,
            }),
            Ok(_) => None,
            Err(failure) => {
                tracing::warn!(secret = name, error = %failure, "start-up secret may be left behind");
                None
            }
        }
    }

    pub(super) async fn remove_secrets(&self, made: &[Made]) {
        let cluster = self.unhurried();
        let all = future::join_all(
            made.iter()
                .map(|s| cluster.delete("secrets", &s.name, Some(&s.uid), None)),
        );
        match tokio::time::timeout(ROLL_BACK_BUDGET, all).await {
            Ok(results) => {
                for (secret, result) in made.iter().zip(results) {
                    if let Err(failure) = result {
                        tracing::error!(secret = secret.name, error = %failure, "failed to delete pull secrets");
                    }
                }
            }
            Err(_) => tracing::error!(pod = self.pod_name, "failed to delete pull secrets: no time left"),
        }
    }
}
