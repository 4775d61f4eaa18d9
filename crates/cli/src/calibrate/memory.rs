//! Memory that a kernel needs for given arguments: the device itself says how much is missing.

use anyhow::Context;
use device::{Device, Error, Launch};
use shm::{PeerSlice, Segment};

/// Input and output of one service together.
pub(super) const MAX_BYTES: u64 = 1 << 30;
/// Alignment of the output: it begins on a cache line of its own.
const ALIGNMENT: usize = 64;

/// Sizes of input and output in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub input: usize,
    pub output: usize,
}

impl Needs {
    /// Returns the memory that a kernel needs for these arguments.
    ///
    /// # Errors
    /// In the device's words, when it does not accept the arguments at all.
    pub(super) fn of(
        device: &dyn Device,
        kernel: &str,
        arguments: [u64; 4],
    ) -> anyhow::Result<Needs> {
        let id = device.kernel(kernel).with_context(|| format!("no kernel {kernel:?}"))?;
        let mut needs = Needs::default();
        // Each round finds one size; a device that asks for more and more is not believed.
        for _ in 0..8 {
            let launch = Launch {
                input: memory(needs.input)?,
                output: memory(needs.output)?,
                ..Launch::new(id, arguments)
            };
            match device.check(&launch) {
                Ok(()) => return Ok(needs),
                Err(Error::ShortBuffer { buffer, needed, .. }) => {
                    anyhow::ensure!(
                        needed <= MAX_BYTES,
                        "its {buffer} needs {needed} bytes for arguments {arguments:?}, expected at \
                         most {MAX_BYTES}"
                    );
                    let size = if buffer == "input" { &mut needs.input } else { &mut needs.output };
                    *size = needed as usize;
                }
                Err(error) => return Err(error).context("its arguments"),
            }
        }
        anyhow::bail!("the device asks for more memory than it said")
    }

    /// Returns the offset at which the output begins.
    pub(super) fn output_offset(&self) -> usize {
        self.input.next_multiple_of(ALIGNMENT)
    }

    /// Both together.
    pub(super) fn bytes(&self) -> usize {
        match self.output {
            0 => self.input,
            output => self.output_offset() + output,
        }
    }
}

fn memory(bytes: usize) -> anyhow::Result<PeerSlice> {
    match bytes {
        0 => Ok(PeerSlice::empty()),
        bytes => Ok(PeerSlice::whole(Segment::create("keeptime-calibrate", bytes)?.map()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::software::{Config, SoftwareDevice};

    #[test]
    fn device_says_what_it_needs() {
        let device = SoftwareDevice::on_cores(Config::default()).unwrap();
        let needs = |kernel: &str, arguments| Needs::of(&*device, kernel, arguments);
        let add = needs("vecadd", [100, 0, 0, 0]).unwrap();
        assert_eq!(add, Needs { input: 800, output: 400 });
        assert_eq!((add.output_offset(), add.bytes()), (832, 1232));
        assert_eq!(needs("busy", [5, 0, 0, 0]).unwrap().bytes(), 0);
        let huge = needs("vecadd", [u64::MAX / 16, 0, 0, 0]).unwrap_err().to_string();
        assert!(huge.contains("expected at most 1073741824"), "{huge}");
        let bad = format!("{:#}", needs("histogram", [1, 0, 0, 0]).unwrap_err());
        assert!(bad.contains("argument 1 is 0"), "{bad}");
    }
}
