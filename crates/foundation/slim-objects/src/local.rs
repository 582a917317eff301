//! What pods ask of one node alone, as it is written: labels, ports, resources.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer};

use crate::parse::null_is_default;

/// Rules on the node's labels and name. Preferences are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimNodeAffinity {
    /// What must hold, if there is such a rule.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<SlimNodeSelector>,
}

/// Alternatives.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimNodeSelector {
    /// One of these must match.
    #[serde(deserialize_with = "null_is_default")]
    pub node_selector_terms: Vec<SlimNodeTerm>,
}

/// All of it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimNodeTerm {
    /// On labels.
    #[serde(deserialize_with = "null_is_default")]
    pub match_expressions: Vec<SlimNodeRule>,
    /// On fields of the node; there is only `metadata.name`.
    #[serde(deserialize_with = "null_is_default")]
    pub match_fields: Vec<SlimNodeRule>,
}

/// One rule, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimNodeRule {
    /// The label or field.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    /// What it is compared with.
    #[serde(deserialize_with = "null_is_default")]
    pub values: Vec<String>,
}

/// A port of the host that a container takes, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlimHostPort {
    /// Its number; not zero.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`; TCP if it is empty.
    pub protocol: String,
    /// The address of the node; all of them if it is empty.
    pub address: String,
}

/// The ports of a container that are ports of the host.
pub(crate) fn host_ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SlimHostPort>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Written {
        #[serde(default)]
        host_port: Option<i64>,
        #[serde(default)]
        protocol: Option<String>,
        #[serde(default, rename = "hostIP")]
        host_ip: Option<String>,
    }
    let ports = Option::<Vec<Written>>::deserialize(deserializer)?.unwrap_or_default();
    let read = |it: Written| {
        let port = u16::try_from(it.host_port?).ok().filter(|port| *port > 0)?;
        let (protocol, address) = (it.protocol.unwrap_or_default(), it.host_ip.unwrap_or_default());
        Some(SlimHostPort { port, protocol, address })
    };
    Ok(ports.into_iter().filter_map(read).collect())
}

/// Whether one of the rules about a container's end restarts all containers.
pub(crate) fn restarts_all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    #[derive(serde::Deserialize)]
    struct Rule {
        #[serde(default)]
        action: Option<String>,
    }
    let rules = Option::<Vec<Rule>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(rules.iter().any(|rule| rule.action.as_deref() == Some("RestartAllContainers")))
}

/// Requests and limits, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimResources {
    /// What it must have.
    #[serde(deserialize_with = "null_is_default")]
    pub requests: BTreeMap<String, String>,
    /// The most it may use; without a request, the limit is the request.
    #[serde(deserialize_with = "null_is_default")]
    pub limits: BTreeMap<String, String>,
}
