//! Refusals, as the parts of the control thread return them.

use accel::control::Code;

/// Kind of a refusal, and the found and the expected value in words.
pub(crate) type Refusal = (Code, String);
