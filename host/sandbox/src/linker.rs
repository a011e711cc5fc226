//! What a plugin may import: our four interfaces, and a WASI that is there but empty, so that the same input gives the
//! same output. All else is refused at load with a text that names both sides (`imports`).

use std::time::Duration;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime_wasi::{Deterministic, HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder};

use crate::bindings::runner::policy::{log, pod_view, provenance, settings};
use crate::stderr::Stderr;
use crate::store::HostState;
use crate::wit_name::{PACKAGE, Standing, VERSION, WitName};

/// Our interfaces with the functions that they offer. The last two carry only types for plugins; guests of languages that
/// keep unused imports import their functions too.
const OFFERED: [(&str, &[&str]); 6] = [
    ("settings", &["get"]),
    ("log", &["write"]),
    ("pod-view", &["get"]),
    ("provenance", &["explain"]),
    ("types", &[]),
    ("catalog-mapping", &["load"]),
];

/// The linker, made once for an engine.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    settings::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    log::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    pod_view::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    provenance::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state)?;
    linker
        .instance(&format!("{PACKAGE}/catalog-mapping@{VERSION}"))?
        .func_new("load", |_, _, _, _| {
            wasmtime::bail!("catalog-mapping is a hook; the host does not offer it to plugins")
        })?;
    Ok(linker)
}

/// A context without files, network, arguments, environment, clock and randomness.
pub(crate) fn empty_wasi(stderr: Stderr) -> WasiCtx {
    const RANDOM_BYTES: u64 = 64 << 10;
    WasiCtxBuilder::new()
        .stderr(stderr)
        .wall_clock(Stopped)
        .monotonic_clock(Stopped)
        .secure_random(Deterministic::new(vec![0]))
        .insecure_random(Deterministic::new(vec![0]))
        .insecure_random_seed(0)
        .max_random_size(RANDOM_BYTES)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

struct Stopped;

impl HostWallClock for Stopped {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for Stopped {
    fn resolution(&self) -> u64 {
        1
    }
    fn now(&self) -> u64 {
        0
    }
}

/// Every import that the host does not offer, in words that name what is wanted and what is offered.
pub(crate) fn refused_imports(engine: &wasmtime::Engine, component: &Component) -> Vec<String> {
    let ty = component.component_type();
    let mut refused = Vec::new();
    for (name, item) in ty.imports(engine) {
        let wanted = WitName::parse(name);
        match wanted.standing() {
            Standing::Wasi => {}
            Standing::Foreign => refused.push(format!(
                "imports {name}, which plugins are not given; offered are {PACKAGE}@{VERSION} (settings, log, pod-view, provenance) and an empty WASI 0.2"
            )),
            Standing::OtherVersion => refused.push(format!(
                "imports {name}; this host offers {PACKAGE}/{}@{VERSION} and takes plugins of every 0.1.x",
                wanted.interface
            )),
            Standing::Ours => match OFFERED.iter().find(|(interface, _)| *interface == wanted.interface) {
                None => refused.push(format!("imports {name}, which {PACKAGE}@{VERSION} of this host does not have")),
                Some((_, functions)) => refused.extend(missing_functions(engine, name, &item.ty, functions)),
            },
        }
    }
    refused
}

fn missing_functions(engine: &wasmtime::Engine, name: &str, item: &ComponentItem, offered: &[&str]) -> Vec<String> {
    let ComponentItem::ComponentInstance(instance) = item else {
        return Vec::new();
    };
    instance
        .exports(engine)
        .filter(|(function, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)) && !offered.contains(function))
        .map(|(function, _)| {
            format!("wants function `{function}` of {name}, which {PACKAGE}@{VERSION} of this host does not have")
        })
        .collect()
}
