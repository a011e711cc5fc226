//! Bytes: many dials, much data, both kinds of connection ids, with and without encryption, RSA and EC.

use serde_json::json;

use crate::double::{Double, bind, echo};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_dials_at_once_come_back_whole_o_44() {
    let mut double = Double::start(&["-routers", "2"]).await;
    let overlay = double.connect().await;
    let listener = bind(&overlay).await;
    let monitor = listener.monitor();
    let host = tokio::spawn(echo(listener));
    double.dial_well(200, 100_000).await;
    let status = monitor.status();
    assert_eq!((status.accepted, status.refused), (200, 0));
    assert!(overlay.close(crate::double::LIMIT).await, "nothing had to be cut");
    host.await.unwrap();
    assert_eq!(monitor.status().open, 0);
    crate::double::eventually("unbound", async || {
        double.stats().await["binds"] == json!({"runner-1": 0})
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_mebibytes_pass_both_ways_bit_equal_o_50_o_62() {
    let double = Double::start(&[]).await;
    let overlay = double.connect().await;
    let host = tokio::spawn(echo(bind(&overlay).await));
    double.dial_well(1, 64 << 20).await;
    drop(overlay);
    host.await.unwrap();
}

/// Each with dials side by side: a router that assigns ids (O-43) and an old one (O-46), encrypted and in clear, RSA keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_network_is_served() {
    let table: [(&str, &[&str]); 4] = [
        ("in clear", &["-encrypt=false"]),
        ("old router", &["-assign=false"]),
        (
            "old router in clear, many services",
            &["-assign=false", "-encrypt=false", "-fillers", "1200"],
        ),
        ("RSA key, JWT tokens", &["-rsa", "-jwt"]),
    ];
    for (name, arguments) in table {
        let mut double = Double::start(arguments).await;
        let overlay = double.connect().await;
        let host = tokio::spawn(echo(bind(&overlay).await));
        let report = double.dial(20, 300_000).await;
        assert_eq!(report["failures"], json!([]), "{name}");
        // the router asks after the bind, and would take the terminator away (O-39)
        crate::double::eventually(name, async || double.stats().await["inspected"] == json!(["2"])).await;
        drop(overlay);
        host.await.unwrap();
    }
}
