//! Devices and supplemental groups of a flavor (W-1340). Stricter than the rest of a catalog: both hand out hardware and
//! access, so nothing about them is guessed or ignored.

use plugin_sdk::catalog::Device;

use crate::problems::Problems;
use crate::yaml::Node;

const MOST_DEVICES: u32 = 8;
const MOST_GROUP: u32 = 2_147_483_647;

pub(crate) fn read(entry: Node<'_>, flavor: &str, problems: &mut Problems) -> Vec<Device> {
    let mut devices: Vec<Device> = Vec::new();
    for item in entry.mappings("devices", problems) {
        if item
            .entries()
            .into_iter()
            .flatten()
            .any(|(key, _)| !matches!(key, "resource" | "count"))
            || item.get("resource").is_none()
            || item.get("count").is_none()
        {
            problems.rule(
                item,
                format!("flavor \"{flavor}\": a device has exactly the keys resource and count"),
            );
            continue;
        }
        let name = item.text_of("resource", problems);
        let count = item.text_of("count", problems);
        if let Err(reason) = check_resource(name) {
            problems.rule(item, format!("flavor \"{flavor}\": device \"{name}\": {reason}"));
        } else if devices.iter().any(|device| device.name == name) {
            problems.rule(
                item,
                format!("flavor \"{flavor}\": device \"{name}\" is declared more than once"),
            );
        } else if let Some(count) = plain_decimal(count, MOST_DEVICES) {
            devices.push(Device {
                name: name.to_owned(),
                count,
            });
        } else {
            problems.rule(
                item,
                format!("flavor \"{flavor}\": device \"{name}\": count \"{count}\" must be a plain number from 1 to {MOST_DEVICES}"),
            );
        }
    }
    devices
}

pub(crate) fn groups(entry: Node<'_>, flavor: &str, problems: &mut Problems) -> Vec<u32> {
    let mut groups = Vec::new();
    for item in entry.list("supplementalGroups", problems) {
        let text = item.text("a supplemental group", problems);
        match plain_decimal(text, MOST_GROUP) {
            Some(group) if groups.contains(&group) => {
                problems.rule(
                    item,
                    format!("flavor \"{flavor}\": supplemental group {group} is declared more than once"),
                );
            }
            Some(group) => groups.push(group),
            None => problems.rule(
                item,
                format!(
                    "flavor \"{flavor}\": supplemental group \"{text}\" must be a plain number from 1 to {MOST_GROUP}"
                ),
            ),
        }
    }
    groups
}

/// Digits without sign, leading zero, point or exponent: what YAML versions read differently is refused.
fn plain_decimal(text: &str, most: u32) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|number| plain && (1..=most).contains(number))
}

/// A resource of a device plugin: those of Kubernetes itself have no domain, or one of its own.
fn check_resource(name: &str) -> Result<(), &'static str> {
    let Some((domain, local)) = name.split_once('/') else {
        return Err("must have a domain, such as example.com/gpu; cpu, memory and the like are no devices");
    };
    if name.starts_with("requests.") {
        return Err("must not begin with requests.");
    }
    if domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") {
        return Err("must not be in a kubernetes.io domain");
    }
    if is_domain(domain) && is_local(local) {
        Ok(())
    } else {
        Err("is not a qualified name, such as example.com/gpu")
    }
}

fn is_domain(text: &str) -> bool {
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 253
        && text
            .split('.')
            .all(|label| framed(label, lower, |byte| lower(byte) || byte == b'-'))
}

fn is_local(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    framed(text, |byte| byte.is_ascii_alphanumeric(), inner)
}

/// 1 to 63 characters with stricter first and last ones.
fn framed(text: &str, ends: impl Fn(u8) -> bool, all: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    text.len() <= 63
        && bytes.first().is_some_and(|byte| ends(*byte))
        && bytes.last().is_some_and(|byte| ends(*byte))
        && bytes.iter().all(|byte| all(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-1340
    #[test]
    fn resources() {
        for good in ["nvidia.com/gpu", "example.com/A_b.c-1", "a/b", "amd.com/gpu"] {
            assert!(check_resource(good).is_ok(), "{good}");
        }
        for bad in [
            "cpu",
            "memory",
            "ephemeral-storage",
            "hugepages-2Mi",
            "kubernetes.io/batch",
            "x.kubernetes.io/y",
            "requests.example.com/gpu",
            "/gpu",
            "example.com/",
            "Example.com/gpu",
            "a..b/gpu",
            "a/b/c",
            "a/-b",
            "",
        ] {
            assert!(check_resource(bad).is_err(), "{bad}");
        }
    }

    /// W-1340
    #[test]
    fn plain_decimals() {
        for (text, expected) in [
            ("1", Some(1)),
            ("8", Some(8)),
            ("9", None),
            ("0", None),
            ("01", None),
            ("+1", None),
            ("1.0", None),
            ("1e0", None),
            ("0x1", None),
            ("", None),
            (" 1", None),
            ("99999999999", None),
        ] {
            assert_eq!(plain_decimal(text, 8), expected, "{text}");
        }
        assert_eq!(plain_decimal("2147483647", MOST_GROUP), Some(2_147_483_647));
        assert_eq!(plain_decimal("2147483648", MOST_GROUP), None);
    }
}
