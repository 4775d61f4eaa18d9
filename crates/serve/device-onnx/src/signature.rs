//! Inputs and outputs of a model, as far as a launch must know them.

use device::Error;
use ort::session::Session;
use ort::value::{DynTensor, Outlet, TensorElementType, ValueType};
use std::fmt;
use zerocopy::IntoBytes;

/// The inputs and outputs of a model, in its order.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
    /// The largest batch; 1 when the model has a fixed size.
    pub most: u32,
    /// True if the first argument of a launch is the size of a batch.
    batched: bool,
}

/// One input or output.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub name: String,
    pub kind: Kind,
    /// Sizes but for the batch.
    sizes: Vec<i64>,
    batched: bool,
    /// Bytes of one item of a batch, or of all.
    bytes: u64,
}

/// A type of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    F32,
    F64,
    I32,
    I64,
    U8,
}

impl Signature {
    /// Returns the signature of a loaded model, or a text that names its fault.
    pub(crate) fn of(session: &Session, most: u32) -> Result<Signature, String> {
        let all = |what: &str, outlets: &[Outlet]| -> Result<Vec<Tensor>, String> {
            let tensor = |outlet| Tensor::of(outlet).map_err(|why| (outlet, why));
            let tensors = outlets.iter().map(tensor).collect::<Result<Vec<_>, _>>();
            tensors.map_err(|(outlet, why)| format!("{what} {:?} {why}", outlet.name()))
        };
        let inputs = all("input", session.inputs())?;
        let outputs = all("output", session.outputs())?;
        let batched = inputs.iter().any(|tensor| tensor.batched);
        if let Some(output) = outputs.iter().find(|tensor| tensor.batched && !batched) {
            let name = &output.name;
            return Err(format!("output {name:?} has an open first size, but no input has"));
        }
        let most = if batched { most } else { 1 };
        let signature = Signature { inputs, outputs, most, batched };
        for tensors in [&signature.inputs, &signature.outputs] {
            // So that no sum below overflows.
            let whole = |tensor: &Tensor| tensor.bytes.checked_mul(u64::from(most));
            let sum = tensors.iter().try_fold(0u64, |sum, t| sum.checked_add(whole(t)?));
            sum.filter(|sum| isize::try_from(*sum).is_ok()).ok_or("tensors are too large")?;
        }
        Ok(signature)
    }

    /// The size of the batch that a launch of the kernel asks for.
    pub(crate) fn batch(&self, kernel: &'static str, arguments: &[u64; 4]) -> Result<u32, Error> {
        if !self.batched {
            return Ok(1);
        }
        let (value, most) = (arguments[0], u64::from(self.most));
        match u32::try_from(value) {
            Ok(batch) if (1..=self.most).contains(&batch) => Ok(batch),
            _ => Err(Error::BadArgument { kernel, index: 0, value, least: 1, most }),
        }
    }

    /// Bytes of all inputs of a batch.
    pub(crate) fn input_bytes(&self, batch: u32) -> u64 {
        self.inputs.iter().map(|tensor| tensor.bytes(batch)).sum()
    }

    /// Bytes of all outputs of a batch.
    pub(crate) fn output_bytes(&self, batch: u32) -> u64 {
        self.outputs.iter().map(|tensor| tensor.bytes(batch)).sum()
    }
}

/// The description of a kernel: its arguments, and the layout of its input and output.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.batched {
            true => write!(f, "arguments: batch (1 to {})", self.most)?,
            false => write!(f, "no arguments")?,
        }
        for (what, tensors) in [("input", &self.inputs), ("output", &self.outputs)] {
            let list: Vec<String> = tensors.iter().map(Tensor::to_string).collect();
            write!(f, "; {what}: {}", list.join(", "))?;
        }
        Ok(())
    }
}

impl Tensor {
    fn of(outlet: &Outlet) -> Result<Tensor, String> {
        let ValueType::Tensor { ty, shape, .. } = outlet.dtype() else {
            return Err(format!("is {}; expected a tensor", outlet.dtype()));
        };
        let kind = Kind::of(*ty);
        let kind = kind.ok_or_else(|| format!("has {ty}; expected f32, f64, i32, i64 or u8"))?;
        let batched = shape.first().is_some_and(|size| *size < 0);
        let sizes = shape[usize::from(batched)..].to_vec();
        if sizes.iter().any(|size| *size < 1) {
            let what = "sizes of at least one, and only the first left open";
            return Err(format!("has the shape {:?}; expected {what}", &shape[..]));
        }
        let bytes = sizes
            .iter()
            .try_fold(kind.bytes(), |bytes, size| bytes.checked_mul(size.unsigned_abs()));
        let bytes = bytes.ok_or_else(|| format!("is too large: {:?}", &shape[..]))?;
        Ok(Tensor { name: outlet.name().to_owned(), kind, sizes, batched, bytes })
    }

    /// Its sizes with a batch.
    pub(crate) fn shape(&self, batch: u32) -> Vec<i64> {
        let first = self.batched.then_some(i64::from(batch));
        first.into_iter().chain(self.sizes.iter().copied()).collect()
    }

    fn bytes(&self, batch: u32) -> u64 {
        self.bytes * if self.batched { u64::from(batch) } else { 1 }
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)?;
        if self.batched {
            write!(f, "[batch]")?;
        }
        self.sizes.iter().try_for_each(|size| write!(f, "[{size}]"))
    }
}

impl Kind {
    fn of(element: TensorElementType) -> Option<Kind> {
        Some(match element {
            TensorElementType::Float32 => Kind::F32,
            TensorElementType::Float64 => Kind::F64,
            TensorElementType::Int32 => Kind::I32,
            TensorElementType::Int64 => Kind::I64,
            TensorElementType::Uint8 => Kind::U8,
            _ => return None,
        })
    }

    pub(crate) fn element(self) -> TensorElementType {
        match self {
            Kind::F32 => TensorElementType::Float32,
            Kind::F64 => TensorElementType::Float64,
            Kind::I32 => TensorElementType::Int32,
            Kind::I64 => TensorElementType::Int64,
            Kind::U8 => TensorElementType::Uint8,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::F32 => "f32",
            Kind::F64 => "f64",
            Kind::I32 => "i32",
            Kind::I64 => "i64",
            Kind::U8 => "u8",
        }
    }

    fn bytes(self) -> u64 {
        match self {
            Kind::U8 => 1,
            Kind::F32 | Kind::I32 => 4,
            Kind::F64 | Kind::I64 => 8,
        }
    }

    /// The bytes of a tensor of this type.
    pub(crate) fn bytes_of(self, tensor: &mut DynTensor) -> ort::Result<&mut [u8]> {
        Ok(match self {
            Kind::F32 => tensor.try_extract_tensor_mut::<f32>()?.1.as_mut_bytes(),
            Kind::F64 => tensor.try_extract_tensor_mut::<f64>()?.1.as_mut_bytes(),
            Kind::I32 => tensor.try_extract_tensor_mut::<i32>()?.1.as_mut_bytes(),
            Kind::I64 => tensor.try_extract_tensor_mut::<i64>()?.1.as_mut_bytes(),
            Kind::U8 => tensor.try_extract_tensor_mut::<u8>()?.1.as_mut_bytes(),
        })
    }
}
