//! The flags that describe a workload, laid over a request.
//!
//! Values of `--env` may be secrets: they are taken as they come and never shown.

use runner_core::secret::Secret;

use super::volume::Volume;
use crate::cli::failure::Failure;
use crate::cli::workload::values::{secret, variables};
use crate::proto::runner_v1::{ContainerSpec, EnvVar, StartWorkloadRequest};

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Workload")]
pub(super) struct Flags {
    /// Image of the main container; needed unless a file is given
    #[arg(long, required_unless_present = "file")]
    image: Option<String>,

    /// Id of the workload, a UUID [default: the runner makes one]
    #[arg(long, value_name = "UUID")]
    id: Option<String>,

    /// Name of the main container [default: main]
    #[arg(long)]
    name: Option<String>,

    /// An argument of the main container; repeat it for more
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    cmd: Vec<String>,

    /// Arguments of the main container, in place of --cmd
    #[arg(last = true, value_name = "ARG", conflicts_with = "cmd")]
    args: Vec<String>,

    /// Executable of the main container [default: the image's]
    #[arg(long, value_name = "PATH")]
    entrypoint: Option<String>,

    /// An environment variable of the main container; repeat it for more
    ///
    /// Other users of this machine can see flags: put secrets in the file.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = secret)]
    env: Vec<Secret<String>>,

    /// Flavor of the workload, one of the runner's catalog
    #[arg(long)]
    flavor: Option<String>,

    /// A capability of the workload, such as the runner's catalog offers; repeat it for more
    #[arg(long, value_name = "NAME")]
    capability: Vec<String>,

    /// A volume of the main container; repeat it for more
    ///
    /// NAME=CLAIM:PATH mounts a claim, made if it does not exist; NAME=:PATH a volume that ends with the workload;
    /// :ro after the path makes it read only.
    #[arg(long, value_name = "NAME=[CLAIM]:PATH[:ro]")]
    volume: Vec<Volume>,

    /// A label of the pod; repeat it for more
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,
}

impl Flags {
    /// Lay the flags over the request.
    pub(super) fn apply(self, request: &mut StartWorkloadRequest) -> Result<(), Failure> {
        let main = request.main.get_or_insert_default();
        for (field, flag) in [
            (&mut main.image, self.image),
            (&mut main.name, self.name),
            (&mut main.entrypoint, self.entrypoint),
        ] {
            replace(field, flag);
        }
        replace(&mut request.workload_id, self.id);
        replace(&mut request.flavor, self.flavor);
        let args = if self.args.is_empty() { self.cmd } else { self.args };
        if !args.is_empty() {
            main.cmd = args;
        }
        for variable in variables(&self.env)? {
            set(main, variable);
        }
        for volume in self.volume {
            volume.apply(&mut request.volumes, &mut main.mounts);
        }
        if !self.capability.is_empty() {
            request.capabilities = self.capability;
        }
        request.labels.extend(self.label);
        Ok(())
    }
}

fn replace(field: &mut String, flag: Option<String>) {
    if let Some(value) = flag {
        *field = value;
    }
}

fn set(main: &mut ContainerSpec, variable: EnvVar) {
    match main.env.iter_mut().find(|there| there.name == variable.name) {
        Some(there) => *there = variable,
        None => main.env.push(variable),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::runner_v1::{VolumeMount, VolumeSpec};

    fn variable(name: &str, value: &str) -> EnvVar {
        EnvVar {
            name: name.into(),
            value: value.into(),
        }
    }

    #[test]
    fn flags_go_over_the_file() {
        let main = ContainerSpec {
            image: "old:1".into(),
            cmd: vec!["a".into(), "b".into()],
            env: vec![variable("A", "1"), variable("B", "2")],
            mounts: vec![VolumeMount {
                volume: "data".into(),
                mount_path: "/old".into(),
                read_only: false,
            }],
            working_dir: "/w".into(),
            ..ContainerSpec::default()
        };
        let data = VolumeSpec {
            name: "data".into(),
            size: "1Gi".into(),
            ..VolumeSpec::default()
        };
        let mut request = StartWorkloadRequest {
            main: Some(main),
            volumes: vec![data],
            flavor: "small".into(),
            capabilities: vec!["x".into()],
            labels: [("k".to_owned(), "old".to_owned()), ("kept".to_owned(), "1".to_owned())].into(),
            ..StartWorkloadRequest::default()
        };
        let flags = Flags {
            image: Some("new:1".into()),
            cmd: vec!["c".into()],
            env: vec![Secret::new("B=3=4".into()), Secret::new("C=".into())],
            volume: vec!["data=claim:/new:ro".parse().unwrap()],
            capability: vec!["docker".into()],
            label: vec![("k".into(), "new".into())],
            ..Flags::default()
        };
        flags.apply(&mut request).unwrap();
        let main = request.main.unwrap();
        assert_eq!((main.image.as_str(), main.working_dir.as_str()), ("new:1", "/w"));
        assert_eq!(main.cmd, ["c"]);
        assert_eq!(main.env, [variable("A", "1"), variable("B", "3=4"), variable("C", "")]);
        assert_eq!(main.mounts.len(), 1);
        assert_eq!(
            (main.mounts[0].mount_path.as_str(), main.mounts[0].read_only),
            ("/new", true)
        );
        assert_eq!(request.volumes[0].persistent_name, "claim");
        assert_eq!(request.volumes[0].size, "1Gi");
        assert_eq!(request.flavor, "small");
        assert_eq!(request.capabilities, ["docker"]);
        assert_eq!(
            (request.labels["k"].as_str(), request.labels["kept"].as_str()),
            ("new", "1")
        );
    }

    #[test]
    fn a_bad_env_is_not_shown() {
        for text in ["hunter2", "=hunter2", " =hunter2"] {
            let flags = Flags {
                env: vec![Secret::new(text.into())],
                ..Flags::default()
            };
            let shown = format!("{flags:?}");
            let error = flags
                .apply(&mut StartWorkloadRequest::default())
                .unwrap_err()
                .to_string();
            assert!(!error.contains("hunter2") && error.contains("number 1"), "{error}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
