//! The network that is submitted, its data, and its result on the processor.
//!
//! A layer is three kernels over square matrices of side 16 k: the product with a weight matrix, a
//! 3 x 3 convolution with zeros beyond the edge, and an activation with a bias for each column,
//! `max(x + b, 0)`. The same weights serve all layers; the output of a layer is the next one's
//! input. `l` layers are `3 l` kernels. Four matrices are uploaded before (input, weights, filter,
//! bias) and two downloaded after it (the activations of the last layer, and what it convolved).
//!
//! The data make sure that a result can be judged after any number of layers: neither the weights
//! (a permutation, mixed with a little of everything, all sums 1) nor the filter (close to the
//! identity, sum 1) enlarge anything, so rounding errors do not grow beyond a sum; and the
//! permutation makes the result of every depth another one, so that a missing layer shows.

use crate::Error;
use trial::signals;

/// Side of a thread block, and the unit of the matrices' side.
pub const BLOCK: usize = 16;
/// Sides of the filter.
pub const FILTER: usize = 3;
/// The largest `k` and `l` that are accepted: what the published study has, twice.
pub const MOST_K: usize = 16;
/// See [`MOST_K`].
pub const MOST_L: usize = 4000;

/// Share of the weights that is the same for all.
const MIXED: f64 = 1e-3;
/// Weight of the filter outside its centre.
const BLURRED: f32 = 1e-3;
/// Largest bias.
const BIAS: f32 = 1e-4;

/// The width and the depth of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, serde::Serialize)]
pub struct Shape {
    /// Matrices have sides of 16 k.
    pub k: usize,
    /// Layers.
    pub l: usize,
}

impl Shape {
    /// Side of the matrices.
    pub fn side(self) -> usize {
        self.k * BLOCK
    }

    /// Elements of a matrix.
    pub fn area(self) -> usize {
        self.side() * self.side()
    }

    /// Kernels of all layers.
    pub fn kernels(self) -> usize {
        3 * self.l
    }
}

/// A network with its data; matrices are row by row.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// Its size.
    pub shape: Shape,
    /// Input of the first layer, side x side.
    pub input: Vec<f32>,
    /// Matrix that each layer multiplies with from the right, side x side.
    pub weights: Vec<f32>,
    /// The convolution's filter, 3 x 3: element (i, j) weighs the neighbour i - 1 rows below and
    /// j - 1 columns to the right.
    pub filter: Vec<f32>,
    /// Addend of the activation, one for each column.
    pub bias: Vec<f32>,
}

/// Output of a network.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// Output of the last layer's activation, side x side.
    pub activated: Vec<f32>,
    /// Output of the last layer's convolution, side x side.
    pub convolved: Vec<f32>,
}

impl Network {
    /// The network of a size; the same one each time.
    ///
    /// # Errors
    /// [`Error::Unavailable`] for a size of zero, or beyond [`MOST_K`] and [`MOST_L`].
    pub fn new(shape: Shape) -> Result<Network, Error> {
        let Shape { k, l } = shape;
        if !(1..=MOST_K).contains(&k) || !(1..=MOST_L).contains(&l) {
            let limits = format!("k is 1 to {MOST_K}, l is 1 to {MOST_L}");
            return Err(Error::Unavailable(format!("k = {k}, l = {l}: {limits}")));
        }
        let side = shape.side();
        let mut random = Random(k as u64);
        let input = (0..shape.area()).map(|_| random.unit()).collect();
        let share = (MIXED / side as f64) as f32;
        let mut weights = vec![share; shape.area()];
        for (row, column) in random.permutation(side).into_iter().enumerate() {
            weights[row * side + column] += (1.0 - MIXED) as f32;
        }
        let mut filter = vec![BLURRED; FILTER * FILTER];
        filter[4] = 1.0 - 8.0 * BLURRED;
        let bias = (0..side).map(|_| (2.0 * random.unit() - 1.0) * BIAS).collect();
        Ok(Network { shape, input, weights, filter, bias })
    }

    /// The results after each of the given numbers of layers, in ascending order, by the
    /// processor, in double precision.
    pub fn reference(&self, depths: &[usize]) -> Vec<Output> {
        let side = self.shape.side();
        let wide = |matrix: &[f32]| matrix.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
        let (weights, bias) = (wide(&self.weights), wide(&self.bias));
        let mut activated = wide(&self.input);
        let mut outputs = Vec::new();
        for layer in 1..=depths.last().copied().unwrap_or(0) {
            if signals::interrupted().is_some() {
                break;
            }
            let product = multiply(&activated, &weights, side);
            let convolved = self.convolve(&product);
            for (i, (to, from)) in activated.iter_mut().zip(&convolved).enumerate() {
                *to = (from + bias[i % side]).max(0.0);
            }
            let narrow = |matrix: &[f64]| matrix.iter().map(|x| *x as f32).collect();
            let wanted = depths.iter().filter(|depth| **depth == layer);
            outputs.extend(
                wanted.map(|_| Output {
                    activated: narrow(&activated),
                    convolved: narrow(&convolved),
                }),
            );
        }
        outputs
    }

    fn convolve(&self, from: &[f64]) -> Vec<f64> {
        let side = self.shape.side();
        let at = |y: usize, x: usize| match (y.checked_sub(1), x.checked_sub(1)) {
            (Some(y), Some(x)) if y < side && x < side => from[y * side + x],
            _ => 0.0,
        };
        let element = |index: usize| {
            let (y, x) = (index / side, index % side);
            let weighed = |i: usize| f64::from(self.filter[i]) * at(y + i / FILTER, x + i % FILTER);
            (0..FILTER * FILTER).map(weighed).sum()
        };
        (0..from.len()).map(element).collect()
    }

    /// The largest absolute difference from the reference that rounding to single precision can
    /// be blamed for: two units in the last place of 1 for each layer, and some. (Measured: with
    /// ONNX Runtime at k = 8, l = 1000 a fifth of that.)
    pub fn tolerance(&self) -> f32 {
        f32::EPSILON * 2.0 * (self.shape.l as f32 + 8.0)
    }
}

impl Output {
    /// The largest absolute difference from another output; infinite where one is no number or
    /// the sizes differ.
    pub fn difference(&self, other: &Output) -> f32 {
        let largest = |a: &[f32], b: &[f32]| {
            if a.len() != b.len() {
                return f32::INFINITY;
            }
            let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
            differences.fold(
                0.0,
                |most: f32, next| {
                    if next.is_nan() { f32::INFINITY } else { most.max(next) }
                },
            )
        };
        largest(&self.activated, &other.activated).max(largest(&self.convolved, &other.convolved))
    }
}

/// The product of two square matrices, row by row.
fn multiply(a: &[f64], b: &[f64], side: usize) -> Vec<f64> {
    let mut product = vec![0.0; a.len()];
    for (line, to) in a.chunks_exact(side).zip(product.chunks_exact_mut(side)) {
        for (factor, row) in line.iter().zip(b.chunks_exact(side)) {
            for (sum, b) in to.iter_mut().zip(row) {
                *sum += factor * b;
            }
        }
    }
    product
}

/// Numbers that look random and are the same on every machine: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Random number, at least 0, below 1.
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// The numbers below `count` in some order that is one cycle, so that it repeats itself only
    /// after as many steps: Sattolo's algorithm.
    fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            all.swap(i, (self.next() % i as u64) as usize);
        }
        all
    }
}
