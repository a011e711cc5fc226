//! StartWorkload while the API server fails, at every one of its writes: whatever happens, nothing of the attempt stays
//! behind, nothing of others is touched, and the same request succeeds once the fault is gone.

mod claims;
mod passing;
mod scene;

use std::time::{Duration, Instant};

use runner_embedded::Action;
use runner_tests::faults;
use tonic::Code;

use scene::{PASSWORD, Scene, TOKEN, WRITES, at_each_write, secrets, with_deadline};

/// W-323, W-324, WG-01, C-29, C-35: refusals at each write. Their text arrives, values of the workload do not.
#[tokio::test(flavor = "multi_thread")]
async fn refused() {
    let mut scene = Scene::new().await;
    let quota = "exceeded quota: q, requested: count/x=1, used: count/x=20, limited: count/x=20";
    let hook = "admission webhook \"v.example\" denied the request: [no-priv] container main may not run privileged";
    for (path, nth) in WRITES {
        for (code, reason, text, wanted) in [
            (403, "Forbidden", quota, Code::PermissionDenied),
            (403, "Forbidden", hook, Code::PermissionDenied),
            (400, "BadRequest", hook, Code::InvalidArgument),
            (422, "Invalid", "spec.x: Invalid value", Code::InvalidArgument),
            (500, "InternalError", "Internal error occurred: boom", Code::Internal),
        ] {
            let request = scene.request();
            let message = format!("{text} (TOKEN={TOKEN}, password {PASSWORD})");
            faults::nth(
                scene.embedded(),
                "POST",
                path,
                nth,
                faults::status(code, reason, &message),
            );
            let status = scene.runner.client().start_workload(request.clone()).await.unwrap_err();
            let case = format!("{path} {nth} {code}: {status:?}");
            assert_eq!(status.code(), wanted, "{case}");
            assert!(status.message().contains(text), "{case}");
            assert!(!case.contains(TOKEN) && !case.contains(PASSWORD), "{case}");
            // at once: the answer comes after the roll-back
            assert!(secrets(&scene.runner, &request.workload_id).await.is_empty(), "{case}");
            scene.clean(&request.workload_id).await;
            scene.succeeds(request).await;
        }
    }
    scene.runner.stop().await;
}

/// W-324, W-351, C-32: no answer before the caller's deadline.
#[tokio::test(flavor = "multi_thread")]
async fn hangs_until_the_deadline() {
    at_each_write(async |mut scene, path, nth| {
        let request = scene.request();
        faults::nth(scene.embedded(), "POST", path, nth, Action::Hang);
        let before = Instant::now();
        let status = scene
            .runner
            .client()
            .start_workload(with_deadline(&request, 1))
            .await
            .unwrap_err();
        // CANCELLED is what this client's own timer says
        let codes = [Code::DeadlineExceeded, Code::Cancelled, Code::Unavailable];
        assert!(codes.contains(&status.code()), "{path} {nth}: {status:?}");
        assert!(before.elapsed() < Duration::from_secs(4), "{:?}", before.elapsed());
        scene.clean(&request.workload_id).await;
        scene.succeeds(request).await;
        scene.runner.stop().await;
    })
    .await;
}

/// W-324, C-32: the write happened, the answer did not come; it is looked up and not done twice.
#[tokio::test(flavor = "multi_thread")]
async fn answer_is_lost() {
    let mut scene = Scene::new().await;
    for (path, nth) in WRITES {
        let request = scene.request();
        faults::nth(scene.embedded(), "POST", path, nth, Action::LoseAnswer);
        let before = faults::asked(scene.embedded(), "POST", "/pods");
        let id = scene
            .runner
            .client()
            .start_workload(request.clone())
            .await
            .unwrap()
            .into_inner()
            .id;
        assert_eq!(
            faults::asked(scene.embedded(), "POST", "/pods"),
            before + 1,
            "{path} {nth}"
        );
        scene.whole(&id).await;
        // R-04, W-322
        let again = scene.runner.client().start_workload(request).await.unwrap_err();
        assert_eq!(again.code(), Code::AlreadyExists);
        scene.whole(&id).await;
        scene.remove(&id).await;
    }
    scene.runner.stop().await;
}

/// W-324, WG-04: the caller goes away during each write.
#[tokio::test(flavor = "multi_thread")]
async fn caller_goes_away() {
    at_each_write(async |mut scene, path, nth| {
        let request = scene.request();
        faults::nth(scene.embedded(), "POST", path, nth, Action::Hang);
        let before = faults::asked(scene.embedded(), "POST", path);
        let call = tokio::spawn({
            let (mut client, request) = (scene.runner.client(), request.clone());
            async move { client.start_workload(request).await }
        });
        faults::until_asked(scene.embedded(), "POST", path, before + nth + 1).await;
        call.abort();
        scene.clean(&request.workload_id).await;
        scene.succeeds(request).await;
        scene.runner.stop().await;
    })
    .await;
}
