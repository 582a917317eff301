//! Which pods a term selects.

use super::label_set::LabelSet;
use super::neighbours::Scope;
use crate::objects::Pod;

impl Scope {
    /// Whether it selects a pod, for a pod that asks and is to be placed. `namespace` has the labels of the other
    /// pod's namespace, if it is known.
    ///
    /// kube-scheduler lists the namespaces that the selector matches, and then matches the selector once more,
    /// against no labels at all. A selector that this satisfies (`NotIn` and `DoesNotExist` can) selects every
    /// namespace. We do the same.
    pub fn means(&self, pod: &Pod, namespace: Option<&LabelSet>) -> bool {
        let by_selector = || {
            self.namespace_selector.as_ref().is_some_and(|selector| {
                namespace.is_some_and(|labels| selector.matches(labels))
                    || selector.matches(&LabelSet::default())
            })
        };
        (self.namespaces.contains(&pod.key.namespace) || by_selector()) && self.has_labels(pod)
    }

    /// Whether it selects a pod that is to be placed, for a placed pod that keeps others away. An unknown namespace
    /// has no labels.
    pub fn shuns(&self, pod: &Pod, namespace: Option<&LabelSet>) -> bool {
        let by_selector = || {
            let none = LabelSet::default();
            let labels = namespace.unwrap_or(&none);
            self.namespace_selector.as_ref().is_some_and(|selector| selector.matches(labels))
        };
        (self.namespaces.contains(&pod.key.namespace) || by_selector()) && self.has_labels(pod)
    }

    fn has_labels(&self, pod: &Pod) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}
