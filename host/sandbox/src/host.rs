//! The functions offered to plugins: settings, log, pod-view, provenance. Each call is counted against `hostCalls` and `time`.

use runner_core::edit::Rule;

use crate::bindings::runner::policy::{log, pod_view, provenance, settings};
use crate::error::one_line;
use crate::limits::LimitExceeded;
use crate::store::HostState;

/// Of one rule; the rest is cut.
const RULE_BYTES: usize = 1024;

impl HostState {
    /// A guest inside host functions never reaches an epoch check of its own.
    fn charge(&mut self) -> wasmtime::Result<()> {
        self.used.host_calls = self.used.host_calls.saturating_add(1);
        let allowed = self.context.limits.host_calls;
        if self.used.host_calls > allowed {
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
        let (limits, used) = (&self.context.limits, &mut self.used);
        let left = limits.log_bytes.saturating_sub(used.log_bytes);
        if used.log_lines >= limits.log_lines || left == 0 {
            let limit = if left == 0 { "logBytes" } else { "logLines" };
            used.log_limit.get_or_insert(limit);
            used.log_dropped = used.log_dropped.saturating_add(1);
            return Ok(());
        }
        let line = one_line(&message, usize::try_from(left).unwrap_or(usize::MAX));
        used.log_lines += 1;
        // A line that was cut used up what was left.
        used.log_bytes += (message.len() as u64).min(left);
        if message.len() as u64 > left {
            used.log_limit.get_or_insert("logBytes");
        }
        let (plugin, hook) = (&*self.context.plugin, self.context.hook);
        let revision = self.context.revision.as_deref();
        match level {
            log::Level::Debug => tracing::debug!(target: "plugin", plugin, hook, revision, "{line}"),
            log::Level::Info => tracing::info!(target: "plugin", plugin, hook, revision, "{line}"),
            log::Level::Warn => tracing::warn!(target: "plugin", plugin, hook, revision, "{line}"),
            log::Level::Error => tracing::error!(target: "plugin", plugin, hook, revision, "{line}"),
        }
        Ok(())
    }
}

impl provenance::Host for HostState {
    /// Rules are output: they end up in plans and in what is kept of running workloads.
    fn explain(&mut self, pointer: String, rule: String) -> wasmtime::Result<()> {
        self.charge()?;
        let limits = &self.context.limits;
        if self.rules.len() as u64 >= limits.edits {
            return Err(wasmtime::Error::new(LimitExceeded::new("edits", limits.edits)));
        }
        let bytes = (pointer.len() as u64).saturating_add(rule.len() as u64);
        self.used.output_bytes = self.used.output_bytes.saturating_add(bytes);
        if self.used.output_bytes > limits.output_bytes {
            return Err(wasmtime::Error::new(LimitExceeded::bytes(
                "outputBytes",
                limits.output_bytes,
            )));
        }
        let text = one_line(&rule, RULE_BYTES);
        self.rules.push(Rule { pointer, text });
        Ok(())
    }
}

impl Drop for HostState {
    /// Also after a trap: the operator learns that lines are missing.
    fn drop(&mut self) {
        if self.used.log_dropped > 0 {
            let (plugin, hook) = (&*self.context.plugin, self.context.hook);
            let revision = self.context.revision.as_deref();
            let limit = self.used.log_limit.unwrap_or_default();
            tracing::warn!(target: "plugin", plugin, hook, revision, limit, dropped = self.used.log_dropped, "log lines over the limit were dropped");
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
            revision: None,
            settings: "{}".into(),
            limits: Arc::new(limits),
            pod: None,
        };
        let mut store = store::open(&engine, context, Instant::now() + Duration::from_secs(60));
        let state = store.data_mut();
        for _ in 0..10 {
            log::Host::write(state, log::Level::Info, line.to_owned()).unwrap();
        }
        let used = &state.used;
        assert_eq!(used.log_limit.is_some(), used.log_dropped > 0);
        (used.log_lines, used.log_bytes, used.log_dropped)
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
