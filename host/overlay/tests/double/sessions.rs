//! API sessions: identities that are refused, renewals, several controllers, and the watch of W-211.

use std::time::Duration;

use runner_overlay::{Error, Identity, Overlay};
use serde_json::json;

use crate::double::{Double, LIMIT, bind, echo, eventually, options};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_identity_is_refused_at_once_and_nothing_secret_is_told_o_11() {
    let double = Double::start(&[]).await;
    let identity = Identity::parse(&double.document("stranger")).unwrap();
    let error = Overlay::connect(identity, options()).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    assert!(
        error.is_final() && error.to_string().contains("INVALID_AUTH"),
        "{error}"
    );
    assert!(!format!("{error:?}").contains("PRIVATE KEY"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_cannot_be_bound_is_told_at_once_o_14() {
    let mut double = Double::start(&[]).await;
    let overlay = double.connect().await;
    for (name, service) in [("unknown", "runner-2"), ("no right", "runner-1")] {
        double.tell("service runner-1 off").await;
        let error = overlay.bind(service).await.unwrap_err();
        assert!(
            matches!(&error, Error::Service { name } if name == service),
            "{name}: {error:?}"
        );
    }
    assert!(overlay.close(LIMIT).await);
    assert!(matches!(overlay.bind("runner-1").await, Err(Error::Closed)));
}

/// Lives of three seconds: renewed in time, so that no channel is lost. Classic (O-13) and OIDC with token updates (O-20).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_renewed_before_they_end() {
    for (name, arguments) in [
        ("classic", &["-token-life", "3s"][..]),
        ("OIDC", &["-token-life", "3s", "-oidc"]),
    ] {
        let mut double = Double::start(arguments).await;
        let overlay = double.connect().await;
        let listener = bind(&overlay).await;
        let monitor = listener.monitor();
        let host = tokio::spawn(echo(listener));
        eventually(name, async || {
            let stats = double.stats().await;
            let renewals = if name == "OIDC" {
                stats["tokenUpdates"].as_u64()
            } else {
                stats["hits"]["GET /current-api-session"].as_u64()
            };
            renewals.unwrap_or(0) >= 4
        })
        .await;
        double.dial_well(3, 10_000).await;
        assert_eq!(monitor.status().lost_channels, 0, "{name}");
        let stats = double.stats().await;
        if name == "OIDC" {
            assert_eq!(
                stats["hits"]["POST /authenticate"].as_u64(),
                Some(1),
                "only the dialler's"
            );
        }
        drop(overlay);
        host.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_controller_takes_over_o_01() {
    let mut double = Double::start(&["-controllers", "2"]).await;
    let overlay = double.connect().await;
    let listener = bind(&overlay).await;
    let monitor = listener.monitor();
    let host = tokio::spawn(echo(listener));
    double.tell("switch ctrl1 off").await;
    // every check makes a call
    let watch = tokio::spawn(overlay.watch_identity(Duration::from_millis(50), 3));
    let before = double.stats().await["hits"]["POST /authenticate"].as_u64().unwrap();
    eventually("the other controller is used", async || {
        let hits = double.stats().await["hits"].clone();
        hits["POST /authenticate"].as_u64().unwrap() > before && hits["GET /services"].as_u64().unwrap() > 5
    })
    .await;
    eventually("bound", async || monitor.status().established > 0).await;
    assert!(!watch.is_finished(), "the identity is fine");
    watch.abort();
    // a start while the first is away
    drop(overlay);
    host.await.unwrap();
    let overlay = double.connect().await;
    drop(bind(&overlay).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_identity_ends_the_watch_after_failures_in_a_row_w_211() {
    let mut double = Double::start(&[]).await;
    let overlay = double.connect().await;
    let listener = bind(&overlay).await;
    let monitor = listener.monitor();
    let host = tokio::spawn(echo(listener));
    let watch = tokio::spawn(overlay.watch_identity(Duration::from_millis(500), 5));

    // a controller that is away for less than that is forgiven
    double.tell("switch ctrl1 off").await;
    tokio::time::timeout(LIMIT, overlay.watch_identity(Duration::from_millis(50), 2))
        .await
        .unwrap();
    double.tell("switch ctrl1 on").await;
    let hits = double.stats().await["hits"]["GET /services"].as_u64().unwrap();
    eventually("checked again", async || {
        double.stats().await["hits"]["GET /services"].as_u64().unwrap() > hits + 3
    })
    .await;

    assert!(!watch.is_finished());
    double.tell("delete host").await;
    let error = tokio::time::timeout(LIMIT, watch).await.unwrap().unwrap();
    let Error::Unusable { failures, last } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*failures, 5);
    assert!(
        matches!(**last, Error::Refused { .. } | Error::Unreachable { .. }),
        "{last:?}"
    );
    assert!(
        error
            .to_string()
            .starts_with("ziti identity is no longer usable after 5 checks: "),
        "{error}"
    );
    eventually("no terminator", async || monitor.status().established == 0).await;
    assert_eq!(double.stats().await["binds"], json!({"runner-1": 0}));
    drop(overlay);
    host.await.unwrap();
}
