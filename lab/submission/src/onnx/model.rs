//! The network as a model.
//!
//! All matrices that the layers pass on are 1 x 1 x side x side, as the convolution wants them;
//! the product and the bias are broadcast, so nothing is reshaped. Weights, filter and bias are
//! inputs as the first matrix is: nothing can be computed before the run.

use super::message::{
    AttributeProto, Dimension, FLOAT, GraphProto, INTS, ModelProto, NodeProto, OperatorSetIdProto,
    Tensor, TensorShapeProto, TypeProto, ValueInfoProto,
};
use crate::network::{FILTER, Shape};
use prost::Message;

/// The format and the operators of ONNX 1.12, which ONNX Runtime knows from 1.12 on.
const IR_VERSION: i64 = 8;
const OPERATORS: i64 = 17;

/// A model file of the network of this size. Its inputs are the input, the weights, the filter
/// and the bias; its outputs what the last layer activated, and what it convolved.
pub(super) fn encode(shape: Shape) -> Vec<u8> {
    let side = shape.side() as i64;
    let matrix = [1, 1, side, side];
    let filter = [1, 1, FILTER as i64, FILTER as i64];
    let last = shape.l - 1;
    let graph = GraphProto {
        name: format!("k {}, l {}", shape.k, shape.l),
        node: (0..shape.l).flat_map(layer).collect(),
        input: vec![
            value(activated(None), &matrix),
            value("weights".into(), &[side, side]),
            value("filter".into(), &filter),
            value("bias".into(), &[side]),
        ],
        output: vec![value(activated(Some(last)), &matrix), value(convolved(last), &matrix)],
    };
    let model = ModelProto {
        ir_version: IR_VERSION,
        producer_name: "keeptime".into(),
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto { version: OPERATORS }],
    };
    model.encode_to_vec()
}

/// Name of a layer's output; without a layer, that of the first one's input.
fn activated(layer: Option<usize>) -> String {
    layer.map_or_else(|| "input".into(), |layer| format!("activated {layer}"))
}

fn convolved(layer: usize) -> String {
    format!("convolved {layer}")
}

fn layer(layer: usize) -> [NodeProto; 4] {
    let (product, biased) = (format!("product {layer}"), format!("biased {layer}"));
    let convolution = NodeProto {
        attribute: vec![ints("kernel_shape", &[FILTER as i64; 2]), ints("pads", &[1; 4])],
        ..node("Conv", [product.clone(), "filter".into()], convolved(layer))
    };
    [
        node("MatMul", [activated(layer.checked_sub(1)), "weights".into()], product),
        convolution,
        node("Add", [convolved(layer), "bias".into()], biased.clone()),
        node("Relu", [biased], activated(Some(layer))),
    ]
}

fn node<const N: usize>(operator: &str, input: [String; N], output: String) -> NodeProto {
    NodeProto {
        input: input.into(),
        output: vec![output],
        op_type: operator.into(),
        attribute: Vec::new(),
    }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), ints: ints.into(), kind: INTS }
}

fn value(name: String, sizes: &[i64]) -> ValueInfoProto {
    let dim = sizes.iter().map(|size| Dimension { dim_value: *size }).collect();
    let tensor = Tensor { elem_type: FLOAT, shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto { name, kind: Some(TypeProto { tensor_type: Some(tensor) }) }
}
