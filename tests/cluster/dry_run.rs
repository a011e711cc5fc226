//! What the API server says of an object, without making it.

use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::NamespaceResourceScope;
use runner_tests::Runner;
use serde_json::Value;

/// As it is, not as our types read it.
pub(crate) async fn accepts<K>(runner: &Runner, manifest: Value) -> Result<(), String>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let client = runner.cluster().client().clone();
    let resource = ApiResource::erase::<K>(&());
    let api = Api::<DynamicObject>::namespaced_with(client, runner.cluster().namespace(), &resource);
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let object = serde_json::from_value(manifest).unwrap();
    match api.create(&dry_run, &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(format!("the API server refuses what was planned: {}", status.message)),
        Err(error) => Err(format!("the API server does not answer: {error}")),
    }
}
