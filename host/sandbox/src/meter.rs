//! Counters of plugin calls, through the `metrics` facade: what exports them is the binary's choice. Labels are names of
//! the plugins file, of interfaces and of limits, never anything that a caller or a plugin makes up.

use std::time::Duration;

use metrics::{counter, describe_counter, describe_histogram, histogram};

use runner_core::Kind;

use crate::error::{CallError, Cause};

const CALLS: &str = "runner_plugin_calls_total";
const SECONDS: &str = "runner_plugin_call_seconds";
const LIMITS: &str = "runner_plugin_limit_hits_total";
const OPENED: &str = "runner_plugin_breaker_opened_total";
const STAND_INS: &str = "runner_plugin_stand_ins_total";

/// Tell the recorder what the counters mean; for the binary, once a recorder is installed.
pub fn describe_metrics() {
    describe_counter!(
        CALLS,
        "Calls of plugins by outcome: ok, refused, forbidden, limit, trap, answer, host, unavailable"
    );
    describe_histogram!(SECONDS, "Wall time of calls of plugins in seconds");
    describe_counter!(
        LIMITS,
        "Limits that plugins hit, by their key in the plugins file; chain.NAME is one of the whole plan"
    );
    describe_counter!(OPENED, "Breakers that opened");
    describe_counter!(
        STAND_INS,
        "Calls that a built-in plugin answered in place of one that failed"
    );
}

/// One call came to its end.
pub(crate) fn call<T>(plugin: &str, hook: &'static str, result: &Result<T, CallError>, time: Duration) {
    let outcome = match result {
        Ok(_) => "ok",
        Err(CallError::Refused(error)) if error.kind == Kind::PermissionDenied => "forbidden",
        Err(CallError::Refused(_)) => "refused",
        Err(CallError::Unavailable { .. }) => "unavailable",
        Err(CallError::Failed { cause, .. }) => match cause {
            Cause::Limit(limit) => {
                self::limit(plugin, hook, (*limit).to_owned());
                "limit"
            }
            Cause::ChainLimit(limit) => {
                self::limit(plugin, hook, format!("chain.{limit}"));
                "limit"
            }
            Cause::Trap => "trap",
            Cause::Answer => "answer",
            Cause::Host => "host",
        },
    };
    counter!(CALLS, "plugin" => plugin.to_owned(), "hook" => hook, "outcome" => outcome).increment(1);
    histogram!(SECONDS, "plugin" => plugin.to_owned(), "hook" => hook).record(time.as_secs_f64());
}

/// A call that is not part of a plan failed: at load, or when a catalog is mapped. Its limit counts all the same.
pub(crate) fn failed_at_load(error: &CallError) {
    if let CallError::Failed {
        plugin,
        hook,
        cause: Cause::Limit(limit),
        ..
    } = error
    {
        self::limit(plugin, hook, (*limit).to_owned());
    }
}

/// A limit that was hit, also one that only drops log lines.
pub(crate) fn limit(plugin: &str, hook: &'static str, limit: String) {
    counter!(LIMITS, "plugin" => plugin.to_owned(), "hook" => hook, "limit" => limit).increment(1);
}

pub(crate) fn breaker_opened(plugin: &str, hook: &'static str) {
    counter!(OPENED, "plugin" => plugin.to_owned(), "hook" => hook).increment(1);
}

pub(crate) fn stand_in(plugin: &str, hook: &'static str) {
    counter!(STAND_INS, "plugin" => plugin.to_owned(), "hook" => hook).increment(1);
}
