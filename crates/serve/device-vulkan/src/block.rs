//! Blocks of the kernels: slices of client memory, reached by the device itself or copied.

use crate::binding::{Bound, LEAST_RANGE};
use crate::config::Groups;
use crate::gpu::Gpu;
use crate::imports::Piece;
use crate::kernel::{Direct, GROUP, REDUCED, SLICE, TILE, slice_rows, spread, strip_rows};
use crate::worker::{Dispatch, Worker};
use device::hosted::Task;
use device::{FailureCode, Launch};
use shm::memory::PeerSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const WORD: u64 = 4;
const SUM_BYTES: u64 = 8;

/// A block that is being run. The launch was checked, so sizes in bytes fit 64 bits.
pub(crate) struct Block<'a> {
    pub gpu: &'a Gpu,
    pub worker: &'a mut Worker,
    pub task: &'a Task<'a>,
    pub number: u64,
}

/// Elements of the launch's memory: the first one, and how many.
type Part = (u64, u64);

/// Elements that a kernel reads or writes: the binding, and the start of each part in it.
struct Elements<const N: usize> {
    bound: Bound,
    firsts: [u64; N],
}

impl Block<'_> {
    /// Runs a built-in kernel: its sizes, and the places of its elements.
    fn run(
        &mut self,
        sizes: [u64; 4],
        (input, output): (Elements<2>, &Elements<1>),
        groups: [u32; 3],
    ) -> Result<(), FailureCode> {
        let firsts = [input.firsts[0], input.firsts[1], output.firsts[0], 0];
        // Both are numbers of elements within a binding.
        let both = |i: usize| sizes[i] & u64::from(u32::MAX) | firsts[i] << 32;
        self.worker.run(&Dispatch {
            kernel: self.task.kernel.0 as usize,
            level: self.task.level,
            arguments: [both(0), both(1), both(2), both(3)],
            groups,
            input: input.bound,
            output: output.bound,
        })
    }

    /// The first element of this block's slice of `n`, and how many it has.
    fn slice(&self, n: u64) -> Part {
        let start = self.number * SLICE;
        (start, SLICE.min(n.saturating_sub(start)))
    }

    /// Some bytes of the launch's memory as they are, and how many the binding has before them;
    /// `None` if they have to be copied.
    fn reach(&self, memory: &PeerSlice, bytes: (u64, u64)) -> Option<(Piece, u64)> {
        let imports = self.gpu.imports.as_ref()?;
        // The input that a kernel reads must not depend on what it has written.
        let apart = !overlap(&self.task.input, &self.task.output);
        apart.then(|| imports.reach(self.gpu, memory, bytes)).flatten()
    }

    /// The same for elements: also `None` if they do not begin at a word.
    fn reach_words(&self, memory: &PeerSlice, (from, to): (u64, u64)) -> Option<(Bound, u64)> {
        let (piece, before) = self.reach(memory, (from * WORD, to * WORD))?;
        before.is_multiple_of(WORD).then_some((Bound::Client(piece), before / WORD))
    }

    /// Gives the kernel parts of the launch's input, in the order in which they lie there.
    fn input<const N: usize>(&mut self, parts: [Part; N]) -> Result<Elements<2>, FailureCode> {
        let start = parts[0].0;
        let used = parts.iter().filter(|(_, count)| *count > 0);
        let end = used.map(|(first, count)| first + count).max().unwrap_or(start);
        let mut firsts = [0; 2];
        if let Some((bound, before)) = self.reach_words(&self.task.input, (start, end)) {
            for (place, (first, _)) in firsts.iter_mut().zip(parts) {
                *place = first - start + before;
            }
            return Ok(Elements { bound, firsts });
        }
        let count = parts.iter().map(|(_, count)| count).sum::<u64>();
        self.worker.reserve(count * WORD, 0)?;
        let mut to = 0;
        for (place, (first, count)) in firsts.iter_mut().zip(parts) {
            *place = to;
            let bytes = self.worker.input.first((to + count) * WORD);
            let bytes = &mut bytes[(to * WORD) as usize..];
            self.task.input.read((first * WORD) as usize, bytes).map_err(memory)?;
            to += count;
        }
        self.staged(count * WORD);
        Ok(Elements { bound: Bound::Whole, firsts })
    }

    /// Makes the kernel leave a part of the launch's output for `store`.
    fn output(&mut self, (first, count): Part) -> Result<Elements<1>, FailureCode> {
        if let Some((bound, before)) = self.reach_words(&self.task.output, (first, first + count)) {
            return Ok(Elements { bound, firsts: [before] });
        }
        self.results(count * WORD)
    }

    /// Makes the kernel leave this number of bytes in the staging buffer.
    fn results(&mut self, bytes: u64) -> Result<Elements<1>, FailureCode> {
        self.worker.reserve(0, bytes)?;
        Ok(Elements { bound: Bound::Whole, firsts: [0] })
    }

    /// Copies a part of the output to where it belongs, unless the kernel has left it there.
    fn store(&mut self, place: &Elements<1>, (first, count): Part) -> Result<(), FailureCode> {
        if matches!(place.bound, Bound::Client(_)) {
            return Ok(());
        }
        let bytes = self.worker.output.first(count * WORD);
        self.task.output.write((first * WORD) as usize, bytes).map_err(memory)?;
        self.staged(count * WORD);
        Ok(())
    }

    fn staged(&self, bytes: u64) {
        self.gpu.staged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn empty(&mut self) -> Result<(), FailureCode> {
        let nothing = Elements { bound: Bound::Whole, firsts: [0; 2] };
        let output = self.results(0)?;
        self.run([0; 4], (nothing, &output), [1; 3])
    }

    pub(crate) fn vecadd(&mut self) -> Result<(), FailureCode> {
        let n = self.task.arguments[0];
        let (start, count) = self.slice(n);
        if count == 0 {
            return Ok(());
        }
        let input = self.input([(start, count), (n + start, count)])?;
        let output = self.output((start, count))?;
        self.run([count, 0, 0, 0], (input, &output), [count.div_ceil(GROUP) as u32, 1, 1])?;
        self.store(&output, (start, count))
    }

    pub(crate) fn matmul(&mut self) -> Result<(), FailureCode> {
        let n = self.task.arguments[0];
        let strip = strip_rows(n);
        let first = self.number * strip;
        let rows = strip.min(n.saturating_sub(first));
        if rows == 0 {
            return Ok(());
        }
        let part = (first * n, rows * n);
        let input = self.input([part, (n * n, n * n)])?;
        let output = self.output(part)?;
        let groups = [n.div_ceil(TILE) as u32, rows.div_ceil(TILE) as u32, 1];
        self.run([n, rows, 0, 0], (input, &output), groups)?;
        self.store(&output, part)
    }

    pub(crate) fn reduce(&mut self) -> Result<(), FailureCode> {
        let (start, count) = self.slice(self.task.arguments[0]);
        if count == 0 {
            return Ok(());
        }
        let groups = count.div_ceil(REDUCED);
        let input = self.input([(start, count)])?;
        let output = self.results(groups * SUM_BYTES)?;
        self.run([count, 0, 0, 0], (input, &output), [groups as u32, 1, 1])?;
        let (sums, _) = self.worker.output.first(groups * SUM_BYTES).as_chunks::<8>();
        let sum: f64 = sums.iter().map(|sum| f64::from_ne_bytes(*sum)).sum();
        // Relaxed: `finish` runs after the count of finished blocks has ordered all of this.
        self.task.workspace[self.number as usize].store(sum.to_bits(), Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn histogram(&mut self) -> Result<(), FailureCode> {
        let [n, bins, ..] = self.task.arguments;
        let (start, count) = self.slice(n);
        if count == 0 {
            return Ok(());
        }
        let input = self.input([(start, count)])?;
        let output = self.results(bins * WORD)?;
        self.worker.output.first(bins * WORD).fill(0);
        let groups = [count.div_ceil(GROUP) as u32, 1, 1];
        self.run([count, bins, 0, 0], (input, &output), groups)?;
        let (counts, _) = self.worker.output.first(bins * WORD).as_chunks::<4>();
        for (count, total) in counts.iter().zip(self.task.workspace) {
            // Relaxed: as for `reduce`.
            total.fetch_add(u32::from_ne_bytes(*count).into(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Rows of a grid, out of these and so many beside them on each side, as far as the grid
    /// reaches, and of so many elements that lie behind the grid.
    pub(crate) fn grid(&mut self, beside: u64, behind: u64) -> Result<(), FailureCode> {
        let [width, height, ..] = self.task.arguments;
        let most = slice_rows(width);
        let top = self.number * most;
        let rows = most.min(height.saturating_sub(top));
        if width == 0 || rows == 0 {
            return Ok(());
        }
        let (first, last) = (top == 0, top + rows == height);
        let (above, below) = (u64::from(!first) * beside, u64::from(!last) * beside);
        let seen = ((top - above) * width, (above + rows + below) * width);
        let input = self.input([seen, (width * height, behind)])?;
        let part = (top * width, rows * width);
        let output = self.output(part)?;
        let groups = spread((rows * width).div_ceil(GROUP));
        self.run([width, rows, first.into(), last.into()], (input, &output), groups)?;
        self.store(&output, part)
    }

    pub(crate) fn user(&mut self, groups: Groups, direct: Direct) -> Result<(), FailureCode> {
        let Task { launch, level, .. } = *self.task;
        let Launch { kernel, arguments, ref input, ref output, .. } = *launch;
        let groups = match groups {
            Groups::Fixed(groups) => groups,
            // The plan has found that these are not too many.
            Groups::Elements { argument, per_group } => {
                [arguments[argument].div_ceil(per_group.into()) as u32, 1, 1]
            }
        };
        let bounds =
            [self.reach_exactly(input, direct.input), self.reach_exactly(output, direct.output)];
        let staged = |memory: &PeerSlice, bound| match bound {
            Bound::Client(_) => 0,
            _ => memory.len() as u64,
        };
        let bytes = [staged(input, bounds[0]), staged(output, bounds[1])];
        self.worker.reserve(bytes[0], bytes[1])?;
        // Bytes that the kernel does not write stay as they are.
        let buffers = [&mut self.worker.input, &mut self.worker.output];
        for ((from, to), bytes) in [input, output].into_iter().zip(buffers).zip(bytes) {
            from.slice(0, bytes as usize)
                .and_then(|from| from.read(0, to.first(bytes)))
                .map_err(memory)?;
        }
        self.worker.run(&Dispatch {
            kernel: kernel.0 as usize,
            level,
            arguments,
            groups,
            input: bounds[0],
            output: bounds[1],
        })?;
        self.staged(bytes[0] + 2 * bytes[1]);
        output.write(0, self.worker.output.first(bytes[1])).map_err(memory)
    }

    /// All the launch's memory of one side, without a byte more, as a kernel of one's own sees it.
    fn reach_exactly(&self, memory: &PeerSlice, direct: bool) -> Bound {
        let bytes = memory.len() as u64;
        // Bytes of a binding beyond the memory are zero, which the client's need not be.
        let whole = bytes >= LEAST_RANGE && bytes.is_multiple_of(WORD);
        let reached = (direct && whole).then(|| self.reach(memory, (0, bytes))).flatten();
        match reached {
            Some((piece, 0)) => Bound::Client(piece),
            _ => Bound::Exact(bytes),
        }
    }
}

/// Returns true if two pieces of memory have a byte in common.
fn overlap(a: &PeerSlice, b: &PeerSlice) -> bool {
    let (Some((a_mapping, a_start)), Some((b_mapping, b_start))) = (a.mapping(), b.mapping())
    else {
        return false;
    };
    let apart = a_start + a.len() <= b_start || b_start + b.len() <= a_start;
    Arc::ptr_eq(a_mapping, b_mapping) && !apart
}

/// Memory that was checked turned out unreadable.
pub(crate) fn memory(_: shm::Error) -> FailureCode {
    FailureCode::Memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_overlap_when_they_have_a_byte_in_common() {
        let memory = PeerSlice::anonymous(100).unwrap();
        let part = |offset, length| memory.slice(offset, length).unwrap();
        for (a, b, expected) in [
            (part(0, 10), part(10, 10), false),
            (part(0, 11), part(10, 10), true),
            (part(0, 100), part(50, 1), true),
            (part(0, 100), part(50, 0), false),
        ] {
            assert_eq!((overlap(&a, &b), overlap(&b, &a)), (expected, expected));
        }
        let other = PeerSlice::anonymous(100).unwrap();
        assert!(!overlap(&memory, &other));
    }
}
