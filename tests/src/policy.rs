//! A policy to plan with: what `runner-host plan` does, in this process.

use runner_host::config::{PlanConfig, PlanOptions};
use runner_host::proto::runner_v1::StartWorkloadRequest;
use runner_host::{convert, plan, policy};
use runner_sandbox::{Document, Revision};

use crate::runner::{engine, plugin_cache};

/// Settings, plugins and a catalog.
pub struct Policy {
    config: PlanConfig,
    revision: Revision,
}

impl Policy {
    /// With settings as the environment gives them; what does not load ends the test.
    pub async fn load(options: PlanOptions, catalog: Option<&str>) -> Self {
        let options = PlanOptions {
            plugin_cache: Some(plugin_cache()),
            ..options
        };
        let mut config = options.check().unwrap();
        config.policy.documents = catalog.map(document).into_iter().collect();
        let revision = policy::load(engine(), &config.policy).await.unwrap();
        Self { config, revision }
    }

    /// What a request becomes.
    pub async fn plan(&self, namespace: &str, request: StartWorkloadRequest) -> runner_core::Result<plan::Plan> {
        let settings = plan::Settings {
            namespace,
            claim_defaults: &self.config.claim_defaults,
        };
        plan::plan(convert::start::spec(request)?, &self.revision, settings).await
    }
}

fn document(text: &str) -> Document {
    Document {
        name: "catalog.yaml".to_owned(),
        text: text.to_owned(),
    }
}

/// Settings with this implementation of `docker`.
pub fn docker(implementation: &str) -> PlanOptions {
    PlanOptions {
        capability_implementations: Some(format!(r#"{{"docker":"{implementation}"}}"#)),
        ..PlanOptions::default()
    }
}
