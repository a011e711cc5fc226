//! Limits of a plugin, of the chain, and of a breaker: mappings from known keys to sizes, counts and times.

use std::time::Duration;

use runner_core::quantity::Quantity;

use super::Reader;
use crate::breaker::BreakerSettings;
use crate::limits::{ChainLimits, Limits};
use crate::yaml::{Data, Node};

/// Where a value goes, and the most that it can be.
enum Slot<'a> {
    Time(&'a mut Duration, Duration),
    Number(&'a mut u64, u64),
    Count(&'a mut u32, u32),
}

impl Reader<'_> {
    pub(super) fn limits(&mut self, node: &Node, field: &str) -> Limits {
        let mut limits = Limits::default();
        let (l, most) = (&mut limits, Limits::CEILING);
        self.slots(
            node,
            field,
            [
                ("time", Slot::Time(&mut l.time, most.time)),
                ("memory", Slot::Number(&mut l.memory, most.memory)),
                ("memories", Slot::Number(&mut l.memories, most.memories)),
                ("stack", Slot::Number(&mut l.stack, most.stack)),
                ("tables", Slot::Number(&mut l.tables, most.tables)),
                (
                    "tableElements",
                    Slot::Number(&mut l.table_elements, most.table_elements),
                ),
                ("instances", Slot::Number(&mut l.instances, most.instances)),
                ("handles", Slot::Number(&mut l.handles, most.handles)),
                ("hostCalls", Slot::Number(&mut l.host_calls, most.host_calls)),
                ("callBytes", Slot::Number(&mut l.call_bytes, most.call_bytes)),
                ("outputBytes", Slot::Number(&mut l.output_bytes, most.output_bytes)),
                ("edits", Slot::Number(&mut l.edits, most.edits)),
                ("valueBytes", Slot::Number(&mut l.value_bytes, most.value_bytes)),
                ("logLines", Slot::Number(&mut l.log_lines, most.log_lines)),
                ("logBytes", Slot::Number(&mut l.log_bytes, most.log_bytes)),
            ],
        );
        limits
    }

    pub(super) fn chain(&mut self, node: &Node, field: &str) -> ChainLimits {
        let mut limits = ChainLimits::default();
        let (l, most) = (&mut limits, ChainLimits::CEILING);
        self.slots(
            node,
            field,
            [
                ("time", Slot::Time(&mut l.time, most.time)),
                ("hostCalls", Slot::Number(&mut l.host_calls, most.host_calls)),
                ("outputBytes", Slot::Number(&mut l.output_bytes, most.output_bytes)),
                ("edits", Slot::Number(&mut l.edits, most.edits)),
                ("logLines", Slot::Number(&mut l.log_lines, most.log_lines)),
                ("logBytes", Slot::Number(&mut l.log_bytes, most.log_bytes)),
            ],
        );
        limits
    }

    pub(super) fn breaker(&mut self, node: &Node, field: &str) -> BreakerSettings {
        let mut settings = BreakerSettings::default();
        let (s, most) = (&mut settings, BreakerSettings::CEILING);
        self.slots(
            node,
            field,
            [
                ("failures", Slot::Count(&mut s.failures, most.failures)),
                ("pause", Slot::Time(&mut s.pause, most.pause)),
            ],
        );
        settings
    }

    /// Every key is one of the slots'; what is not written keeps its default.
    fn slots<const N: usize>(&mut self, node: &Node, field: &str, mut slots: [(&str, Slot<'_>); N]) {
        let known = slots.each_ref().map(|(key, _)| *key);
        for (key, place, value) in self.mapping(node, field, &known).unwrap_or_default() {
            let Some((_, slot)) = slots.iter_mut().find(|(known, _)| known == key) else {
                continue;
            };
            let read = match slot {
                Slot::Time(to, most) => duration(value, *most).map(|time| **to = time),
                Slot::Number(to, most) => size(value, *most).map(|number| **to = number),
                Slot::Count(to, most) => {
                    size(value, u64::from(*most)).map(|number| **to = u32::try_from(number).unwrap_or(*most))
                }
            };
            if let Err(reason) = read {
                self.problem(*place, &format!("{field}.{key}"), reason);
            }
        }
    }
}

/// The value as written, or what it is.
fn shown(node: &Node) -> String {
    match &node.data {
        Data::Text(text) => format!("{text:?}"),
        Data::Number(number) => number.to_string(),
        _ => node.kind().to_owned(),
    }
}

fn duration(node: &Node, most: Duration) -> Result<Duration, String> {
    let bad = || {
        format!(
            "{} is not a time such as 250ms or 2s, at most {}s",
            shown(node),
            most.as_secs()
        )
    };
    let Data::Text(text) = &node.data else {
        return Err(bad());
    };
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(unit).ok_or_else(bad)?;
    let number: u64 = number.parse().map_err(|_| bad())?;
    let time = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        _ => return Err(bad()),
    };
    if time.is_zero() || time > most {
        Err(bad())
    } else {
        Ok(time)
    }
}

/// A whole number; sizes and counts are written alike.
fn size(node: &Node, most: u64) -> Result<u64, String> {
    let bad = || {
        format!(
            "{} is not a whole number from 0 to {most}, such as 1000 or 32Mi",
            shown(node)
        )
    };
    let text = match &node.data {
        Data::Text(text) => text.clone(),
        Data::Number(number) => number.to_string(),
        _ => return Err(bad()),
    };
    let quantity = Quantity::parse(&text).map_err(|_| bad())?;
    let units = u64::try_from(quantity.units()).map_err(|_| bad())?;
    if quantity.is_whole() && units <= most {
        Ok(units)
    } else {
        Err(bad())
    }
}
