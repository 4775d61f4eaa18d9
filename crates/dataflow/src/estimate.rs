//! Estimates of execution times: quantiles of the recent past, and a linear predictor.

mod linear;
mod window;

pub(crate) use linear::Linear;
pub(crate) use window::Window;
