use super::*;

const CERT: &str = include_str!("testdata/ec.crt");
const KEY: &str = include_str!("testdata/ec.key");

fn document(key: &str, cert: &str, ca: Option<&str>) -> serde_json::Value {
    serde_json::json!({
        "ztAPI": "https://ctrl.example:1280/edge/client/v1/",
        "ztAPIs": ["https://ctrl.example:1280/edge/client/v1", "https://two.example:1280/edge/client/v1"],
        "configTypes": null, "enableHa": true, "unknown": {"x": 1},
        "id": {"key": key, "cert": cert, "ca": ca},
    })
}

fn parse(document: &serde_json::Value) -> Result<Identity> {
    Identity::parse(document.to_string().as_bytes())
}

fn pem(text: &str) -> String {
    format!("pem:{text}")
}

#[test]
fn keys_of_the_field_are_read_o_03() {
    let table = [
        ("EC, SEC 1", KEY, CERT),
        ("EC, PKCS 8", include_str!("testdata/ec-pkcs8.key"), CERT),
        (
            "EC P-384",
            include_str!("testdata/p384.key"),
            include_str!("testdata/p384.crt"),
        ),
        (
            "RSA, PKCS 1",
            include_str!("testdata/rsa.key"),
            include_str!("testdata/rsa.crt"),
        ),
        (
            "RSA, PKCS 8",
            include_str!("testdata/rsa-pkcs8.key"),
            include_str!("testdata/rsa.crt"),
        ),
    ];
    for (name, key, cert) in table {
        let identity =
            parse(&document(&pem(key), &pem(cert), Some(&pem(cert)))).unwrap_or_else(|e| panic!("{name}: {e}"));
        let controllers: Vec<_> = identity.controllers.iter().map(Url::as_str).collect();
        let expected = [
            "https://ctrl.example:1280/edge/client/v1",
            "https://two.example:1280/edge/client/v1",
        ];
        assert_eq!(controllers, expected, "{name}");
    }
}

#[test]
fn chains_and_bundles_have_several_certificates_o_02() {
    let two = pem(&format!("{CERT}{}", include_str!("testdata/rsa.crt")));
    parse(&document(&pem(KEY), &two, Some(&two))).unwrap();
}

#[test]
fn paths_are_read_o_02() {
    let dir = tempfile::tempdir().unwrap();
    let (key, cert) = (dir.path().join("key.pem"), dir.path().join("cert.pem"));
    std::fs::write(&key, KEY).unwrap();
    std::fs::write(&cert, CERT).unwrap();
    let (key, cert) = (key.to_str().unwrap(), cert.to_str().unwrap());
    parse(&document(key, &format!("file://{cert}"), Some(cert))).unwrap();
    let gone = parse(&document("/nowhere/key.pem", cert, Some(cert)))
        .unwrap_err()
        .to_string();
    assert!(gone.contains("key: read /nowhere/key.pem"), "{gone}");
}

#[test]
fn nothing_secret_is_printed_o_05() {
    let secret = "MHcCAQEE-not-a-key-but-a-secret";
    let mut cases = vec![
        document(&pem(secret), &pem(CERT), Some(&pem(CERT))),
        document(secret, &pem(CERT), None),
        document(&pem(KEY), &pem(secret), None),
        document(&pem(KEY), &pem(CERT), Some(&pem(secret))),
        document(&pem(KEY), &pem(include_str!("testdata/rsa.crt")), Some(&pem(CERT))),
        serde_json::json!({"ztAPI": "https://x/", "id": {"key": {"nested": secret}, "cert": "", "ca": null}}),
        serde_json::json!({"ztAPI": "https://x/", "id": secret}),
        serde_json::json!({"id": {"key": secret, "cert": secret}}),
        serde_json::json!({"ztAPI": "http://plain/", "id": {"key": secret, "cert": secret}}),
    ];
    cases[1]["id"]["key"] = serde_json::json!(format!("-----BEGIN EC PRIVATE KEY-----\n{secret}"));
    for case in cases {
        let error = parse(&case).expect_err(&case.to_string());
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(
                !text.contains(secret) && !text.contains(KEY.lines().nth(1).unwrap()),
                "{text}"
            );
        }
    }
    let parsed = parse(&document(&pem(KEY), &pem(CERT), Some(&pem(CERT)))).unwrap();
    assert!(!format!("{parsed:?}").contains(KEY.lines().nth(1).unwrap()));
}
