//! Replicas in paused time, against an API server that fails at random.

use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fake::{FakeApi, Fault};

/// The whole promise to the others.
const TAKEN_OVER: Duration = Duration::from_secs(15);

struct Replica {
    standing: watch::Receiver<Standing>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(api: &FakeApi, holder: &str) -> Self {
        let (sender, standing) = watch::channel(Standing::Unknown);
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (cluster, lease, stop) = (api.cluster(), Lease::new("runner", holder), stop.clone());
            async move { cluster.elect(lease, &sender, stop).await }
        });
        Self { standing, stop, task }
    }

    fn leads(&self) -> bool {
        self.standing.borrow().leads(Instant::now())
    }

    async fn until_it_leads(&self, limit: Duration) -> Duration {
        let begun = Instant::now();
        while !self.leads() {
            assert!(begun.elapsed() < limit, "not within {limit:?}");
            sleep(Duration::from_millis(10)).await;
        }
        begun.elapsed()
    }
}

fn holder(api: &FakeApi) -> String {
    let lease = api.get("leases/runner").unwrap();
    lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()
}

/// One leads; when it dies the other does within 15 s, and not before the first one has stopped by its own clock.
#[tokio::test(start_paused = true)]
async fn the_other_takes_over() {
    let api = FakeApi::default();
    let first = Replica::start(&api, "a");
    first.until_it_leads(Duration::from_secs(1)).await;
    let second = Replica::start(&api, "b");
    for _ in 0..600 {
        assert!(first.leads() && !second.leads());
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(*second.standing.borrow(), Standing::Other { holder: "a".into() });
    first.task.abort();
    let begun = Instant::now();
    while !second.leads() {
        assert!(begun.elapsed() < TAKEN_OVER, "{:?}", begun.elapsed());
        sleep(Duration::from_millis(10)).await;
    }
    assert!(!first.leads());
    let lease = api.get("leases/runner").unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    let renewed = lease["spec"]["renewTime"].as_str().unwrap();
    assert!(renewed.parse::<Timestamp>().is_ok() && renewed.len() == 27, "{renewed}");
}

/// Given up at the end, so that nobody waits; and what others keep in the object stays.
#[tokio::test(start_paused = true)]
async fn given_up_at_the_end() {
    let api = FakeApi::default();
    let first = Replica::start(&api, "a");
    first.until_it_leads(Duration::from_secs(1)).await;
    let mut lease = api.get("leases/runner").unwrap();
    lease["metadata"]["labels"] = json!({"team": "x"});
    api.put("leases/runner", lease);
    let second = Replica::start(&api, "b");
    sleep(Duration::from_secs(5)).await;
    first.stop.cancel();
    first.task.await.unwrap();
    assert_eq!(*first.standing.borrow(), Standing::Unknown);
    let waited = second.until_it_leads(Duration::from_secs(3)).await;
    assert!(waited <= RENEW, "{waited:?}");
    assert_eq!(api.get("leases/runner").unwrap()["metadata"]["labels"]["team"], "x");
    // one that does not hold it gives nothing up
    let third = Replica::start(&api, "c");
    sleep(Duration::from_secs(1)).await;
    third.stop.cancel();
    third.task.await.unwrap();
    assert_eq!(holder(&api), "b");
}

/// Without an API server nobody leads after a while; afterwards somebody does again.
#[tokio::test(start_paused = true)]
async fn an_outage() {
    let api = FakeApi::default();
    let replicas = [Replica::start(&api, "a"), Replica::start(&api, "b")];
    sleep(Duration::from_secs(5)).await;
    for _ in 0..100_000 {
        api.fail(
            Method::GET,
            "leases/runner",
            Fault::status(503, "ServiceUnavailable", "away"),
        );
    }
    sleep(Duration::from_secs(8)).await;
    assert!(replicas.iter().all(|replica| !replica.leads()));
    sleep(Duration::from_secs(60)).await;
    assert!(replicas.iter().all(|replica| !replica.leads()));
    api.heal();
    sleep(TAKEN_OVER).await;
    assert_eq!(replicas.iter().filter(|replica| replica.leads()).count(), 1);
}

/// A holder that another one replaced knows it with its next look, and a vanished Lease is not free at once.
#[tokio::test(start_paused = true)]
async fn taken_away_by_hand() {
    let api = FakeApi::default();
    let first = Replica::start(&api, "a");
    first.until_it_leads(Duration::from_secs(1)).await;
    let mut lease = api.get("leases/runner").unwrap();
    lease["spec"]["holderIdentity"] = json!("z");
    lease["metadata"]["resourceVersion"] = json!("by hand");
    api.put("leases/runner", lease);
    sleep(RENEW + AGAIN).await;
    assert_eq!(*first.standing.borrow(), Standing::Other { holder: "z".into() });
    api.take("leases/runner");
    sleep(Duration::from_secs(5)).await;
    assert!(!first.leads());
    first.until_it_leads(DURATION).await;
}

/// Calls that fail, hang, lose their answer, or are carried out when nobody waits for them any more; replicas that die and
/// others that come. Never two lead, and somebody leads again and again.
#[tokio::test(start_paused = true)]
async fn never_two() {
    for seed in 0..8 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let api = FakeApi::default();
        let mut replicas: Vec<Replica> = (0..3).map(|n| Replica::start(&api, &format!("r{n}"))).collect();
        let (mut led, mut leaders) = (0, 0);
        let mut last = None;
        for tick in 0..12_000 {
            if random.below(40) == 0 {
                let method = [Method::GET, Method::PUT][random.below(2)].clone();
                let fault = match random.below(5) {
                    0 => Fault::Hang,
                    1 => Fault::Lost,
                    2 => Fault::status(500, "InternalError", "not now"),
                    3 => Fault::status(409, "Conflict", "not now"),
                    _ => Fault::Slow(Duration::from_millis(random.below(20_000) as u64)),
                };
                api.fail(method, "leases/runner", fault);
            }
            if random.below(600) == 0 {
                let at = random.below(replicas.len());
                // not there any more for itself, but its calls may still be on their way
                replicas[at].task.abort();
                replicas[at] = Replica::start(&api, &format!("s{tick}"));
            }
            sleep(Duration::from_millis(50)).await;
            let now: Vec<usize> = (0..replicas.len()).filter(|&at| replicas[at].leads()).collect();
            assert!(now.len() < 2, "seed {seed}, tick {tick}: {now:?}");
            led += now.len();
            if !now.is_empty() && now.first() != last.as_ref() {
                leaders += 1;
                last = now.first().copied();
            }
        }
        assert!(
            led > 3_000 && leaders > 1,
            "seed {seed}: {led} of 12000 with a leader, {leaders} leaders"
        );
        replicas.iter().for_each(|replica| replica.task.abort());
    }
}

/// The same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
