//! The caller's deadline, from the metadata of the call.
//!
//! It is taken a little early, so that the answer of a call that runs out of time is ours, DEADLINE_EXCEEDED: the server
//! library has a timer of its own, which says CANCELLED. [`Bounded`] gives it for every call, whatever it waits for.

use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::metadata::MetadataMap;
use tower::Service;

const HEADER: &str = "grpc-timeout";
/// At most this much is kept back of the caller's time, and never more than a tenth of it.
const MARGIN: Duration = Duration::from_millis(50);

/// When the caller stops waiting, if it said so (`grpc-timeout` of the gRPC over HTTP/2 specification).
pub(super) fn of(metadata: &MetadataMap) -> Option<Instant> {
    of_headers(metadata.as_ref())
}

fn of_headers(headers: &HeaderMap) -> Option<Instant> {
    let timeout = parse(headers.get(HEADER)?.to_str().ok()?)?;
    Instant::now().checked_add(timeout.saturating_sub(MARGIN.min(timeout / 10)))
}

/// A service whose calls answer by their deadline, or begin to, when they are streams.
#[derive(Debug, Clone)]
pub(crate) struct Bounded<S>(pub(crate) S);

impl<S, B, R> Service<Request<B>> for Bounded<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    R: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let deadline = of_headers(request.headers());
        let answer = self.0.call(request);
        Box::pin(async move {
            let passed = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                // what the call makes of the same deadline, some error of Kubernetes, does not go first
                biased;
                () = passed => Ok(Status::deadline_exceeded("the deadline of the call has passed").into_http()),
                answer = answer => answer,
            }
        })
    }
}

/// At most eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(value.checked_mul(3600)?),
        'M' => Duration::from_secs(value.checked_mul(60)?),
        'S' => Duration::from_secs(value),
        'm' => Duration::from_millis(value),
        'u' => Duration::from_micros(value),
        'n' => Duration::from_nanos(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G-50
    #[tokio::test(start_paused = true)]
    async fn answer_at_the_deadline() {
        let request = |timeout: Option<&str>| {
            let mut request = Request::new(());
            if let Some(timeout) = timeout {
                request.headers_mut().insert(HEADER, timeout.parse().unwrap());
            }
            request
        };
        let slow = tower::service_fn(|_: Request<()>| async {
            tokio::time::sleep(Duration::from_millis(960)).await;
            Ok::<_, std::convert::Infallible>(Response::new(()))
        });
        let mut service = Bounded(slow);
        for (timeout, status) in [
            (Some("1S"), Some("4")),
            (Some("2S"), None),
            (None, None),
            (Some("x"), None),
        ] {
            let answer = service.call(request(timeout)).await.unwrap();
            let got = answer.headers().get("grpc-status").map(|value| value.to_str().unwrap());
            assert_eq!(got, status, "{timeout:?}");
        }
    }

    #[test]
    fn units() {
        for (text, wanted) in [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3S", Some(Duration::from_secs(3))),
            ("99999999m", Some(Duration::from_millis(99_999_999))),
            ("5u", Some(Duration::from_micros(5))),
            ("6n", Some(Duration::from_nanos(6))),
            ("", None),
            ("S", None),
            ("1x", None),
            ("123456789S", None),
            ("-1S", None),
        ] {
            assert_eq!(parse(text), wanted, "{text}");
        }
    }
}
