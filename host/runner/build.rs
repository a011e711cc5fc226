//! Compiles `proto/` with a protobuf compiler written in Rust; no protoc is needed.

use std::error::Error;
use std::path::PathBuf;

use prost::Message as _;

const FILES: [&str; 4] = [
    "agynio/api/runner/v1/runner.proto",
    "agynio/api/runners/v1/runners.proto",
    "agynio/api/gateway/v1/runners.proto",
    "runner/host/v1/admin.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let descriptors = protox::compile(FILES, [&root])?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".agynio.api.runner.v1.LogChunk.data")
        .bytes(".agynio.api.runner.v1.ExecOutput.data")
        .bytes(".agynio.api.runner.v1.ExecStdin.data")
        .bytes(".agynio.api.runner.v1.PutArchiveRequest.tar_payload")
        .btree_map(".")
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}
