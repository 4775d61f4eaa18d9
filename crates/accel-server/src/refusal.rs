//! How the parts of the control thread say no.

use accel::control::Code;

/// What kind of refusal, and what was found and expected.
pub(crate) type Refusal = (Code, String);
