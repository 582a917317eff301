//! GPUs as people ask for them: `8`, `8x H100`, `H100:8`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// How many GPUs each member gets, and of which type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuRequest {
    /// GPUs of one member.
    pub count: u32,
    /// The type; `None` means any.
    pub gpu_type: Option<String>,
}

/// Why a request for GPUs cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("cannot read the GPUs `{0}`: write a count, such as 8, or a count and a type, such as 8x H100")]
pub struct Error(String);

impl FromStr for GpuRequest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = || Error(text.to_owned());
        let trimmed = text.trim();
        let (count, gpu_type) = if let Some((count, gpu_type)) = trimmed.split_once(['x', 'X', '×']) {
            (count, Some(gpu_type))
        } else if let Some((gpu_type, count)) = trimmed.split_once(':') {
            (count, Some(gpu_type))
        } else {
            (trimmed, None)
        };
        let count = count.trim().parse().map_err(|_| fail())?;
        let gpu_type = match gpu_type.map(str::trim) {
            None => None,
            Some(name) if is_type_name(name) => Some(name.to_ascii_uppercase()),
            Some(_) => return Err(fail()),
        };
        Ok(Self { count, gpu_type })
    }
}

fn is_type_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 63
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
}

impl fmt::Display for GpuRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gpu_type {
            Some(gpu_type) => write!(f, "{}x {gpu_type}", self.count),
            None => write!(f, "{}", self.count),
        }
    }
}

impl Serialize for GpuRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GpuRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrCount;
        impl Visitor<'_> for TextOrCount {
            type Value = GpuRequest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count of GPUs, such as 8, or a count and a type, such as 8x H100")
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<GpuRequest, E> {
                let count = u32::try_from(count).map_err(|_| E::custom("too many GPUs"))?;
                Ok(GpuRequest { count, gpu_type: None })
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<GpuRequest, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(TextOrCount)
    }
}

impl JsonSchema for GpuRequest {
    fn schema_name() -> Cow<'static, str> {
        "GpuRequest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "GPUs of each member: a count, or a count and a type, such as 8x H100.",
            "oneOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "examples": ["8", "8x H100", "H100:8"] },
            ],
        })
    }
}

impl utoipa::PartialSchema for GpuRequest {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("GPUs of each member: a count, or a count and a type, such as `8x H100`."))
            .examples(["8x H100"])
            .into()
    }
}

impl utoipa::ToSchema for GpuRequest {}

#[cfg(test)]
mod tests {
    use super::GpuRequest;

    fn request(count: u32, gpu_type: Option<&str>) -> GpuRequest {
        GpuRequest { count, gpu_type: gpu_type.map(str::to_owned) }
    }

    #[test]
    fn gpus_are_read_as_people_write_them() {
        for (text, expect) in [
            ("8", request(8, None)),
            ("8x H100", request(8, Some("H100"))),
            ("8xH100", request(8, Some("H100"))),
            ("h100:4", request(4, Some("H100"))),
            ("0", request(0, None)),
        ] {
            assert_eq!(text.parse(), Ok(expect), "{text}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in ["", "x", "8x", "H100", "-1", "8x H 100", "H100:", "4294967296"] {
            assert!(text.parse::<GpuRequest>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bare_number_in_a_file_is_a_count() {
        assert_eq!(serde_json::from_str::<GpuRequest>("8").ok(), Some(request(8, None)));
        assert_eq!(serde_json::from_str::<GpuRequest>("\"8x H100\"").ok(), Some(request(8, Some("H100"))));
    }
}
