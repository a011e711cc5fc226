//! The embedded cluster is spoken to like any other: through a kubeconfig and HTTP.

use runner_embedded::Embedded;
use runner_k8s::{Cluster, Connection, Source};

/// Connect to the namespace of an embedded cluster.
pub async fn connect(embedded: &Embedded) -> anyhow::Result<Cluster> {
    let kubeconfig = serde_json::from_value(embedded.kubeconfig())?;
    let connection = Connection {
        source: Source::Document(Box::new(kubeconfig)),
        ..Connection::default()
    };
    Ok(Cluster::connect(connection, embedded.namespace()).await?)
}
