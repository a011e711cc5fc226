//! Counts what the instances of one store hold: memory and table elements, as sums over all of them.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::limits::{LimitExceeded, Limits, count};

/// An error over the limit, not a refusal: a guest would turn that into a bare trap.
pub(crate) struct Usage {
    limits: Arc<Limits>,
    memory: u64,
    elements: u64,
    pending: u64,
}

impl Usage {
    pub(crate) fn new(limits: Arc<Limits>) -> Self {
        Self {
            limits,
            memory: 0,
            elements: 0,
            pending: 0,
        }
    }
}

impl Usage {
    /// Bytes of all linear memories together.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }
}

impl ResourceLimiter for Usage {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        self.pending = desired.saturating_sub(current) as u64;
        let wanted = self.memory.saturating_add(self.pending);
        if wanted > self.limits.memory {
            return Err(wasmtime::Error::new(LimitExceeded::bytes("memory", self.limits.memory)));
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            self.pending = 0;
            return Ok(false);
        }
        self.memory = wanted;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory = self.memory.saturating_sub(std::mem::take(&mut self.pending));
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        self.pending = desired.saturating_sub(current) as u64;
        let wanted = self.elements.saturating_add(self.pending);
        if wanted > self.limits.table_elements {
            return Err(wasmtime::Error::new(LimitExceeded::new(
                "tableElements",
                self.limits.table_elements,
            )));
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            self.pending = 0;
            return Ok(false);
        }
        self.elements = wanted;
        Ok(true)
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.elements = self.elements.saturating_sub(std::mem::take(&mut self.pending));
        Ok(())
    }

    fn instances(&self) -> usize {
        count(self.limits.instances)
    }

    fn tables(&self) -> usize {
        count(self.limits.tables)
    }

    fn memories(&self) -> usize {
        count(self.limits.memories)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(limits: Limits) -> Usage {
        Usage::new(Arc::new(limits))
    }

    #[test]
    fn memory_is_a_sum() {
        let mut usage = usage(Limits {
            memory: 100,
            ..Limits::default()
        });
        assert!(usage.memory_growing(0, 60, None).unwrap());
        assert!(usage.memory_growing(0, 40, None).unwrap());
        let error = usage.memory_growing(40, 41, None).unwrap_err();
        assert_eq!(error.root_cause().to_string(), "memory limit of 100 bytes exceeded");
    }

    #[test]
    fn a_failed_growth_is_given_back() {
        let mut usage = usage(Limits {
            memory: 100,
            table_elements: 10,
            ..Limits::default()
        });
        assert!(usage.memory_growing(0, 60, None).unwrap());
        usage.memory_grow_failed(wasmtime::Error::msg("x")).unwrap();
        assert!(usage.memory_growing(0, 100, None).unwrap());
        assert!(usage.memory_growing(0, 0, None).unwrap());
        assert!(usage.table_growing(0, 10, None).unwrap());
        usage.table_grow_failed(wasmtime::Error::msg("x")).unwrap();
        assert!(usage.table_growing(0, 10, None).unwrap());
        let error = usage.table_growing(10, 11, None).unwrap_err();
        assert_eq!(error.root_cause().to_string(), "tableElements limit of 10 exceeded");
    }

    #[test]
    fn the_guests_own_maximum_is_a_refusal() {
        assert!(!usage(Limits::default()).memory_growing(0, 60, Some(50)).unwrap());
    }
}
