//! When an event happened (S-506, C-36): writers fill different fields, and none of them must read as year 1.

use jiff::Timestamp;
use serde_json::Value;

/// The best time there is: of the series, the event, its last and first occurrence, its creation; else now.
pub(super) fn when(event: &Value) -> Timestamp {
    [
        "/series/lastObservedTime",
        "/eventTime",
        "/lastTimestamp",
        "/firstTimestamp",
        "/metadata/creationTimestamp",
    ]
    .iter()
    .filter_map(|pointer| event.pointer(pointer)?.as_str()?.parse::<Timestamp>().ok())
    .find(|at| *at > Timestamp::UNIX_EPOCH)
    .unwrap_or_else(Timestamp::now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// S-506, C-36
    #[test]
    fn best_time() {
        let created = json!({ "creationTimestamp": "2024-05-01T00:00:01Z" });
        let zero = "0001-01-01T00:00:00Z";
        for (event, want) in [
            (
                json!({ "eventTime": "2024-05-01T00:00:04.123456Z", "lastTimestamp": null, "metadata": created }),
                "2024-05-01T00:00:04.123456Z",
            ),
            (
                json!({ "eventTime": null, "lastTimestamp": "2024-05-01T00:00:03Z", "firstTimestamp": "2024-05-01T00:00:02Z", "metadata": created }),
                "2024-05-01T00:00:03Z",
            ),
            (
                json!({ "eventTime": zero, "lastTimestamp": zero, "firstTimestamp": "2024-05-01T00:00:02Z", "metadata": created }),
                "2024-05-01T00:00:02Z",
            ),
            (
                json!({ "lastTimestamp": 5, "firstTimestamp": "soon", "metadata": created }),
                "2024-05-01T00:00:01Z",
            ),
            (
                json!({ "eventTime": "2024-05-01T00:00:04Z", "series": { "count": 2, "lastObservedTime": "2024-05-01T00:00:05.5Z" } }),
                "2024-05-01T00:00:05.5Z",
            ),
        ] {
            assert_eq!(when(&event), want.parse().unwrap(), "{event}");
        }
        let before = Timestamp::now();
        assert!(when(&json!({ "metadata": {} })) >= before && when(&Value::Null) >= before);
    }
}
