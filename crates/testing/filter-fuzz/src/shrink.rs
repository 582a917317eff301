//! Shrinks a case as long as it still shows the same disagreement.

use serde_json::Value;

use crate::case::Case;

/// Fields that every object needs.
const KEPT: [&str; 4] = ["name", "namespace", "uid", "metadata"];

/// Where something is in a JSON value.
type Path = Vec<Step>;

#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Item(usize),
}

/// Removes fields and list items, one at a time, large ones first, as long as `still` holds, until nothing can
/// be removed. The case's size bounds the loop: every accepted step makes it smaller.
pub fn shrink(case: &Case, mut still: impl FnMut(&Case) -> anyhow::Result<bool>) -> anyhow::Result<Case> {
    let mut best = case.clone();
    'smaller: loop {
        let whole = serde_json::to_value(&best)?;
        for path in removable(&whole) {
            let mut candidate = whole.clone();
            remove(&mut candidate, &path);
            // Skip a value that is no longer a case.
            let Ok(candidate) = serde_json::from_value::<Case>(candidate) else { continue };
            if still(&candidate)? {
                best = candidate;
                continue 'smaller;
            }
        }
        return Ok(best);
    }
}

/// Every removable place; those nearer to the top, which hold more, come first.
fn removable(whole: &Value) -> Vec<Path> {
    let mut found: Vec<Path> = Vec::new();
    let mut open: Vec<(Path, &Value)> = vec![(Path::new(), whole)];
    while !open.is_empty() {
        let mut next = Vec::new();
        for (path, value) in open {
            let inner: Vec<(Step, &Value)> = match value {
                Value::Object(fields) => {
                    fields.iter().map(|(name, value)| (Step::Field(name.clone()), value)).collect()
                }
                Value::Array(items) => {
                    items.iter().enumerate().map(|(index, value)| (Step::Item(index), value)).collect()
                }
                _ => Vec::new(),
            };
            for (step, value) in inner {
                let is_kept = matches!(&step, Step::Field(name) if KEPT.contains(&name.as_str()));
                let mut path = path.clone();
                path.push(step);
                if !is_kept {
                    found.push(path.clone());
                }
                next.push((path, value));
            }
        }
        open = next;
    }
    found
}

fn remove(whole: &mut Value, path: &[Step]) {
    let Some((last, way)) = path.split_last() else { return };
    let mut at = whole;
    for step in way {
        at = match step {
            Step::Field(name) => &mut at[name.as_str()],
            Step::Item(index) => &mut at[*index],
        };
    }
    match (last, at) {
        (Step::Field(name), Value::Object(fields)) => {
            fields.remove(name);
        }
        (Step::Item(index), Value::Array(items)) => {
            items.remove(*index);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_shows_it_is_left() {
        let pod =
            |name: &str, port: i32| json!({"metadata": {"name": name, "labels": {"a": "b"}}, "port": port});
        let case = Case {
            namespaces: vec![json!({"metadata": {"name": "one"}})],
            nodes: vec![json!({"metadata": {"name": "node-0"}}), json!({"metadata": {"name": "node-1"}})],
            pods: vec![pod("first", 1), pod("second", 2)],
            pod: pod("waiting", 3),
        };
        let shows = |case: &Case| Ok(case.nodes.len() == 1 && case.pods.iter().any(|pod| pod["port"] == 2));
        let smallest = shrink(&case, shows).unwrap();
        assert_eq!(
            serde_json::to_value(smallest).unwrap(),
            json!({
                "namespaces": [],
                "nodes": [{"metadata": {"name": "node-1"}}],
                "pods": [{"metadata": {"name": "second"}, "port": 2}],
                "pod": {"metadata": {"name": "waiting"}},
            })
        );
    }
}
