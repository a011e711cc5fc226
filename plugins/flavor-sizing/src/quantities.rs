//! What the four sizes of a container must be when nobody has checked them yet (W-807).

use plugin_sdk::Resources;
use runner_quantity::Quantity;

/// Every problem of the four sizes, in the order of `names`: request of cpu and memory, limit of cpu and memory.
pub(crate) fn problems(resources: &Resources, names: [&str; 4]) -> Vec<String> {
    let Resources { requests, limits } = resources;
    let parts = [
        (requests, "cpu"),
        (requests, "memory"),
        (limits, "cpu"),
        (limits, "memory"),
    ];
    let mut problems = Vec::new();
    let mut checked = parts.iter().zip(names).map(|((list, resource), name)| {
        let text = list
            .iter()
            .find(|(known, _)| known == resource)
            .map_or("", |(_, text)| text);
        quantity(resource, text)
            .map_err(|reason| problems.push(format!("{name} {text:?} {reason}")))
            .ok()
    });
    let requested = [checked.next().flatten(), checked.next().flatten()];
    let limited = [checked.next().flatten(), checked.next().flatten()];
    drop(checked);
    for ((request, limit), resource) in requested.into_iter().zip(limited).zip(["cpu", "memory"]) {
        if request.zip(limit).is_some_and(|(request, limit)| request > limit) {
            problems.push(format!("{resource} request exceeds limit"));
        }
    }
    problems
}

fn quantity(resource: &str, text: &str) -> Result<Quantity, &'static str> {
    let quantity = Quantity::parse(text).ok().filter(|quantity| quantity.is_positive());
    let quantity = quantity.ok_or("must be a positive Kubernetes quantity")?;
    match resource {
        "cpu" if !quantity.is_whole_milli() => Err("must use whole millicores"),
        "memory" if !quantity.is_whole() => Err("must use whole bytes"),
        _ => Ok(quantity),
    }
}
