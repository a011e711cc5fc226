//! The plugin calls of one plan: within its limits together, behind each plugin's breaker, and with the built-in plugin
//! that stands in for one that failed. What an answer means for the pod is judged by the caller, before it counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use runner_core::Error;
use runner_core::capability::Applied;
use runner_core::edit::{Edit, Rule};
use runner_core::flavor::{Flavor, Sizing};
use runner_core::workload::WorkloadSpec;
use serde_json::Value;

use crate::breaker::Ticket;
use crate::error::{CallError, Cause, Failure};
use crate::hooks::{self, Caller, Hook, Reply};
use crate::limits::{ChainLimits, LimitExceeded, Limits};
use crate::meter;
use crate::plugin::Plugin;
use crate::revision::Revision;
use crate::store::Used;

/// The calls of one plan. `'r` is the revision.
pub struct Chain<'r> {
    limits: &'r ChainLimits,
    /// What decides, for the logs of the plugins.
    revision: Option<Arc<str>>,
    until: Instant,
    left: ChainLimits,
}

/// An answer to be judged.
pub struct Answer<'r, T> {
    /// Who gave it: the plugin asked, or the built-in one that stands in for it.
    pub by: &'r Plugin,
    /// Of the right form, within the limits.
    pub value: T,
    /// Why, if the plugin says.
    pub rules: Vec<Rule>,
}

/// Why an answer does not count.
pub enum Fault {
    /// Not allowed: the request is refused, and the plugin works.
    Forbidden(Error),
    /// It cannot be used: the plugin's failure.
    Unusable(String),
}

impl<'r> Chain<'r> {
    /// The calls of a plan under this revision; the time runs from now on.
    pub fn of(revision: &'r Revision) -> Self {
        Self {
            revision: Some(revision.shared_id()),
            ..Self::start(revision.chain_limits())
        }
    }

    /// The time runs from now on.
    pub fn start(limits: &'r ChainLimits) -> Self {
        Self {
            limits,
            revision: None,
            until: Instant::now() + limits.time,
            left: limits.clone(),
        }
    }

    /// How big a workload is: of this flavor, or of none.
    pub async fn size<R>(
        &mut self,
        plugin: &'r Plugin,
        flavor: Option<&Flavor>,
        workload: &WorkloadSpec,
        mut judge: impl FnMut(Answer<'r, Sizing>) -> Result<R, Fault>,
    ) -> Result<R, CallError> {
        let mut turn = self.first(plugin, Hook::FlavorSizing, plugin.stand_in(Hook::FlavorSizing))?;
        loop {
            let at = turn.by.at(turn.by.entrypoints().flavor.as_ref(), turn.hook)?;
            let result = hooks::flavor::size(&turn.caller, at, flavor, workload).await;
            match self.end(turn, result, &mut judge) {
                Next::Done(result) => return result,
                Next::StandIn(next) => turn = next,
            }
        }
    }

    /// What a capability changes in the pod.
    pub async fn apply<R>(
        &mut self,
        plugin: &'r Plugin,
        capability: &str,
        workload: &WorkloadSpec,
        pod: &Arc<Value>,
        mut judge: impl FnMut(Answer<'r, Applied>) -> Result<R, Fault>,
    ) -> Result<R, CallError> {
        let stand_in = plugin.stand_in_for_capability(capability);
        let mut turn = self.first(plugin, Hook::CapabilityPolicy, stand_in)?;
        loop {
            let at = turn.by.at(turn.by.entrypoints().capability.as_ref(), turn.hook)?;
            let result = hooks::capability::apply(&turn.caller, at, capability, workload, Arc::clone(pod)).await;
            match self.end(turn, result, &mut judge) {
                Next::Done(result) => return result,
                Next::StandIn(next) => turn = next,
            }
        }
    }

    /// What else changes in the pod.
    pub async fn mutate<R>(
        &mut self,
        plugin: &'r Plugin,
        workload: &WorkloadSpec,
        pod: &Arc<Value>,
        mut judge: impl FnMut(Answer<'r, Vec<Edit>>) -> Result<R, Fault>,
    ) -> Result<R, CallError> {
        let mut turn = self.first(plugin, Hook::PodMutation, plugin.stand_in(Hook::PodMutation))?;
        loop {
            let at = turn.by.at(turn.by.entrypoints().pod.as_ref(), turn.hook)?;
            let result = hooks::pod::mutate(&turn.caller, at, workload, Arc::clone(pod)).await;
            match self.end(turn, result, &mut judge) {
                Next::Done(result) => return result,
                Next::StandIn(next) => turn = next,
            }
        }
    }

    /// The plugin's own turn, or that of its stand-in when the breaker is open.
    fn first(&self, plugin: &'r Plugin, hook: Hook, stand_in: Option<&'r Plugin>) -> Result<Turn<'r>, CallError> {
        let shut = match plugin.breakers().of(hook).admit(Instant::now()) {
            Ok(ticket) => return Ok(self.turn(plugin, hook, Some(ticket), stand_in)),
            Err(shut) => shut,
        };
        let wait = if shut.wait.is_zero() {
            "one call is trying it now".to_owned()
        } else {
            format!("tried again in {} s", shut.wait.as_secs().max(1))
        };
        let error = CallError::Unavailable {
            plugin: plugin.name().to_owned(),
            hook: hook.as_str(),
            reason: format!(
                "not called after failures in a row, {wait}; the last was: {}",
                shut.reason
            ),
        };
        meter::call::<()>(plugin.name(), hook.as_str(), &Err(error.clone()), Duration::ZERO);
        self.stand_in(plugin, hook, stand_in, &error).ok_or(error)
    }

    fn stand_in(
        &self,
        plugin: &Plugin,
        hook: Hook,
        stand_in: Option<&'r Plugin>,
        error: &CallError,
    ) -> Option<Turn<'r>> {
        let by = stand_in?;
        tracing::warn!(plugin = plugin.name(), %hook, stand_in = by.name(), %error, "a built-in plugin stands in");
        meter::stand_in(plugin.name(), hook.as_str());
        Some(self.turn(by, hook, None, None))
    }

    fn turn(&self, by: &'r Plugin, hook: Hook, ticket: Option<Ticket<'r>>, stand_in: Option<&'r Plugin>) -> Turn<'r> {
        let mut caller = by.caller().clone();
        caller.until = Some(self.until);
        caller.revision.clone_from(&self.revision);
        if let Some(limits) = self.left.tighter(&caller.limits) {
            caller.limits = Arc::new(limits);
        }
        Turn {
            by,
            hook,
            caller,
            ticket,
            stand_in,
            start: Instant::now(),
        }
    }

    /// Count what was used, judge the answer, tell the breaker, and see who is next.
    fn end<T, R>(
        &mut self,
        turn: Turn<'r>,
        result: Result<Reply<T>, CallError>,
        judge: &mut impl FnMut(Answer<'r, T>) -> Result<R, Fault>,
    ) -> Next<'r, R> {
        let (by, hook) = (turn.by, turn.hook);
        let time = turn.start.elapsed();
        let result = match result {
            Ok(Reply { value, rules, used }) => {
                self.left.take(&used);
                if let Some(limit) = used.log_limit {
                    meter::limit(by.name(), hook.as_str(), limit.to_owned());
                }
                judge(Answer { by, value, rules }).map_err(|fault| match fault {
                    Fault::Forbidden(error) => CallError::Refused(error),
                    Fault::Unusable(reason) => turn.caller.failed(hook.as_str(), reason),
                })
            }
            Err(CallError::Failed {
                cause: Cause::Limit(limit),
                ..
            }) if self.limits_bound(by, limit) => Err(turn.caller.failed(hook.as_str(), self.exceeded(limit))),
            Err(error) => Err(error),
        };
        meter::call(by.name(), hook.as_str(), &result, time);
        let failed = match &result {
            Err(CallError::Failed { cause, reason, .. }) if cause.is_plugins() => Some(reason),
            _ => None,
        };
        if let Some(ticket) = turn.ticket {
            match (&result, failed) {
                (_, Some(reason)) => {
                    if ticket.failed(reason, Instant::now()) {
                        let pause = by.breakers().settings().pause;
                        tracing::warn!(plugin = by.name(), %hook, reason, ?pause, "plugin failed repeatedly and is not called for a while");
                        meter::breaker_opened(by.name(), hook.as_str());
                    }
                }
                (Ok(_) | Err(CallError::Refused(_)), None) => {
                    if ticket.worked() {
                        tracing::info!(plugin = by.name(), %hook, "plugin works again");
                    }
                }
                // Not the plugin's doing: the ticket is given back.
                (Err(_), None) => drop(ticket),
            }
        }
        match result {
            Err(error) if failed_by_plugin(&error) => match self.stand_in(by, hook, turn.stand_in, &error) {
                Some(next) => Next::StandIn(next),
                None => Next::Done(Err(error)),
            },
            result => Next::Done(result),
        }
    }

    /// The plan had less left of a limit than the plugin may use.
    fn limits_bound(&self, by: &Plugin, limit: &str) -> bool {
        let (own, left) = (by.limits(), &self.left);
        match limit {
            "time" => Instant::now() >= self.until,
            "hostCalls" => left.host_calls < own.host_calls,
            "outputBytes" => left.output_bytes < own.output_bytes,
            "edits" => left.edits < own.edits,
            _ => false,
        }
    }

    fn exceeded(&self, limit: &'static str) -> Failure {
        let all = self.limits;
        let exceeded = match limit {
            "time" => LimitExceeded::time(all.time),
            "hostCalls" => LimitExceeded::new(limit, all.host_calls),
            "outputBytes" => LimitExceeded::bytes(limit, all.output_bytes),
            _ => LimitExceeded::new(limit, all.edits),
        };
        Failure::new(Cause::ChainLimit(limit), format!("chain {exceeded}"))
    }
}

fn failed_by_plugin(error: &CallError) -> bool {
    matches!(error, CallError::Failed { cause, .. } if cause.is_plugins())
}

struct Turn<'r> {
    by: &'r Plugin,
    hook: Hook,
    caller: Caller,
    /// None for a stand-in: it has no breaker to tell.
    ticket: Option<Ticket<'r>>,
    stand_in: Option<&'r Plugin>,
    start: Instant,
}

enum Next<'r, R> {
    Done(Result<R, CallError>),
    StandIn(Turn<'r>),
}

impl ChainLimits {
    /// The plugin's limits cut to what is left; none when they are within it.
    fn tighter(&self, own: &Limits) -> Option<Limits> {
        let cut = Limits {
            host_calls: own.host_calls.min(self.host_calls),
            output_bytes: own.output_bytes.min(self.output_bytes),
            edits: own.edits.min(self.edits),
            log_lines: own.log_lines.min(self.log_lines),
            log_bytes: own.log_bytes.min(self.log_bytes),
            ..own.clone()
        };
        (cut != *own).then_some(cut)
    }

    fn take(&mut self, used: &Used) {
        for (left, used) in [
            (&mut self.host_calls, used.host_calls),
            (&mut self.output_bytes, used.output_bytes),
            (&mut self.edits, used.edits),
            (&mut self.log_lines, used.log_lines),
            (&mut self.log_bytes, used.log_bytes),
        ] {
            *left = left.saturating_sub(used);
        }
    }
}
