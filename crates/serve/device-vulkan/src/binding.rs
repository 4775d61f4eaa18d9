//! Memory that a kernel is bound to: a staging buffer, or the client's memory itself.

use crate::imports::Piece;
use crate::staging::Staging;
use ash::vk;

/// A binding of a staging buffer has at least as many bytes.
pub(crate) const LEAST_RANGE: u64 = 16;

/// Part of a buffer that a set names. The buffer may be gone, and something else have its handle;
/// but no two things have the same age.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Binding {
    age: Age,
    buffer: vk::Buffer,
    offset: u64,
    range: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Age {
    /// The generation of a staging buffer.
    Staging(u64),
    /// The number of an imported mapping.
    Client(u64),
}

/// Memory that a kernel sees as its input, or as its output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    /// All of the staging buffer: the kernel knows its sizes from its arguments.
    Whole,
    /// A number of bytes of the staging buffer.
    Exact(u64),
    /// The client's memory itself, which is kept until the dispatch has ended.
    Client(Piece),
}

impl Bound {
    /// Returns the part of a buffer that a set has to name, of at most so many bytes. Bytes there
    /// that the kernel must not see are cleared.
    pub(crate) fn binding(self, staging: &mut Staging, generation: u64, most: u64) -> Binding {
        let range = |bytes: u64| {
            bytes.next_multiple_of(4).clamp(LEAST_RANGE, most / 4 * 4).min(staging.capacity)
        };
        let range = match self {
            Bound::Client(Piece { number, buffer, offset, range }) => {
                return Binding { age: Age::Client(number), buffer, offset, range };
            }
            Bound::Whole => range(staging.capacity),
            Bound::Exact(bytes) => {
                let range = range(bytes);
                // The memory that was there has another owner.
                staging.clear_from(bytes);
                staging.soil(range);
                range
            }
        };
        Binding { age: Age::Staging(generation), buffer: staging.handle(), offset: 0, range }
    }
}

impl Binding {
    /// The binding as a descriptor set takes it.
    pub(crate) fn info(&self) -> vk::DescriptorBufferInfo {
        let Binding { buffer, offset, range, .. } = *self;
        vk::DescriptorBufferInfo { buffer, offset, range }
    }
}
