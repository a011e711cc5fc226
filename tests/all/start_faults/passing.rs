//! Faults that pass by themselves, and those that do not (C-32, C-33, R-19).

use std::time::{Duration, Instant};

use futures::future::join_all;
use runner_embedded::Fault;
use runner_tests::request::idle;
use runner_tests::{Runner, faults};
use tonic::{Code, Request};

use super::scene::{Scene, at_each_write, with_deadline};

/// C-32, C-35, R-19: faults that pass are waited out, at least as long as asked, at each write.
#[tokio::test(flavor = "multi_thread")]
async fn passing() {
    let webhook = "Internal error occurred: failed calling webhook \"v.example\": context deadline exceeded";
    at_each_write(async |mut scene, path, nth| {
        for (action, least) in [
            (faults::throttled(1), 2),
            (faults::status(500, "InternalError", "etcdserver: request timed out"), 0),
            (faults::status(500, "InternalError", webhook), 0),
            (
                faults::status(503, "ServiceUnavailable", "apiserver is shutting down"),
                0,
            ),
        ] {
            let request = scene.request();
            let fault = Fault {
                method: "POST".into(),
                path_contains: path.into(),
                times: 2,
                action,
            };
            scene.embedded().faults().fail_after(nth, fault);
            let before = Instant::now();
            let id = scene
                .runner
                .client()
                .start_workload(request)
                .await
                .unwrap()
                .into_inner()
                .id;
            // two Secrets are made side by side and may share the two faults
            let least = if path == "/secrets" { least / 2 } else { least };
            assert!(
                before.elapsed() >= Duration::from_secs(least),
                "{path}: {:?}",
                before.elapsed()
            );
            scene.whole(&id).await;
            scene.remove(&id).await;
        }
        scene.runner.stop().await;
    })
    .await;
}

/// C-32: a create that may have happened is looked up before it is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn looks_before_it_repeats() {
    let mut scene = Scene::new().await;
    let before = faults::asked(scene.embedded(), "GET", "/pods/workload-");
    faults::next(
        scene.embedded(),
        "POST",
        "/pods",
        2,
        faults::status(500, "InternalError", "etcdserver: request timed out"),
    );
    let request = scene.request();
    scene.runner.begin(request).await;
    // one for the missing claim, then one after each failure
    assert_eq!(faults::asked(scene.embedded(), "GET", "/pods/workload-"), before + 3);
    scene.runner.stop().await;
}

/// C-32, C-35, R-19: what does not pass ends in time and is not INTERNAL.
#[tokio::test(flavor = "multi_thread")]
async fn for_ever() {
    let webhook = "failed calling webhook \"v.example\": context deadline exceeded";
    at_each_write(async |mut scene, path, nth| {
        for action in [faults::throttled(1), faults::status(500, "InternalError", webhook)] {
            let request = scene.request();
            scene.embedded().faults().fail_after(
                nth,
                Fault {
                    method: "POST".into(),
                    path_contains: path.into(),
                    times: 1000,
                    action,
                },
            );
            let before = Instant::now();
            let status = scene
                .runner
                .client()
                .start_workload(with_deadline(&request, 3))
                .await
                .unwrap_err();
            let codes = [Code::DeadlineExceeded, Code::Cancelled, Code::Unavailable];
            assert!(codes.contains(&status.code()), "{path}: {status:?}");
            assert!(before.elapsed() < Duration::from_secs(6), "{:?}", before.elapsed());
            scene.clean(&request.workload_id).await;
            scene.succeeds(request).await;
        }
        scene.runner.stop().await;
    })
    .await;
}

/// C-33: 20 at once, each first try meets a conflict on the quota.
#[tokio::test(flavor = "multi_thread")]
async fn quota_conflicts() {
    let runner = Runner::start().await;
    let embedded = runner.embedded().unwrap();
    let conflict = "Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified";
    faults::next(embedded, "POST", "/pods", 20, faults::status(409, "Conflict", conflict));
    let starts = (0..20).map(|_| {
        let mut request = idle();
        request.image_pull_credentials = vec![runner_tests::request::credential()];
        let mut client = runner.client();
        async move { client.start_workload(request).await }
    });
    for started in join_all(starts).await {
        started.unwrap();
    }
    // 20 conflicts and 20 successes, and no Secret was made twice
    assert_eq!(faults::asked(embedded, "POST", "/pods"), 40);
    assert_eq!(faults::asked(embedded, "POST", "/secrets"), 20);
    assert_eq!(faults::asked(embedded, "DELETE", "/secrets"), 0);
    // one that stays is retryable
    faults::next(
        embedded,
        "POST",
        "/pods",
        1000,
        faults::status(409, "Conflict", conflict),
    );
    let mut request = Request::new(idle());
    request.set_timeout(Duration::from_secs(2));
    let status = runner.client().start_workload(request).await.unwrap_err();
    let codes = [
        Code::Aborted,
        Code::Unavailable,
        Code::DeadlineExceeded,
        Code::Cancelled,
    ];
    assert!(codes.contains(&status.code()), "{status:?}");
    embedded.faults().clear();
    runner.stop().await;
}
