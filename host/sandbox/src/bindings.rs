//! The generated bindings of `wit/`: the host's side of every hook. Nothing else is here.
//!
//! The generated world type is not used: which hooks a component serves is found interface by interface.
#![allow(missing_docs, unreachable_pub, clippy::all)]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "runner:policy/every-hook",
    imports: { default: trappable },
    exports: { default: async },
});
