//! Names of devices: `cpu`, `cuda:0`, `vulkan:0`, `onnx`.

use crate::DeviceKind;
use serde::{Deserialize, Deserializer};
use std::fmt;

impl DeviceKind {
    fn from_name(name: &str) -> Option<DeviceKind> {
        let ordinal = |digits: &str| {
            let short = (1..=3).contains(&digits.len());
            digits.parse().ok().filter(|_| short && digits.bytes().all(|b| b.is_ascii_digit()))
        };
        match name.split_once(':') {
            None if name == "cpu" => Some(DeviceKind::Cpu),
            None if name == "onnx" => Some(DeviceKind::Onnx),
            Some(("cuda", digits)) => ordinal(digits).map(DeviceKind::Cuda),
            Some(("vulkan", digits)) => ordinal(digits).map(DeviceKind::Vulkan),
            _ => None,
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => write!(f, "cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Vulkan(ordinal) => write!(f, "vulkan:{ordinal}"),
            Self::Onnx => write!(f, "onnx"),
        }
    }
}

impl From<DeviceKind> for String {
    fn from(kind: DeviceKind) -> Self {
        kind.to_string()
    }
}

impl<'de> Deserialize<'de> for DeviceKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        files::checked(from, "cpu, cuda:N, vulkan:N or onnx", DeviceKind::from_name)
    }
}

/// The GPU of ONNX Runtime, or none: `cuda:0`, `cpu`.
pub(crate) mod provider {
    use crate::DeviceKind;
    use serde::{Deserializer, Serialize, Serializer};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
        files::checked(from, "cpu or cuda:N", |name| match DeviceKind::from_name(name)? {
            DeviceKind::Cpu => Some(None),
            DeviceKind::Cuda(ordinal) => Some(Some(ordinal)),
            _ => None,
        })
    }

    pub(crate) fn serialize<S: Serializer>(gpu: &Option<u32>, to: S) -> Result<S::Ok, S::Error> {
        gpu.map(DeviceKind::Cuda).serialize(to)
    }
}
