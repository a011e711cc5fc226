//! One call of a plugin and what it took, for authors who measure. No breaker and no chain: every call is made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use runner_core::flavor::Flavor;
use runner_core::workload::WorkloadSpec;
use serde_json::Value;

use crate::error::CallError;
use crate::hooks::{self, Hook, Reply};
use crate::plugin::Plugin;
use crate::revision::Document;
use crate::store::Used;

/// What a plugin is asked.
#[derive(Debug, Clone)]
pub enum Question {
    /// The catalog of documents.
    Catalog(Vec<Document>),
    /// How big a workload is.
    Size(Option<Box<Flavor>>, Box<WorkloadSpec>),
    /// What a capability changes.
    Apply(String, Box<WorkloadSpec>, Arc<Value>),
    /// What else changes.
    Mutate(Box<WorkloadSpec>, Arc<Value>),
}

/// What one call took.
#[derive(Debug, Clone)]
pub struct Measured {
    /// From a fresh instance to the checked answer.
    pub time: Duration,
    /// The rest; none for a call that was refused, and for catalogs.
    pub used: Option<Amounts>,
}

/// What one call used.
#[derive(Debug, Clone, Copy)]
pub struct Amounts {
    /// The most bytes of linear memory.
    pub memory: u64,
    /// Only with an engine that counts them.
    pub instructions: Option<u64>,
    /// Calls of the host.
    pub host_calls: u64,
    /// Bytes of the answer's texts.
    pub output_bytes: u64,
}

impl Plugin {
    /// Ask once. A refusal is an answer; an error is a call that failed.
    pub async fn measure(&self, question: &Question) -> Result<Measured, CallError> {
        let (caller, at) = (self.caller(), self.entrypoints());
        let start = Instant::now();
        let used = match question {
            Question::Catalog(documents) => {
                let at = self.at(at.catalog.as_ref(), Hook::CatalogMapping)?;
                drop(hooks::catalog::load(caller, at, documents).await?);
                None
            }
            Question::Size(flavor, spec) => {
                let at = self.at(at.flavor.as_ref(), Hook::FlavorSizing)?;
                used(hooks::flavor::size(caller, at, flavor.as_deref(), spec).await)?
            }
            Question::Apply(capability, spec, pod) => {
                let at = self.at(at.capability.as_ref(), Hook::CapabilityPolicy)?;
                used(hooks::capability::apply(caller, at, capability, spec, Arc::clone(pod)).await)?
            }
            Question::Mutate(spec, pod) => {
                let at = self.at(at.pod.as_ref(), Hook::PodMutation)?;
                used(hooks::pod::mutate(caller, at, spec, Arc::clone(pod)).await)?
            }
        };
        Ok(Measured {
            time: start.elapsed(),
            used,
        })
    }
}

fn used<T>(result: Result<Reply<T>, CallError>) -> Result<Option<Amounts>, CallError> {
    match result {
        Ok(reply) => Ok(Some(amounts(&reply.used))),
        Err(CallError::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn amounts(used: &Used) -> Amounts {
    Amounts {
        memory: used.memory,
        instructions: used.instructions,
        host_calls: used.host_calls,
        output_bytes: used.output_bytes,
    }
}
