//! Objects that are read whole, except for parts that may make them unreadable.

use std::borrow::Cow;
use std::fmt;

use kube_core::{ObjectMeta, Resource};
use serde::Serialize;
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor,
};
use serde_json::{Map, Value};

/// An object without its managed fields and without the metadata of its pod template. Kubernetes keeps in them what a
/// client writes: times that our types cannot hold, or a tree that is too deep. Then no list with the object in it
/// could be read.
///
/// It is a tree of JSON first, which costs more than a slim struct, so pods and nodes have slim structs. The parts
/// that were left out are missing, so an object that was read like this is never written back as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Readable<K>(pub K);

impl<'de, K: DeserializeOwned> Deserialize<'de> for Readable<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Part::Object.deserialize(deserializer)?;
        serde_json::from_value(object).map(Self).map_err(D::Error::custom)
    }
}

/// The parts of an object that contain what is left out.
#[derive(Clone, Copy)]
enum Part {
    Object,
    Metadata,
    Spec,
    PodTemplate,
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = match (self, name.as_str()) {
                (Self::Metadata, "managedFields") | (Self::PodTemplate, "metadata") => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Self::Object, "metadata") => map.next_value_seed(Self::Metadata)?,
                (Self::Object, "spec") => map.next_value_seed(Self::Spec)?,
                (Self::Spec, "template") => map.next_value_seed(Self::PodTemplate)?,
                _ => map.next_value()?,
            };
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

// The kind is the object's own.
impl<K: Resource> Resource for Readable<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}
