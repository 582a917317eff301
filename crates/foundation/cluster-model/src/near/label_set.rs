//! Labels of pods and namespaces, and what selects by them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Labels by key. Cheap to copy: at 100,000 pods they are most of what is known of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelSet(Arc<[(Arc<str>, Arc<str>)]>);

impl LabelSet {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&Arc<str>> {
        let place = self.0.binary_search_by(|(other, _)| (**other).cmp(key)).ok()?;
        Some(&self.0[place].1)
    }

    /// All labels, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(Arc<str>, Arc<str>)> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for LabelSet {
    /// Of labels with the same key the last counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let labels = labels.into_iter().map(|(key, value)| (key.into(), value.into()));
        let labels: std::collections::BTreeMap<Arc<str>, Arc<str>> = labels.collect();
        Self(labels.into_iter().collect())
    }
}

/// Which labels are selected: all of the requirements hold. Without any, everything is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

/// What one label must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// The label's key.
    pub key: Arc<str>,
    /// How it is compared.
    pub operator: Operator,
    /// With which values; none for the operators that only ask whether there is such a label.
    pub values: Vec<Arc<str>>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// It is there, and one of the values.
    In,
    /// It is not there, or none of the values.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

impl Selector {
    /// All of these must hold. Their order does not matter.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<Requirement> = requirements.into_iter().collect();
        for requirement in &mut requirements {
            requirement.values.sort();
            requirement.values.dedup();
        }
        requirements.sort();
        requirements.dedup();
        Self { requirements }
    }

    /// Labels with these values.
    pub fn of<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::new(labels.into_iter().map(|(key, value)| Requirement::is(key, value)))
    }

    /// What must hold, sorted.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether everything is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether these labels are selected.
    pub fn matches(&self, labels: &LabelSet) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// A label that every selected pod has with one of few values: the one with the fewest values, then the first by
    /// key.
    pub(crate) fn leading(&self) -> Option<&Requirement> {
        let among = self.requirements.iter().filter(|it| it.operator == Operator::In);
        among.min_by_key(|it| it.values.len())
    }
}

impl Requirement {
    /// The label is there with this value.
    pub fn is(key: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        Self { key: key.into(), operator: Operator::In, values: vec![value.into()] }
    }

    /// Whether it holds.
    pub fn matches(&self, labels: &LabelSet) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requirements.is_empty() {
            return f.write_str("any labels");
        }
        for (place, requirement) in self.requirements.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match (self.operator, self.values.as_slice()) {
            (Operator::In, [value]) => write!(f, "{key}={value}"),
            (Operator::NotIn, [value]) => write!(f, "{key}!={value}"),
            (Operator::In, values) => write!(f, "{key} in ({})", values.join(",")),
            (Operator::NotIn, values) => write!(f, "{key} not in ({})", values.join(",")),
            (Operator::Exists, _) => write!(f, "{key}"),
            (Operator::DoesNotExist, _) => write!(f, "!{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LabelSet, Operator, Requirement, Selector};

    fn check(operator: Operator, values: &[&str], labels: &[(&str, &str)], expect: bool) {
        let values = values.iter().map(|value| (*value).into()).collect();
        let selector = Selector::new([Requirement { key: "app".into(), operator, values }]);
        let labels: LabelSet = labels.iter().copied().collect();
        assert_eq!(selector.matches(&labels), expect, "{selector} on {labels:?}");
    }

    #[test]
    fn requirements_hold_as_in_kubernetes() {
        let (web, none): (&[_], &[_]) = (&[("app", "web"), ("zone", "a")], &[("zone", "a")]);
        check(Operator::In, &["db", "web"], web, true);
        check(Operator::In, &["db"], web, false);
        check(Operator::In, &["db"], none, false);
        check(Operator::NotIn, &["db"], web, true);
        check(Operator::NotIn, &["web"], web, false);
        check(Operator::NotIn, &["web"], none, true);
        check(Operator::Exists, &[], web, true);
        check(Operator::Exists, &[], none, false);
        check(Operator::DoesNotExist, &[], web, false);
        check(Operator::DoesNotExist, &[], none, true);
    }

    #[test]
    fn without_requirements_everything_is_meant_and_all_must_hold() {
        let labels: LabelSet = [("app", "web")].into_iter().collect();
        assert!(Selector::default().matches(&labels) && Selector::default().matches(&LabelSet::default()));
        assert!(Selector::of([("app", "web")]).matches(&labels));
        assert!(!Selector::of([("app", "web"), ("tier", "1")]).matches(&labels));
        assert_eq!(Selector::of([("tier", "1"), ("app", "web")]).to_string(), "app=web,tier=1");
    }
}
