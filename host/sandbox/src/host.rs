//! The functions offered to plugins: settings, log, pod-view. Each call is counted against `hostCalls` and `time`.

use crate::bindings::runner::policy::{log, pod_view, settings};
use crate::error::one_line;
use crate::limits::LimitExceeded;
use crate::store::HostState;

impl HostState {
    /// A guest inside host functions never reaches an epoch check of its own.
    fn charge(&mut self) -> wasmtime::Result<()> {
        self.host_calls = self.host_calls.saturating_add(1);
        let allowed = self.context.limits.host_calls;
        if self.host_calls > allowed {
            return Err(wasmtime::Error::new(LimitExceeded::new("hostCalls", allowed)));
        }
        self.check_time()
    }
}

impl settings::Host for HostState {
    fn get(&mut self) -> wasmtime::Result<String> {
        self.charge()?;
        Ok(self.context.settings.to_string())
    }
}

impl pod_view::Host for HostState {
    fn get(&mut self, pointer: String) -> wasmtime::Result<Option<String>> {
        self.charge()?;
        let found = self.context.pod.as_deref().and_then(|pod| pod.pointer(&pointer));
        Ok(found.map(ToString::to_string))
    }
}

impl log::Host for HostState {
    fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        self.charge()?;
        let limits = &self.context.limits;
        let left = limits.log_bytes.saturating_sub(self.log_bytes);
        if self.log_lines >= limits.log_lines || left == 0 {
            self.log_dropped = self.log_dropped.saturating_add(1);
            return Ok(());
        }
        let line = one_line(&message, usize::try_from(left).unwrap_or(usize::MAX));
        self.log_lines += 1;
        // A line that was cut used up what was left.
        self.log_bytes += (message.len() as u64).min(left);
        let (plugin, hook) = (&*self.context.plugin, self.context.hook);
        match level {
            log::Level::Debug => tracing::debug!(target: "plugin", plugin, hook, "{line}"),
            log::Level::Info => tracing::info!(target: "plugin", plugin, hook, "{line}"),
            log::Level::Warn => tracing::warn!(target: "plugin", plugin, hook, "{line}"),
            log::Level::Error => tracing::error!(target: "plugin", plugin, hook, "{line}"),
        }
        Ok(())
    }
}

impl Drop for HostState {
    /// Also after a trap: the operator learns that lines are missing.
    fn drop(&mut self) {
        if self.log_dropped > 0 {
            let (plugin, hook) = (&*self.context.plugin, self.context.hook);
            tracing::warn!(target: "plugin", plugin, hook, dropped = self.log_dropped, "log lines over the limit were dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::limits::Limits;
    use crate::store::{self, CallContext};

    fn written(limits: Limits, line: &str) -> (u64, u64, u64) {
        let engine = wasmtime::Engine::default();
        let context = CallContext {
            plugin: "p".into(),
            hook: "pod-mutation",
            settings: "{}".into(),
            limits: Arc::new(limits),
            pod: None,
        };
        let mut store = store::open(&engine, context, Instant::now() + Duration::from_secs(60));
        let state = store.data_mut();
        for _ in 0..10 {
            log::Host::write(state, log::Level::Info, line.to_owned()).unwrap();
        }
        (state.log_lines, state.log_bytes, state.log_dropped)
    }

    #[test]
    fn log_lines_over_the_limit_are_dropped_and_counted() {
        let limits = |log_lines, log_bytes| Limits {
            log_lines,
            log_bytes,
            ..Limits::default()
        };
        assert_eq!(written(limits(100, 100), "abc"), (10, 30, 0));
        assert_eq!(written(limits(4, 100), "abc"), (4, 12, 6));
        assert_eq!(written(limits(100, 8), "abc"), (3, 8, 7));
    }
}
