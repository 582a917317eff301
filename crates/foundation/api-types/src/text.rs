//! Text in job files that may be written without quotes when it is a whole number: `cpu: 32`, `env: {EPOCHS: 3}`.
//!
//! Fractions and booleans need quotes: `3.10` would become `3.1`, and `yes` is many things in YAML.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumber;
        impl Visitor<'_> for TextOrNumber {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or a whole number (put anything else in quotes)")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }
        deserializer.deserialize_any(TextOrNumber)
    }
}

/// For a field that may be left out.
pub fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<Text>::deserialize(deserializer)?.map(|text| text.0))
}

/// For a map of texts.
pub fn map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = BTreeMap::<String, Text>::deserialize(deserializer)?;
    Ok(map.into_iter().map(|(key, text)| (key, text.0)).collect())
}

/// The schema of [`optional`].
pub fn optional_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "integer", "null"] })
}

/// The schema of [`map`].
pub fn map_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": ["string", "integer"] } })
}
