//! The script of the init container: which ids the rootless daemon may hand to its containers.
//!
//! Inside a user namespace only the ids that the namespace maps exist, so the image's fixed ranges can exceed them. The
//! script gives the daemon's user every mapped id except 0 and its own, 1000.

/// The ranges are made from the length of the namespace's first mapping, for users and groups alike.
pub(crate) const SCRIPT: &str = r#"set -eu
write_ranges() {
  read -r _ _ length _ < "$1"
  case $length in '' | *[!0-9]*) exit 1 ;; esac
  max=$((length - 1))
  : > "$2"
  [ "$max" -ge 1 ] || return 0
  below=$max
  [ "$below" -le 999 ] || below=999
  echo "rootless:1:$below" >> "$2"
  [ "$max" -lt 1001 ] || echo "rootless:1001:$((max - 1000))" >> "$2"
}
write_ranges /proc/self/uid_map /subid/subuid
write_ranges /proc/self/gid_map /subid/subgid
"#;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// Runs the script on given maps; the paths are the only thing changed.
    fn run(case: &str, uid_map: Option<&str>, gid_map: &str) -> (bool, String, String) {
        let dir = std::env::current_exe().unwrap().with_file_name("subid-test").join(case);
        fs::create_dir_all(&dir).unwrap();
        for file in ["uid_map", "subuid", "subgid"] {
            let _ = fs::remove_file(dir.join(file));
        }
        if let Some(map) = uid_map {
            fs::write(dir.join("uid_map"), map).unwrap();
        }
        fs::write(dir.join("gid_map"), gid_map).unwrap();
        let here = dir.to_str().unwrap();
        let script = SCRIPT
            .replace("/proc/self", here)
            .replace("/subid/", &format!("{here}/"));
        let status = Command::new("/bin/sh").args(["-c", &script]).status().unwrap();
        let read = |file| fs::read_to_string(dir.join(file)).unwrap_or_else(|_| "none".into());
        (status.success(), read("subuid"), read("subgid"))
    }

    fn map(length: u64) -> String {
        format!("         0     100000 {length:>10}\n      7000     200000         10\n")
    }

    /// W-721
    #[test]
    fn ranges_by_length_of_the_mapping() {
        for (length, expected) in [
            (0, ""),
            (1, ""),
            (2, "rootless:1:1\n"),
            (500, "rootless:1:499\n"),
            (1000, "rootless:1:999\n"),
            (1001, "rootless:1:999\n"),
            (1002, "rootless:1:999\nrootless:1001:1\n"),
            (65536, "rootless:1:999\nrootless:1001:64535\n"),
            (4294967295, "rootless:1:999\nrootless:1001:4294966294\n"),
        ] {
            let (passed, subuid, _) = run(&format!("length-{length}"), Some(&map(length)), &map(1));
            assert!(passed, "{length}");
            assert_eq!(subuid, expected, "{length}");
        }
    }

    /// W-721
    #[test]
    fn users_and_groups_are_apart() {
        let (passed, subuid, subgid) = run("apart", Some(&map(2)), &map(65536));
        assert!(passed);
        assert_eq!(
            (subuid.as_str(), subgid.as_str()),
            ("rootless:1:1\n", "rootless:1:999\nrootless:1001:64535\n")
        );
    }

    /// W-721: abort rather than start a daemon with the wrong ids.
    #[test]
    fn aborts_on_errors() {
        assert!(!run("absent", None, &map(2)).0);
        assert!(!run("empty", Some(""), &map(2)).0);
        assert!(!run("no-number", Some("0 0 many\n"), &map(2)).0);
    }
}
