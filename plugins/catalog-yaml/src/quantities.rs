//! The four sizes of `resources` and `sidecarResources`. Checked here so that a bad one stops the catalog and not a
//! workload (W-803, W-804); beyond the grammar also for sense, since Kubernetes takes half a byte of memory and then
//! fails to start the pod (C-38).

use plugin_sdk::Resources;
use runner_quantity::Quantity;

use crate::problems::Problems;
use crate::yaml::Node;

/// W-902, in this order.
const FIELDS: [&str; 4] = ["requestsCpu", "requestsMemory", "limitsCpu", "limitsMemory"];

const MIB: i128 = 1 << 20;

/// More CPUs than any node has: most likely a size of memory.
const MOST_CPUS: i128 = 100_000;

pub(crate) fn main(entry: Node<'_>, flavor: &str, problems: &mut Problems) -> Resources {
    let section = Section {
        entry,
        key: "resources",
        empty: format!("flavor \"{flavor}\": "),
        bad: format!("flavor {flavor}: "),
    };
    section.read(problems)
}

/// None of the four set is absent.
pub(crate) fn sidecar(entry: Node<'_>, flavor: &str, problems: &mut Problems) -> Option<Resources> {
    let key = "sidecarResources";
    let given = entry.get(key)?;
    let any = (given.entries().is_none() && !given.is_blank())
        || FIELDS
            .iter()
            .filter_map(|field| given.get(field))
            .any(|value| !value.is_blank());
    let section = Section {
        entry,
        key,
        empty: format!("flavor \"{flavor}\": {key}."),
        bad: format!("flavor {flavor} {key}: "),
    };
    any.then(|| section.read(problems))
}

/// Where sizes are, and how messages about them begin.
struct Section<'a> {
    entry: Node<'a>,
    key: &'static str,
    empty: String,
    bad: String,
}

impl Section<'_> {
    fn read(&self, problems: &mut Problems) -> Resources {
        let given = self.entry.get(self.key);
        if let Some(given) = given {
            if !given.is_blank() && given.entries().is_none() {
                problems.shape(given, format!("{} must be a mapping", self.key));
                return Resources {
                    requests: Vec::new(),
                    limits: Vec::new(),
                };
            }
            given.note_unknown_keys(&FIELDS, &mut problems.notes);
        }
        let [requests_cpu, requests_memory, limits_cpu, limits_memory] =
            FIELDS.map(|field| self.field(given, field, problems));
        self.order("cpu", &requests_cpu, &limits_cpu, problems);
        self.order("memory", &requests_memory, &limits_memory, problems);
        let pair = |cpu: Size<'_>, memory: Size<'_>| {
            vec![
                ("cpu".to_owned(), cpu.text.to_owned()),
                ("memory".to_owned(), memory.text.to_owned()),
            ]
        };
        Resources {
            requests: pair(requests_cpu, requests_memory),
            limits: pair(limits_cpu, limits_memory),
        }
    }

    fn field<'n>(&self, given: Option<Node<'n>>, field: &str, problems: &mut Problems) -> Size<'n> {
        let value = given.and_then(|given| given.get(field));
        let text = value.map_or("", |value| value.text(field, problems));
        if text.trim().is_empty() {
            problems.rule(
                value.or(given).unwrap_or(self.entry),
                format!("{}{field} is empty", self.empty),
            );
            return Size {
                text,
                at: value,
                quantity: None,
            };
        }
        let check = if field.ends_with("Cpu") {
            cpu(text)
        } else {
            memory(text, field.starts_with("limits"))
        };
        let quantity = check.map_err(|reason| {
            problems.rule(
                value.unwrap_or(self.entry),
                format!("{}{field} \"{text}\": {reason}", self.bad),
            );
        });
        Size {
            text,
            at: value,
            quantity: quantity.ok(),
        }
    }

    /// W-804, C-40
    fn order(&self, resource: &str, request: &Size<'_>, limit: &Size<'_>, problems: &mut Problems) {
        if let (Some(requested), Some(limited)) = (request.quantity, limit.quantity)
            && requested > limited
        {
            problems.rule(
                request.at.unwrap_or(self.entry),
                format!("{}{resource} request exceeds limit", self.bad),
            );
        }
    }
}

/// One size as written, and its value if it has one.
struct Size<'a> {
    text: &'a str,
    at: Option<Node<'a>>,
    quantity: Option<Quantity>,
}

fn positive(text: &str) -> Result<Quantity, String> {
    let quantity = Quantity::parse(text).ok().filter(|quantity| quantity.is_positive());
    quantity.ok_or_else(|| "must be a positive Kubernetes quantity".into())
}

fn cpu(text: &str) -> Result<Quantity, String> {
    let quantity = positive(text)?;
    if !quantity.is_whole_milli() {
        return Err("must use whole millicores".into());
    }
    if text.ends_with('i') || quantity.units() > MOST_CPUS {
        return Err("is a size of memory, not a number of CPUs".into());
    }
    Ok(quantity)
}

fn memory(text: &str, is_limit: bool) -> Result<Quantity, String> {
    let quantity = positive(text)?;
    if text.ends_with('m') {
        return Err("must use whole bytes: the suffix m means thousandths (M or Mi is meant?)".into());
    }
    if !quantity.is_whole() {
        return Err("must use whole bytes".into());
    }
    if is_limit && quantity.units() < MIB {
        return Err("is below 1Mi: no container starts with that (a suffix is missing?)".into());
    }
    Ok(quantity)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W-807, C-38
    #[test]
    fn cpu_sense() {
        for good in ["100m", "2", "0.5", "1e1", "1.001"] {
            assert!(cpu(good).is_ok(), "{good}");
        }
        for bad in ["0", "-1", " 1", "1,5", "100u", "0.0001", "500Mi", "1Ki", "1G", "x"] {
            assert!(cpu(bad).is_err(), "{bad}");
        }
    }

    /// W-807, C-38
    #[test]
    fn memory_sense() {
        for good in ["2Gi", "1Mi", "1048576", "500M", "1e9"] {
            assert!(memory(good, true).is_ok(), "{good}");
        }
        for bad in ["512m", "1000m", "64", "1023Ki", "1.5", "0", "-1Gi", "1 Gi", "1gi"] {
            assert!(memory(bad, true).is_err(), "{bad}");
        }
        assert!(memory("512Ki", false).is_ok());
        assert!(memory("100m", false).is_err());
    }
}
