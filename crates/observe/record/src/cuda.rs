//! The functions of the CUDA driver that are recorded, by number.
//!
//! The table is `cuda-entry-points.tsv`: one line for each exported symbol of CUDA 2.0 to 13.5
//! that starts work, waits for it, or may block. A record names a function by its place in the
//! table; a trace carries the names of the functions that it uses, so that a later table reads it.

/// Purpose of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Category {
    Launch,
    HostFn,
    GraphLaunch,
    GraphBuild,
    Capture,
    Memcpy,
    Memset,
    MemStreamOrdered,
    StreamMemop,
    ExtSync,
    Sync,
    Event,
    Stream,
    Context,
    ImplicitSync,
    KernelMeta,
    Resolver,
}

/// One exported symbol of the driver.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The exported name.
    pub symbol: &'static str,
    /// The name without version and variant.
    pub base: &'static str,
    /// The version of CUDA that a program asks `cuGetProcAddress` for to get this symbol.
    pub version: u32,
    /// Its purpose.
    pub category: Category,
}

impl Function {
    /// Returns true if it only asks for something that the driver knows: it starts nothing, waits
    /// for nothing and takes tens of nanoseconds. A program calls such functions ten times as often
    /// as it launches, and recording them would cost more than they do.
    pub const fn only_asks(&self) -> bool {
        let base = self.base.as_bytes();
        match self.category {
            Category::Context | Category::Stream | Category::Capture | Category::GraphBuild => {
                contains(base, b"Get") || contains(base, b"IsCapturing")
            }
            Category::KernelMeta => {
                !same(base, b"cuModuleGetFunction")
                    && !same(base, b"cuLibraryGetKernel")
                    && !same(base, b"cuKernelGetFunction")
            }
            Category::Resolver => same(base, b"cuDriverGetVersion"),
            Category::Event => same(base, b"cuEventElapsedTime"),
            _ => false,
        }
    }
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && contains(one, other)
}

const fn contains(text: &[u8], part: &[u8]) -> bool {
    let mut at = 0;
    while at + part.len() <= text.len() {
        let mut length = 0;
        while length < part.len() && text[at + length] == part[length] {
            length += 1;
        }
        if length == part.len() {
            return true;
        }
        at += 1;
    }
    false
}

/// All functions, in the order of their numbers.
pub const FUNCTIONS: &[Function] = include!(concat!(env!("OUT_DIR"), "/functions.rs"));

/// The number of a function of this name.
pub fn number(symbol: &str) -> Option<u32> {
    FUNCTIONS.iter().position(|function| function.symbol == symbol).map(|at| at as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn symbols_are_unique_and_begin_with_their_base() {
        let symbols: BTreeSet<_> = FUNCTIONS.iter().map(|function| function.symbol).collect();
        assert_eq!(symbols.len(), FUNCTIONS.len());
        assert!(FUNCTIONS.iter().all(|f| f.symbol.starts_with(f.base)));
    }

    #[test]
    fn questions_are_told_from_work() {
        let asks = |symbol| FUNCTIONS[number(symbol).unwrap() as usize].only_asks();
        for question in ["cuCtxGetDevice", "cuStreamIsCapturing_ptsz", "cuKernelGetAttribute"] {
            assert!(asks(question), "{question}");
        }
        for work in ["cuLaunchKernel", "cuCtxSetCurrent", "cuEventQuery", "cuModuleGetFunction"] {
            assert!(!asks(work), "{work}");
        }
        let launches = FUNCTIONS.iter().filter(|f| f.category == Category::Launch);
        assert!(
            launches
                .chain(FUNCTIONS.iter().filter(|f| f.category == Category::Memcpy))
                .all(|function| !function.only_asks())
        );
    }

    #[test]
    fn names_and_numbers_fit() {
        let launch = number("cuLaunchKernel_ptsz").unwrap();
        assert_eq!(FUNCTIONS[launch as usize].category, Category::Launch);
        assert_eq!(number("cudnnCreate"), None);
    }
}
