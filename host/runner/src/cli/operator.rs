//! The connection of the operator's commands: where the admin API of a runner is.

use std::time::Duration;

use tonic::transport::{Channel, Uri};

use super::client;
use super::output::Format;
use crate::proto::host_v1::admin_service_client::AdminServiceClient;

pub(crate) type Client = AdminServiceClient<Channel>;

/// What all commands of an operator share.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection and output")]
pub(crate) struct Connection {
    /// Where the runner serves its admin API: http://HOST:PORT, or HOST:PORT
    #[arg(long, env = "RUNNER_ADMIN_ADDR", value_name = "ADDR", default_value = "http://127.0.0.1:50052", value_parser = client::address, global = true)]
    admin_addr: Uri,

    /// Form of the output; json prints the answers of the API as protobuf JSON, one document an answer
    #[arg(short, long, value_enum, default_value_t, global = true)]
    pub(crate) output: Format,
}

impl Connection {
    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        connect(&self.admin_addr).await
    }

    /// For a call that is meant to take that long.
    pub(crate) async fn connect_for(&self, time: Duration) -> anyhow::Result<Client> {
        open(&self.admin_addr, time).await
    }
}

/// Connect now, so that a runner that is not there is told apart from one that refuses.
pub(crate) async fn connect(addr: &Uri) -> anyhow::Result<Client> {
    open(addr, Duration::ZERO).await
}

async fn open(addr: &Uri, longer: Duration) -> anyhow::Result<Client> {
    let channel = client::channel(
        addr,
        longer,
        "admin API of a runner",
        "--admin-addr or RUNNER_ADMIN_ADDR",
    )
    .await?;
    // a plan has the whole pod, and a staged revision is uploaded with its plugins
    Ok(AdminServiceClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES)
        .max_encoding_message_size(MESSAGE_BYTES))
}

const MESSAGE_BYTES: usize = 256 << 20;
