//! `--volume NAME=[CLAIM]:PATH[:ro]`: a volume of the workload and its mount in the main container.

use std::str::FromStr;

use crate::proto::runner_v1::{VolumeKind, VolumeMount, VolumeSpec};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Volume {
    name: String,
    /// None ends with the workload.
    claim: Option<String>,
    path: String,
    read_only: bool,
}

impl FromStr for Volume {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            "expected NAME=CLAIM:PATH[:ro], or NAME=:PATH[:ro] for a volume that ends with the workload".to_owned()
        })
    }
}

fn parse(text: &str) -> Option<Volume> {
    let (name, rest) = text.split_once('=')?;
    let (claim, rest) = rest.split_once(':')?;
    // a path has no colon: the runner refuses one
    let (path, read_only) = match rest.split_once(':') {
        None => (rest, false),
        Some((path, "ro")) => (path, true),
        Some(_) => return None,
    };
    let claim = Some(claim.to_owned()).filter(|c| !c.is_empty());
    (!name.is_empty() && path.starts_with('/')).then(|| Volume {
        name: name.into(),
        claim,
        path: path.into(),
        read_only,
    })
}

impl Volume {
    /// In place of the volume of this name and its mounts in main; what a flag cannot say, such as the size, stays.
    pub(super) fn apply(self, volumes: &mut Vec<VolumeSpec>, mounts: &mut Vec<VolumeMount>) {
        let kind = if self.claim.is_some() {
            VolumeKind::Named
        } else {
            VolumeKind::Ephemeral
        };
        let mut spec = match volumes.iter().position(|v| v.name == self.name) {
            Some(at) => volumes.remove(at),
            None => VolumeSpec {
                name: self.name.clone(),
                ..VolumeSpec::default()
            },
        };
        spec.set_kind(kind);
        spec.persistent_name = self.claim.unwrap_or_default();
        volumes.push(spec);
        mounts.retain(|mount| mount.volume != self.name);
        mounts.push(VolumeMount {
            volume: self.name,
            mount_path: self.path,
            read_only: self.read_only,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed() {
        let volume = |claim: Option<&str>, read_only| Volume {
            name: "data".into(),
            claim: claim.map(Into::into),
            path: "/data".into(),
            read_only,
        };
        for (text, wanted) in [
            ("data=home:/data", volume(Some("home"), false)),
            ("data=home:/data:ro", volume(Some("home"), true)),
            ("data=:/data", volume(None, false)),
            ("data=:/data:ro", volume(None, true)),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        for text in [
            "",
            "data",
            "data=/data",
            "=home:/data",
            "data=home:",
            "data=home:data",
            "data=home:/data:rw",
            "a=b:/c:ro:ro",
        ] {
            assert!(text.parse::<Volume>().is_err(), "{text}");
        }
    }
}
