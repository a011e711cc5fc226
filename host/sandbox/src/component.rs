//! From a source to a linked component: read, compare digests, compile, link. Every refusal says what the file is and
//! what it should be.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use wasmtime::component::InstancePre;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::hooks::{Entrypoints, chain};
use crate::linker;
use crate::manifest::{Builtin, Entry, Source};
use crate::run::Halt;
use crate::store::HostState;

const FILE_BYTES: u64 = 64 << 20;
const READ_TIME: Duration = Duration::from_secs(10);
/// Not counted against the plugin's own time. A component with an interpreter in it has tens of megabytes.
const COMPILE_TIME: Duration = Duration::from_secs(300);

/// A component that could be called.
pub(crate) struct Linked {
    /// `sha256:HEX`.
    pub(crate) digest: String,
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) entrypoints: Entrypoints,
}

/// Pointer of the field of the entry that is wrong, and why.
pub(crate) type Refusal = (&'static str, String);

pub(crate) async fn link(engine: &Engine, entry: &Entry, builtins: &[Builtin]) -> Result<Linked, Vec<Refusal>> {
    let one = |refusal| vec![refusal];
    let bytes = match &entry.content {
        Some(content) => content.0.clone(),
        None => read(engine, &entry.source, builtins)
            .await
            .map_err(|reason| one(("/source", reason)))?,
    };
    let hash: [u8; 32] = Sha256::digest(&bytes).into();
    let digest = format!("sha256:{}", hex::encode(hash));
    if let Some(pinned) = entry.digest.as_ref().filter(|pinned| **pinned != digest) {
        return Err(one((
            "/digest",
            format!("{} has digest {digest}, pinned is {pinned}", entry.source),
        )));
    }
    recognise(&bytes).map_err(|reason| one(("/source", format!("{} {reason}", entry.source))))?;

    let (compiling, stack) = (engine.clone(), entry.limits.stack);
    let work = move || {
        let stacked = compiling.stacks().of(stack)?;
        let component = stacked.artifacts.get(hash, &bytes);
        Ok::<_, EngineError>((stacked, component))
    };
    let (stacked, component) = match engine.run_blocking(COMPILE_TIME, work).await {
        Ok(Ok((stacked, Ok(component)))) => (stacked, component),
        Ok(Err(error)) => return Err(one(("/limits/stack", error.to_string()))),
        Ok(Ok((_, Err(error)))) => {
            return Err(one((
                "/source",
                format!("{} is not a valid component: {}", entry.source, chain(&error)),
            )));
        }
        Err(Halt::Time) => {
            let reason = format!("compiling {} took more than {} s", entry.source, COMPILE_TIME.as_secs());
            return Err(one(("/source", reason)));
        }
        Err(Halt::Busy | Halt::Lost) => return Err(one(("/source", "compiling was ended by the host".to_owned()))),
    };

    let at_source = |reasons: Vec<String>| -> Vec<Refusal> {
        reasons
            .into_iter()
            .map(|reason| ("/source", format!("{} {reason}", entry.source)))
            .collect()
    };
    let refused = linker::refused_imports(&stacked.wasmtime, &component);
    if !refused.is_empty() {
        return Err(at_source(refused));
    }
    let pre = stacked
        .linker
        .instantiate_pre(&component)
        .map_err(|error| at_source(vec![format!("cannot be linked: {}", chain(&error))]))?;
    let entrypoints = Entrypoints::find(&stacked.wasmtime, &component, &pre).map_err(at_source)?;
    Ok(Linked {
        digest,
        pre,
        entrypoints,
    })
}

async fn read(engine: &Engine, source: &Source, builtins: &[Builtin]) -> Result<Bytes, String> {
    match source {
        Source::Builtin(name) => builtins
            .iter()
            .find(|builtin| builtin.name == name)
            .map(|builtin| Bytes::from_static(builtin.bytes))
            .ok_or_else(|| {
                let names: Vec<&str> = builtins.iter().map(|builtin| builtin.name).collect();
                format!(
                    "there is no built-in plugin {name:?}; built in are {}",
                    names.join(", ")
                )
            }),
        Source::Path(path) => {
            let path = path.clone();
            match engine.run_blocking(READ_TIME, move || read_file(&path)).await {
                Ok(bytes) => bytes,
                Err(_) => Err(format!("reading {source} took more than {} s", READ_TIME.as_secs())),
            }
        }
    }
}

pub(crate) fn read_file(path: &Path) -> Result<Bytes, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("read {shown}: {error}");
    // A pipe or a device would block or never end.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(format!("{shown} is bigger than {} MiB", FILE_BYTES >> 20));
    }
    Ok(bytes.into())
}

/// Compiled code is never taken from a plugin file: it would run outside the sandbox.
fn recognise(bytes: &[u8]) -> Result<(), &'static str> {
    match bytes {
        [] => Err("is empty; expected a WebAssembly component"),
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Err(
            "is a core WebAssembly module; expected a component (target wasm32-wasip2, or `wasm-tools component new`)",
        ),
        [0, b'a', b's', b'm', _, _, _, _, ..] => {
            Err("is WebAssembly of a version that is not known; expected a component")
        }
        [0, b'a', b's', b'm', ..] | [0, b'a', b's'] | [0, b'a'] | [0] => {
            Err("is cut off; expected a WebAssembly component")
        }
        [0x7f, b'E', b'L', b'F', ..] => Err(
            "is compiled machine code (such as a .cwasm file); expected a WebAssembly component, the host compiles it",
        ),
        _ => Err("is not WebAssembly; expected a component"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_files() {
        for (bytes, part) in [
            (&b""[..], "is empty"),
            (b"\0asm\x01\0\0\0", "core WebAssembly module"),
            (b"\0asm\x0e\0\x01\0", "version that is not known"),
            (b"\0asm\x0d", "cut off"),
            (b"\x7fELF\x02", "compiled machine code"),
            (b"(component)", "is not WebAssembly"),
        ] {
            assert!(recognise(bytes).unwrap_err().contains(part), "{part}");
        }
        assert!(recognise(b"\0asm\x0d\0\x01\0").is_ok());
    }

    #[test]
    fn devices_and_directories_are_not_read() {
        for path in ["/dev/zero", "/"] {
            assert!(read_file(Path::new(path)).unwrap_err().ends_with("is not a file"));
        }
        assert!(
            read_file(Path::new("/no/such"))
                .unwrap_err()
                .starts_with("read /no/such: ")
        );
    }
}
