//! Scraping metrics as Prometheus does, and asking what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use prometheus_parse::{Sample, Scrape, Value};

/// One scrape.
#[derive(Debug)]
pub struct Metrics {
    samples: Vec<Sample>,
    /// Kind by family, as the text says.
    pub families: BTreeMap<String, String>,
    /// Families with a text that says what they are.
    pub described: BTreeSet<String>,
}

/// Status, content type and text at a path.
pub async fn get(addr: SocketAddr, path: &str) -> (u16, String, String) {
    let client: Client<_, Empty<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let uri = format!("http://{addr}{path}").parse().unwrap();
    let answer = client.get(uri).await.unwrap();
    let kind = answer.headers().get("content-type");
    let kind = kind.map_or("", |kind| kind.to_str().unwrap()).to_owned();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, kind, String::from_utf8(body.to_vec()).unwrap())
}

/// Scrape; every line must be one that Prometheus reads.
pub async fn scrape(addr: SocketAddr) -> Metrics {
    let (status, kind, text) = get(addr, "/metrics").await;
    assert_eq!(
        (status, kind.as_str()),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap();
    let words = |start: &str| {
        let of = |line: &str| {
            let mut words = line.strip_prefix(start)?.split_whitespace();
            Some((words.next()?.to_owned(), words.next().unwrap_or_default().to_owned()))
        };
        text.lines().filter_map(of).collect::<Vec<_>>()
    };
    let families: BTreeMap<String, String> = words("# TYPE ").into_iter().collect();
    let described = words("# HELP ").into_iter().map(|(name, _)| name).collect();
    // the parser leaves out what it cannot read
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parts = |sample: &Sample| match &sample.value {
        Value::Histogram(buckets) => buckets.len(),
        _ => 1,
    };
    assert_eq!(scrape.samples.iter().map(parts).sum::<usize>(), lines.count(), "{text}");
    Metrics {
        samples: scrape.samples,
        families,
        described,
    }
}

impl Metrics {
    /// Sum over all series of a name with these labels; none when there is no such series.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let found = self.samples.iter().filter(|sample| {
            sample.metric == name && labels.iter().all(|(key, value)| sample.labels.get(key) == Some(*value))
        });
        let values = found.map(|sample| match sample.value {
            Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => value,
            ref other => panic!("{name} is no single number: {other:?}"),
        });
        values.fold(None, |sum, value| Some(sum.unwrap_or_default() + value))
    }

    /// The upper bounds of a histogram's buckets.
    pub fn bounds(&self, name: &str) -> Vec<f64> {
        let found = self.samples.iter().find(|sample| sample.metric == name);
        match &found.unwrap_or_else(|| panic!("no {name}")).value {
            Value::Histogram(buckets) => buckets.iter().map(|bucket| bucket.less_than).collect(),
            other => panic!("{name} is no histogram: {other:?}"),
        }
    }

    /// All values of a label, over all series that have it.
    pub fn values(&self, label: &str) -> BTreeSet<String> {
        let values = self.samples.iter().filter_map(|sample| sample.labels.get(label));
        values.map(str::to_owned).collect()
    }

    /// The names of all labels.
    pub fn labels(&self) -> BTreeSet<String> {
        self.samples
            .iter()
            .flat_map(|sample| sample.labels.keys().cloned())
            .collect()
    }
}
