//! What a killed start left behind, and no sweeper (WG-06, C-34).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use runner_embedded::{Action, Embedded};
use runner_host::proto::runner_v1::*;
use runner_tests::mortal::Mortal;
use runner_tests::request::{credential, idle};
use runner_tests::{faults, wait};
use tonic::Code;

/// WG-06, W-322, R-04: the id is taken while the start may still be under way; a removal makes it free at once, also
/// without the right to list Secrets.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_start_is_removed() {
    let embedded = Embedded::start(Default::default()).await.unwrap();
    let cluster = runner_host::embedded::connect(&embedded).await.unwrap();
    let secrets = kube::Api::<Secret>::namespaced(cluster.client().clone(), embedded.namespace());
    let left = async || secrets.list(&ListParams::default()).await.unwrap().items.len();
    for may_list in [true, false] {
        let mut request = idle();
        request.image_pull_credentials = vec![credential()];
        request.inline_files = BTreeMap::from([("/etc/one".to_owned(), b"1".to_vec())]);
        request.main.as_mut().unwrap().inline_file_mounts = vec![InlineFileMount {
            path: "/etc/one".into(),
        }];
        let runner = Mortal::start(&embedded, None).await;
        let before = faults::asked(&embedded, "POST", "/pods");
        faults::nth(&embedded, "POST", "/pods", 0, Action::Hang);
        let call = tokio::spawn({
            let (mut client, request) = (runner.client(), request.clone());
            async move { client.start_workload(request).await }
        });
        faults::until_asked(&embedded, "POST", "/pods", before + 1).await;
        runner.kill();
        call.await.unwrap().unwrap_err();
        assert_eq!(left().await, 2);

        let runner = Mortal::start(&embedded, None).await;
        let again = runner.client().start_workload(request.clone()).await.unwrap_err();
        assert_eq!(again.code(), Code::AlreadyExists);
        assert_eq!(left().await, 2);
        if !may_list {
            let forbidden = faults::status(403, "Forbidden", "secrets is forbidden: cannot list");
            faults::next(&embedded, "GET", "/secrets?", 1, forbidden);
        }
        let remove = RemoveWorkloadRequest {
            workload_id: request.workload_id.clone(),
            force: true,
            remove_volumes: true,
        };
        let gone = runner.client().remove_workload(remove.clone()).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound);
        assert_eq!(left().await, 0);
        runner.client().start_workload(request).await.unwrap();
        runner.client().remove_workload(remove).await.unwrap();
        wait::until("the secrets to go", async || match left().await {
            0 => Ok(()),
            n => Err(n),
        })
        .await;
        runner.kill();
    }
    embedded.shutdown().await;
}
