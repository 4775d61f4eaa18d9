//! Properties of the driver's functions for this analysis, and the kinds of calls.
//!
//! A trace names each function by its symbol. Versions and variants of one function
//! (`cuLaunchKernel`, `cuLaunchKernel_ptsz`) are one kind of call; copies are apart by size, since
//! the driver copies small ones through a buffer of its own, and by direction where the name tells
//! it.

use crate::graph::Reason;
use record::cuda::{Category, FUNCTIONS};
use record::layout::{BYTES_MASK, PAGEABLE, PINNED};
use serde::Serialize;
use std::collections::HashMap;

/// Value for no kind: a place outside of every call.
pub(crate) const NO_KIND: u32 = u32::MAX;

/// Kinds of calls that are ranked apart from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Kernels and graphs.
    Launch,
    /// Copies and memory sets.
    Copy,
    /// Waiting for the device, or asking whether it is done.
    Sync,
    /// Everything else.
    Other,
}

/// Direction of a copy, as far as the function's name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Copy from the host's memory.
    HostToDevice,
    /// Copy to the host's memory.
    DeviceToHost,
    /// Inside a device.
    DeviceToDevice,
    /// Between devices.
    Peer,
    /// The name does not tell.
    Unknown,
}

/// Knowledge of the host's memory in a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// Nothing.
    #[default]
    Unknown,
    /// Pinned memory: the copy is only queued.
    Pinned,
    /// Memory that was not pinned through the driver: the calling thread copies.
    Pageable,
}

impl Host {
    fn of(detail: u64) -> Host {
        match (detail & PINNED != 0, detail & PAGEABLE != 0) {
            (true, false) => Host::Pinned,
            (false, true) => Host::Pageable,
            _ => Host::Unknown,
        }
    }
}

/// Effect of a call on the device's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Puts a kernel into a stream's queue.
    Launch,
    /// Puts a graph into a stream's queue.
    GraphLaunch,
    /// Puts a copy into a stream's queue.
    Copy,
    /// Copies, and comes back when it is done.
    BlockingCopy,
    /// Puts a memory set into a stream's queue.
    Memset,
    /// Waits until a stream's queue is empty.
    WaitStream,
    /// Query whether a stream's queue is empty.
    PollStream,
    /// Waits for an event or for everything.
    WaitAll,
    /// Query whether an event has come.
    PollEvent,
    /// None of these.
    Other,
}

impl Role {
    /// Returns true if it adds to a queue of the device, and so may find it full.
    pub(crate) fn queues(self) -> bool {
        matches!(self, Role::Launch | Role::GraphLaunch | Role::Copy | Role::Memset)
    }
}

/// Sizes of copies that are kinds of their own: at most this number of bytes.
pub(crate) const SIZES: [u64; 5] = [4 << 10, 64 << 10, 1 << 20, 16 << 20, u64::MAX];

/// All versions and variants of one function.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub name: String,
    pub group: Group,
    pub role: Role,
    pub direction: Direction,
    /// Reason why a graph cannot contain it; `None` if a graph can.
    pub cut: Option<Reason>,
    sized: bool,
    kinds: [[u32; 3]; SIZES.len()],
}

#[derive(Clone, Copy, Debug)]
struct Function {
    base: u32,
    per_thread: bool,
}

/// A kind of call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindOf {
    /// Its function.
    pub base: u32,
    /// Its place in [`SIZES`], if sizes matter.
    pub size: Option<usize>,
    /// The host's memory, if it matters.
    pub host: Host,
}

/// The functions of a trace by number, and the kinds of calls met so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Functions {
    functions: Vec<Function>,
    bases: Vec<Base>,
    kinds: Vec<KindOf>,
}

impl Functions {
    /// The functions with these symbols; further numbers are one unnamed function.
    pub(crate) fn new(symbols: &[String]) -> Functions {
        let known: HashMap<&str, usize> =
            FUNCTIONS.iter().enumerate().map(|(at, function)| (function.symbol, at)).collect();
        let mut by_name: HashMap<String, u32> = HashMap::new();
        let mut all = Functions::default();
        let unnamed = String::from("(unnamed function)");
        for symbol in symbols.iter().chain([&unnamed]) {
            let (name, category) = match known.get(symbol.as_str()) {
                Some(at) => (FUNCTIONS[*at].base, Some(FUNCTIONS[*at].category)),
                None => (symbol.as_str(), None),
            };
            let base = *by_name.entry(name.to_owned()).or_insert_with(|| {
                all.bases.push(Base::new(name, category));
                all.bases.len() as u32 - 1
            });
            let per_thread = symbol.ends_with("_ptsz") || symbol.ends_with("_ptds");
            all.functions.push(Function { base, per_thread });
        }
        all
    }

    /// The kind of a call of a function, with the detail of its record.
    #[inline]
    pub(crate) fn kind(&mut self, number: u32, detail: u64) -> u32 {
        let base_at = self.function(number).base;
        let base = &mut self.bases[base_at as usize];
        let (mut size, mut host) = (None, Host::Unknown);
        if base.sized {
            let bytes = detail & BYTES_MASK;
            size = Some(SIZES[..SIZES.len() - 1].iter().take_while(|most| bytes > **most).count());
            host = Host::of(detail);
        }
        let kind = &mut base.kinds[size.unwrap_or(0)][host as usize];
        if *kind == NO_KIND {
            *kind = self.kinds.len() as u32;
            self.kinds.push(KindOf { base: base_at, size, host });
        }
        *kind
    }

    /// The detail of a call of a function as it is shown: of a copy, the bytes alone.
    #[inline]
    pub(crate) fn detail(&self, number: u32, detail: u64) -> u64 {
        let sized = self.bases[self.function(number).base as usize].sized;
        if sized { detail & BYTES_MASK } else { detail }
    }

    /// Returns the properties of a kind without the size of its copies: the place of its function,
    /// and the host's memory.
    #[inline]
    pub(crate) fn sizeless(&self, kind: u32) -> (u32, Host) {
        let KindOf { base, host, .. } = self.kinds[kind as usize];
        (base, host)
    }

    /// The host's memory in copies of a kind.
    pub(crate) fn host(&self, kind: u32) -> Host {
        self.kinds[kind as usize].host
    }

    #[inline]
    fn function(&self, number: u32) -> Function {
        let last = self.functions.len() - 1;
        self.functions[(number as usize).min(last)]
    }

    /// Returns true if the function's default stream is one for each thread.
    pub(crate) fn per_thread(&self, number: u32) -> bool {
        self.function(number).per_thread
    }

    /// Returns the number of kinds.
    pub(crate) fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// Returns the function of a kind, and the index of its size in [`SIZES`] if it is a copy.
    #[inline]
    pub(crate) fn of(&self, kind: u32) -> (&Base, Option<usize>) {
        let KindOf { base, size, .. } = self.kinds[kind as usize];
        (&self.bases[base as usize], size)
    }
}

impl Base {
    /// Returns true if it does nothing but wait for the GPU.
    pub(crate) fn waits(&self) -> bool {
        self.group == Group::Sync && matches!(self.role, Role::WaitStream | Role::WaitAll)
    }

    fn new(name: &str, category: Option<Category>) -> Base {
        let role = role(name, category);
        Base {
            name: name.to_owned(),
            group: match (role, category) {
                (Role::Launch | Role::GraphLaunch, _) => Group::Launch,
                (Role::Copy | Role::BlockingCopy | Role::Memset, _) => Group::Copy,
                (_, Some(Category::Sync)) => Group::Sync,
                _ => Group::Other,
            },
            role,
            direction: direction(name),
            cut: cut(name, role, category),
            sized: matches!(role, Role::Copy | Role::BlockingCopy),
            kinds: [[NO_KIND; 3]; SIZES.len()],
        }
    }
}

fn role(name: &str, category: Option<Category>) -> Role {
    match (name, category) {
        (_, Some(Category::Launch)) => Role::Launch,
        ("cuGraphLaunch", _) => Role::GraphLaunch,
        (_, Some(Category::Memcpy)) if name.contains("Async") => Role::Copy,
        (_, Some(Category::Memcpy)) => Role::BlockingCopy,
        (_, Some(Category::Memset)) => Role::Memset,
        ("cuStreamSynchronize", _) => Role::WaitStream,
        ("cuStreamQuery", _) => Role::PollStream,
        ("cuEventQuery", _) => Role::PollEvent,
        // Freeing memory waits for everything as well.
        (_, Some(Category::Sync)) | ("cuMemFree", _) => Role::WaitAll,
        _ => Role::Other,
    }
}

/// Returns the reason why a graph cannot contain a call, if it cannot. Asking whether work is done
/// cuts nothing: it can be asked between two launches of graphs, or not at all.
fn cut(name: &str, role: Role, category: Option<Category>) -> Option<Reason> {
    let code = ["Module", "Library", "FuncLoad"].iter().any(|part| name.contains(part));
    match (role, category) {
        (Role::BlockingCopy, _) => Some(Reason::Blocking),
        // Without a stream it is made in the legacy default stream, at once.
        (Role::Memset, _) if !name.contains("Async") => Some(Reason::Blocking),
        (_, Some(Category::ImplicitSync)) if code => Some(Reason::Code),
        (_, Some(Category::ImplicitSync)) => Some(Reason::Memory),
        (Role::WaitStream | Role::WaitAll, _) => Some(Reason::Wait),
        _ if name == "cuStreamAddCallback" => Some(Reason::Callback),
        _ => None,
    }
}

fn direction(name: &str) -> Direction {
    let Some(rest) = name.strip_prefix("cuMemcpy") else { return Direction::Unknown };
    match rest.get(..4) {
        Some("HtoD" | "HtoA") => Direction::HostToDevice,
        Some("DtoH" | "AtoH") => Direction::DeviceToHost,
        Some("DtoD" | "DtoA" | "AtoD" | "AtoA") => Direction::DeviceToDevice,
        Some("Peer") => Direction::Peer,
        _ if rest.starts_with("3DPeer") => Direction::Peer,
        _ => Direction::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::layout::host_copy;

    #[test]
    fn variants_are_one_kind_and_copies_one_for_each_size() {
        let symbols = ["cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemcpyHtoDAsync_v2"];
        let mut functions = Functions::new(&symbols.map(String::from));
        assert_eq!(functions.kind(0, 77), functions.kind(1, 5));
        assert!(functions.per_thread(1) && !functions.per_thread(0));
        let (small, large) = (functions.kind(2, 4096), functions.kind(2, 4097));
        assert_ne!(small, large);
        assert_eq!(functions.kind(2, 65536), large);
        let (base, size) = functions.of(small);
        assert_eq!((base.name.as_str(), size), ("cuMemcpyHtoDAsync", Some(0)));
        assert_eq!((base.direction, base.role), (Direction::HostToDevice, Role::Copy));
        let pinned = functions.kind(2, host_copy(4096, true));
        let pageable = functions.kind(2, host_copy(4096, false));
        assert_eq!(
            [small, pinned, pageable].map(|kind| functions.host(kind)),
            [Host::Unknown, Host::Pinned, Host::Pageable]
        );
        assert_eq!(functions.detail(2, host_copy(4096, false)), 4096);
        let foreign = functions.kind(4_000_000, 0);
        assert_eq!(functions.of(foreign).0.group, Group::Other);
    }

    #[test]
    fn names_tell_what_a_graph_cannot_contain() {
        for (symbol, wanted) in [
            ("cuLaunchKernel", None),
            ("cuMemcpyHtoDAsync_v2", None),
            ("cuMemsetD8Async", None),
            ("cuMemAllocAsync", None),
            ("cuEventRecord", None),
            ("cuEventQuery", None),
            ("cuLaunchHostFunc", None),
            ("cuStreamAddCallback", Some(Reason::Callback)),
            ("cuMemcpyHtoD_v2", Some(Reason::Blocking)),
            ("cuMemsetD8_v2", Some(Reason::Blocking)),
            ("cuMemAlloc_v2", Some(Reason::Memory)),
            ("cuMemFree_v2", Some(Reason::Memory)),
            ("cuLibraryLoadData", Some(Reason::Code)),
            ("cuModuleUnload", Some(Reason::Code)),
            ("cuEventSynchronize", Some(Reason::Wait)),
            ("cuStreamSynchronize_ptsz", Some(Reason::Wait)),
        ] {
            let mut functions = Functions::new(&[symbol.to_owned()]);
            let kind = functions.kind(0, 0);
            assert_eq!(functions.of(kind).0.cut, wanted, "{symbol}");
        }
    }

    #[test]
    fn names_tell_what_calls_do() {
        for (symbol, wanted) in [
            ("cuGraphLaunch_ptsz", Role::GraphLaunch),
            ("cuGraphUpload", Role::Other),
            ("cuMemcpyDtoH_v2", Role::BlockingCopy),
            ("cuMemsetD8Async", Role::Memset),
            ("cuStreamSynchronize", Role::WaitStream),
            ("cuEventSynchronize", Role::WaitAll),
            ("cuMemFree_v2", Role::WaitAll),
            ("cuMemAlloc_v2", Role::Other),
        ] {
            let mut functions = Functions::new(&[symbol.to_owned()]);
            let kind = functions.kind(0, 0);
            assert_eq!(functions.of(kind).0.role, wanted, "{symbol}");
        }
    }
}
