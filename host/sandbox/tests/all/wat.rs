//! Plugins written in WebAssembly text, for what a compiler would never emit. All of them mutate pods: by default with an
//! answer of no edits.

use std::path::{Path, PathBuf};

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The parts of a plugin. Memory is all zeros, and an answer of zeros is a good one.
#[derive(Clone, Copy)]
pub(crate) struct Wat {
    /// Imports, data, tables, functions.
    pub(crate) extra: &'static str,
    /// What `mutate` does; it leaves the address of its answer.
    pub(crate) mutate: &'static str,
    /// What happens after the host has read the answer.
    pub(crate) drop: &'static str,
    /// What memory is given for the host's arguments.
    pub(crate) realloc: &'static str,
}

impl Default for Wat {
    fn default() -> Self {
        Self {
            extra: "",
            mutate: "i32.const 0",
            drop: "",
            realloc: "i32.const 8192",
        }
    }
}

impl Wat {
    fn module(&self) -> String {
        let Self {
            extra,
            mutate,
            drop,
            realloc,
        } = self;
        // The record of the workload is twelve numbers: six addresses and lengths.
        let workload = "i32 ".repeat(12);
        format!(
            r#"(module
                {extra}
                (memory (export "memory") 1)
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) {realloc})
                (func (export "runner:policy/plugin@0.1.0#describe") (result i32) i32.const 0)
                (func (export "runner:policy/plugin@0.1.0#check-settings") (result i32) i32.const 0)
                (func (export "runner:policy/pod-mutation@0.1.0#mutate") (param {workload}) (result i32) {mutate})
                (func (export "cabi_post_runner:policy/pod-mutation@0.1.0#mutate") (param i32) {drop}))"#
        )
    }

    /// The component's bytes, for the world of this repository.
    pub(crate) fn component(&self) -> Vec<u8> {
        component(&wit(), &self.module())
    }
}

/// The directory of the WIT package.
pub(crate) fn wit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
}

/// A mutator whose hook has another type than the host's.
pub(crate) fn of_another_type(dir: &Path) -> Vec<u8> {
    for entry in std::fs::read_dir(wit()).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        let mut text = std::fs::read_to_string(entry.path()).unwrap();
        if name == "mutation.wit" {
            let changed = text.replace("result<list<edit>, rejection>", "result<list<u32>, rejection>");
            assert_ne!(changed, text);
            text = changed;
        }
        std::fs::write(dir.join(name), text).unwrap();
    }
    component(dir, &Wat::default().module())
}

fn component(wit: &Path, module: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).unwrap();
    let world = resolve.select_world(&[package], Some("mutation-plugin")).unwrap();
    let mut module = wat::parse_str(module).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default()
        .module(&module)
        .unwrap()
        .validate(true)
        .encode()
        .unwrap()
}
