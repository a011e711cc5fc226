//! `ID:PATH`, and what PATH means: a directory to copy into, or the new name.

use std::str::FromStr;

use anyhow::bail;

use super::{command, words};
use crate::cli::client::Client;
use crate::cli::workload::exec::call::{self, Call};
use crate::proto::runner_v1::ExecExitReason;

/// Where to copy to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) id: String,
    pub(super) path: String,
}

/// The directory to unpack in, and the name that everything there begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) dir: String,
    pub(super) name: String,
}

impl FromStr for Target {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((id, path)) if !id.trim().is_empty() && !path.trim().is_empty() => Ok(Self {
                id: id.to_owned(),
                path: path.to_owned(),
            }),
            _ => Err("expected ID:PATH"),
        }
    }
}

impl Target {
    /// Where something of this name goes.
    pub(super) async fn place(&self, client: &mut Client, name: &str) -> anyhow::Result<Place> {
        if let Some(renamed) = self.renamed()
            && !self.is_directory(client).await?
        {
            return Ok(renamed);
        }
        Ok(Place {
            dir: self.path.clone(),
            name: name.to_owned(),
        })
    }

    /// The place if the last part of the path is the new name; none if it can only be a directory.
    fn renamed(&self) -> Option<Place> {
        let (dir, name) = match self.path.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some((dir, name)) => (dir, name),
            None => (".", self.path.as_str()),
        };
        let place = Place {
            dir: dir.to_owned(),
            name: name.to_owned(),
        };
        (!matches!(name, "" | "." | "..")).then_some(place)
    }

    async fn is_directory(&self, client: &mut Client) -> anyhow::Result<bool> {
        let start = command(self, &["test", "-d", &self.path]);
        let Call { requests, mut events } = call::open(client, start).await?;
        let exit = call::until_exit(&mut events, async |_| Ok(())).await?;
        drop(requests);
        match (exit.reason(), exit.exit_code) {
            (ExecExitReason::Completed, 0) => Ok(true),
            (ExecExitReason::Completed, 1) => Ok(false),
            _ => bail!(
                "whether {} is a directory cannot be seen ({}); end it with / if it is one",
                self.path,
                words(&exit)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn id_and_path() {
        assert_eq!(
            (target("a:/b:c").id.as_str(), target("a:/b:c").path.as_str()),
            ("a", "/b:c")
        );
        for text in ["", "a", "a:", ":/b", " :/b", "a: "] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn last_part_of_the_path() {
        for (text, wanted) in [
            ("a:/b/c", Some(("/b", "c"))),
            ("a:/b", Some(("/", "b"))),
            ("a:b", Some((".", "b"))),
            ("a:b/c", Some(("b", "c"))),
            ("a:/", None),
            ("a:/b/", None),
            ("a:.", None),
            ("a:/b/..", None),
        ] {
            let place = target(text).renamed();
            let seen = place.as_ref().map(|p| (p.dir.as_str(), p.name.as_str()));
            assert_eq!(seen, wanted, "{text}");
        }
    }
}
