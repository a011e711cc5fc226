//! `runner-host workload cp`: files of this machine into the main container of a workload, as a tar archive.
//!
//! An archive that fits into one message goes by PutArchive, a larger one to a `tar` in the container, piece by piece: no more
//! than one message of it is in memory.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::pack::{PIECE, Pieces, Source};
use self::target::{Place, Target};
use super::exec::call::{self, Call};
use crate::cli::client::{self, Client};
use crate::proto::runner_v1::exec_request::Msg;
use crate::proto::runner_v1::{
    ExecExit, ExecExitReason, ExecOptions, ExecStartRequest, ExecStdin, PutArchiveRequest, PutArchiveResponse,
};

mod pack;
mod target;

/// A message has at most 4 MiB (S-109), the id and the path among them.
const ARCHIVE: usize = (4 << 20) - (16 << 10);

const HELP: &str = "\
PATH is the directory to copy into, if it is one or ends with /; otherwise the new name of what is copied, in a directory that
exists. FILE/. stands for the content of a directory, - for a tar archive on standard input, unpacked in the directory PATH.
Links stay links, owners become those that tar in the container gives. Nothing is undone when it fails half way.

Examples:
  runner-host workload cp config.yaml ID:/etc/app/
  runner-host workload cp src ID:/work/project
  tar -c . | runner-host workload cp - ID:/work";

/// Copy into a workload.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// A file or a directory of this machine, or - for an archive on standard input
    #[arg(value_name = "FILE")]
    source: PathBuf,

    /// Where it goes
    #[arg(value_name = "ID:PATH")]
    target: Target,
}

pub(super) async fn run(args: &Args, connection: &client::Connection) -> anyhow::Result<()> {
    let source = Source::open(&args.source)?;
    let mut client = connection.connect_for_streams().await?;
    let target = &args.target;
    let place = match source.name() {
        Some(name) => target.place(&mut client, name).await?,
        None => Place {
            dir: target.path.clone(),
            name: String::new(),
        },
    };
    let (mut pieces, packing) = pack::start(source, place.name);
    let answer = match first_message(&mut pieces, packing).await? {
        Packed::Whole(tar_payload) => {
            let request = PutArchiveRequest {
                workload_id: target.id.clone(),
                path: place.dir,
                tar_payload,
            };
            client::answer(client.put_archive(request).await)?
        }
        Packed::Begun(first, packing) => {
            unpack(&mut client, target, &place.dir, first, pieces, packing).await?;
            PutArchiveResponse {}
        }
    };
    let line = format!("copied {} to {}:{}", args.source.display(), target.id, target.path);
    connection.show(&line, "PutArchiveResponse", &answer)
}

type Packing = JoinHandle<anyhow::Result<()>>;

/// An archive, or as much of it as a message holds.
enum Packed {
    Whole(Bytes),
    Begun(Bytes, Packing),
}

async fn first_message(pieces: &mut Pieces, packing: Packing) -> anyhow::Result<Packed> {
    let mut first = BytesMut::new();
    while first.len() <= ARCHIVE {
        match pieces.recv().await {
            Some(piece) => first.extend_from_slice(&piece),
            None => {
                packing.await.context("pack the archive")??;
                return Ok(Packed::Whole(first.freeze()));
            }
        }
    }
    Ok(Packed::Begun(first.freeze(), packing))
}

/// Feed a `tar` in the container, as PutArchive does on the other side.
async fn unpack(
    client: &mut Client,
    target: &Target,
    dir: &str,
    first: Bytes,
    mut pieces: mpsc::Receiver<Bytes>,
    packing: Packing,
) -> anyhow::Result<()> {
    let argv = ["tar", "-x", "-f", "-", "-C", dir];
    let Call { requests, mut events } = call::open(client, command(target, &argv)).await?;
    let feed = async {
        let mut first = first;
        loop {
            let next = match first.is_empty() {
                true => pieces.recv().await,
                false => Some(first.split_to(PIECE.min(first.len()))),
            };
            let Some(data) = next else { break };
            if !requests.send(Msg::Stdin(ExecStdin { data, eof: false })).await {
                break;
            }
        }
        drop(pieces);
        // what could not be packed to its end must not look like an archive
        packing.await.context("pack the archive")??;
        let eof = ExecStdin {
            data: Bytes::new(),
            eof: true,
        };
        requests.send(Msg::Stdin(eof)).await;
        anyhow::Ok(())
    };
    let exit = call::until_exit(&mut events, async |_| Ok(()));
    tokio::pin!(exit);
    let exit = tokio::select! {
        // tar may end before it has read everything, and then its exit tells why
        biased;
        exit = &mut exit => exit?,
        fed = feed => {
            fed?;
            exit.await?
        }
    };
    ensure!(
        exit.reason() == ExecExitReason::Completed,
        "unpack in {dir}: {}",
        words(&exit)
    );
    if exit.exit_code != 0 {
        bail!("unpack in {dir}: tar ended with {}: {}", exit.exit_code, words(&exit));
    }
    Ok(())
}

/// A command in the main container that is not seen.
fn command(target: &Target, argv: &[&str]) -> ExecStartRequest {
    ExecStartRequest {
        target_id: target.id.clone(),
        command_argv: argv.iter().map(|&word| word.to_owned()).collect(),
        options: Some(ExecOptions {
            separate_stderr: true,
            ..ExecOptions::default()
        }),
        ..ExecStartRequest::default()
    }
}

/// What the command or the runtime said last.
fn words(exit: &ExecExit) -> String {
    let text = String::from_utf8_lossy(&exit.stderr_tail);
    match text.trim() {
        "" => "no reason was given".to_owned(),
        text => text.to_owned(),
    }
}
