//! The connection of the client commands: where the runner is, and one call for each of several ids.

use std::time::Duration;

use anyhow::{Context, anyhow};
use tonic::transport::{Channel, Endpoint, Uri};

use super::failure::{self, Failure};
use super::message;
use super::output::{self, Format};
use crate::proto::runner_v1::runner_service_client::RunnerServiceClient;

pub(crate) type Client = RunnerServiceClient<Channel>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the runner gives a call of Kubernetes, so that its own error arrives.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Bytes that a stream may be ahead of its reader.
const WINDOW: u32 = 1 << 20;

/// What all client commands share.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection and output")]
pub(crate) struct Connection {
    /// Where the runner serves: http://HOST:PORT, or HOST:PORT
    #[arg(long, env = "RUNNER_ADDR", value_name = "ADDR", default_value = "http://127.0.0.1:50051", value_parser = address, global = true)]
    addr: Uri,

    /// Form of the output; json prints the answers of the API as protobuf JSON, one document an answer
    #[arg(short, long, value_enum, default_value_t, global = true)]
    pub(crate) output: Format,
}

impl Connection {
    /// Connect now, so that a runner that is not there is told apart from one that refuses.
    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        let endpoint = Endpoint::from(self.addr.clone()).timeout(CALL_TIMEOUT);
        Ok(RunnerServiceClient::new(self.open(endpoint).await?))
    }

    /// The same for streams, which may be silent for as long as they like; a runner that is gone is noticed all the same.
    pub(crate) async fn connect_for_streams(&self) -> anyhow::Result<Client> {
        let endpoint = Endpoint::from(self.addr.clone())
            .tcp_keepalive(Some(KEEPALIVE))
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        Ok(RunnerServiceClient::new(self.open(endpoint).await?))
    }

    async fn open(&self, endpoint: Endpoint) -> anyhow::Result<Channel> {
        open(endpoint, &self.addr, "runner", "--addr or RUNNER_ADDR").await
    }

    /// An answer in the form asked for: the line, or the message of that name.
    pub(crate) fn show(&self, line: &str, name: &str, answer: &impl prost::Message) -> anyhow::Result<()> {
        match self.output {
            Format::Text => output::text(output::plain(line)),
            Format::Json => output::json(&message::json(name, answer)?)?,
        }
        Ok(())
    }
}

/// A connection to `what`, whose calls may take that long beyond what any call may; the hint says how to name another
/// address.
pub(super) async fn channel(addr: &Uri, longer: Duration, what: &str, hint: &str) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from(addr.clone()).timeout(CALL_TIMEOUT + longer);
    open(endpoint, addr, what, hint).await
}

async fn open(endpoint: Endpoint, addr: &Uri, what: &str, hint: &str) -> anyhow::Result<Channel> {
    let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT);
    endpoint.connect().await.map_err(|error| {
        let error = anyhow!(error);
        let cause = error.root_cause();
        let addr = addr.to_string();
        let addr = addr.trim_end_matches('/');
        anyhow!("no {what} answers at {addr}: {cause}; start one, or name another with {hint}")
    })
}

/// Plain HTTP/2 is what the runner serves; there is nothing else to say in an address than the host and the port.
pub(super) fn address(text: &str) -> Result<Uri, String> {
    let full = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let uri = full
        .parse::<Uri>()
        .map_err(|error| format!("{error}; expected http://HOST:PORT"))?;
    let bare = matches!(uri.path(), "" | "/") && uri.query().is_none();
    let named = uri
        .authority()
        .is_some_and(|a| !a.host().is_empty() && !a.as_str().contains('@'));
    if uri.scheme_str() == Some("http") && bare && named {
        Ok(uri)
    } else {
        Err("expected http://HOST:PORT".to_owned())
    }
}

/// One call for each id, all of them even when some fail; with several ids an error names its own.
pub(crate) async fn each(ids: &[String], mut call: impl AsyncFnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if let [id] = ids {
        return call(id).await;
    }
    let mut codes = Vec::new();
    for id in ids {
        if let Err(error) = call(id).await.with_context(|| id.clone()) {
            output::problem(&format!("{error:#}"));
            codes.push(failure::exit_code(&error));
        }
    }
    if codes.is_empty() {
        Ok(())
    } else {
        Err(failure::several(ids.len(), &codes).into())
    }
}

/// The message of an answer, or the failure that its status says.
pub(crate) fn answer<T>(result: Result<tonic::Response<T>, tonic::Status>) -> Result<T, Failure> {
    Ok(result?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for text in [
            "http://127.0.0.1:50051",
            "127.0.0.1:50051",
            "http://runner.svc:80/",
            "[::1]:1",
            "localhost",
        ] {
            assert!(address(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "https://a:1",
            "a:1/path",
            "http://u:p@a:1",
            "http://",
            "a b",
            "unix:///x",
        ] {
            let error = address(text).unwrap_err();
            assert!(error.contains("expected http://HOST:PORT"), "{text}: {error}");
        }
    }
}
