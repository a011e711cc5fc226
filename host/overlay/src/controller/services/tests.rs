use super::*;

#[test]
fn addresses_of_edge_routers_are_read_or_left_out_o_16() {
    let table = [
        ("tls://er.example:3022", Some(("er.example", 3022))),
        ("tls:er.example:3022", Some(("er.example", 3022))),
        ("tls://127.0.0.1:3022/", Some(("127.0.0.1", 3022))),
        ("tls://[::1]:3022", Some(("::1", 3022))),
        ("wss://er.example:443", None),
        ("tls://er.example", None),
        ("tls:", None),
        ("er.example:3022", None),
    ];
    for (text, expected) in table {
        let expected = expected.map(|(host, port)| (host.to_owned(), port));
        assert_eq!(host_and_port(text), expected, "{text}");
    }
}

#[test]
fn routers_without_a_usable_address_do_not_hide_the_others() {
    let json = serde_json::json!({"id": "s", "token": "t", "edgeRouters": [
        {"name": "a", "supportedProtocols": {"ws": "ws://x:1", "tls": "tls://a:1"}, "isOnline": null},
        {"name": "b", "supportedProtocols": null},
        {"name": "c"},
        {"name": "a", "supportedProtocols": {"tls": "tls://a:1"}},
        {"name": "d", "supportedProtocols": {"tls": "tls:d:2"}},
    ]});
    let detail: Detail = serde_json::from_value(json).unwrap();
    let names: Vec<_> = endpoints(detail.edge_routers)
        .into_iter()
        .map(|endpoint| endpoint.router)
        .collect();
    assert_eq!(names, ["a", "d"]);
}
