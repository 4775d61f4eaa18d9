//! Arguments of the driver's functions that a record keeps.

use super::{Arguments, COUNT, pinned};
use record::cuda::FUNCTIONS;

/// Positions of the facts in the arguments of a function.
#[derive(Clone, Copy)]
struct Places {
    /// The stream, or what else the call is about.
    subject: u8,
    detail: Detail,
    /// Argument with the address at which the driver stores the handle of a new object.
    made: u8,
    /// True if stream 0 is the thread's own default stream.
    per_thread: bool,
}

/// Kind of the detail of a call.
#[derive(Clone, Copy)]
enum Detail {
    Nothing,
    /// The argument itself: a function, an event, a size.
    Word(u8),
    /// Bytes, and the host memory's address, to tell whether it is pinned.
    HostCopy {
        bytes: u8,
        host: u8,
    },
    /// A count of elements of a size.
    Elements {
        count: u8,
        size: u8,
    },
    /// Width in bytes and height of the structure of a two-dimensional copy.
    Area(u8),
}

const NO: u8 = u8::MAX;
/// The stream is a member of the launch configuration in argument 0.
const IN_CONFIGURATION: u8 = 100;
/// Offset of the stream in `CUlaunchConfig`: seven words of 32 bits, rounded up.
pub(crate) const CONFIGURATION_STREAM: usize = 32;
/// Offsets of width and height in `CUDA_MEMCPY2D`.
const AREA: [usize; 2] = [112, 120];

/// Facts that a record keeps of a call.
pub(super) struct Facts {
    /// The stream, or another handle.
    pub subject: u64,
    /// See the table of records.
    pub detail: u64,
    /// Address at which the driver will store a handle; 0 if nowhere.
    pub handle_at: usize,
}

static PLACES: [Places; COUNT] = {
    let mut all =
        [Places { subject: NO, detail: Detail::Nothing, made: NO, per_thread: false }; COUNT];
    let mut number = 0;
    while number < COUNT {
        all[number] = places(FUNCTIONS[number].base);
        all[number].per_thread = has_suffix(FUNCTIONS[number].symbol);
        number += 1;
    }
    all
};

/// Returns the positions of the facts for a function, by its name without version.
const fn places(base: &str) -> Places {
    const NONE: Places =
        Places { subject: NO, detail: Detail::Nothing, made: NO, per_thread: false };
    const fn on(subject: u8, detail: Detail) -> Places {
        Places { subject, detail, ..NONE }
    }
    const fn made(at: u8, detail: Detail) -> Places {
        Places { made: at, detail, ..NONE }
    }
    let base = base.as_bytes();
    macro_rules! by_name {
        ($($($name:literal)|+ => $places:expr;)*) => {
            $(if $(same(base, $name.as_bytes()))||+ { return $places; })*
        };
    }
    by_name! {
        "cuLaunchKernel" | "cuLaunchCooperativeKernel" => on(8, Detail::Word(0));
        "cuLaunchKernelEx" => on(IN_CONFIGURATION, Detail::Word(1));
        "cuLaunchGridAsync" => on(3, Detail::Word(0));
        "cuLaunch" | "cuLaunchGrid" => on(NO, Detail::Word(0));
        "cuLaunchHostFunc" | "cuStreamAddCallback" => on(0, Detail::Word(1));
        "cuGraphLaunch" | "cuGraphUpload" => on(1, Detail::Word(0));
        "cuMemcpyHtoD" => on(NO, Detail::HostCopy { bytes: 2, host: 1 });
        "cuMemcpyDtoH" => on(NO, Detail::HostCopy { bytes: 2, host: 0 });
        "cuMemcpyHtoDAsync" => on(3, Detail::HostCopy { bytes: 2, host: 1 });
        "cuMemcpyDtoHAsync" => on(3, Detail::HostCopy { bytes: 2, host: 0 });
        "cuMemcpyDtoD" | "cuMemcpy" => on(NO, Detail::Word(2));
        "cuMemcpyDtoDAsync" | "cuMemcpyAsync" => on(3, Detail::Word(2));
        "cuMemcpyPeer" => on(NO, Detail::Word(4));
        "cuMemcpyPeerAsync" => on(5, Detail::Word(4));
        "cuMemcpy2D" | "cuMemcpy2DUnaligned" => on(NO, Detail::Area(0));
        "cuMemcpy2DAsync" => on(1, Detail::Area(0));
        "cuMemcpy3DAsync" | "cuMemcpy3DPeerAsync" => on(1, Detail::Nothing);
        "cuMemsetD8" => on(NO, Detail::Elements { count: 2, size: 1 });
        "cuMemsetD16" => on(NO, Detail::Elements { count: 2, size: 2 });
        "cuMemsetD32" => on(NO, Detail::Elements { count: 2, size: 4 });
        "cuMemsetD8Async" => on(3, Detail::Elements { count: 2, size: 1 });
        "cuMemsetD16Async" => on(3, Detail::Elements { count: 2, size: 2 });
        "cuMemsetD32Async" => on(3, Detail::Elements { count: 2, size: 4 });
        "cuMemsetD2D8Async" | "cuMemsetD2D16Async" | "cuMemsetD2D32Async" => on(5, Detail::Nothing);
        "cuMemAlloc" | "cuMemAllocHost" | "cuMemHostAlloc" | "cuMemAllocManaged"
            => made(0, Detail::Word(1));
        "cuMemAllocAsync" => Places { made: 0, ..on(2, Detail::Word(1)) };
        "cuMemAllocFromPoolAsync" => Places { made: 0, ..on(3, Detail::Word(1)) };
        "cuMemFree" | "cuMemFreeHost" | "cuMemHostUnregister" => on(0, Detail::Nothing);
        "cuMemHostRegister" => on(0, Detail::Word(1));
        "cuMemFreeAsync" => on(1, Detail::Word(0));
        "cuMemPrefetchAsync" => on(NO, Detail::Word(1));
        "cuStreamSynchronize" | "cuStreamQuery" | "cuStreamDestroy" | "cuStreamBeginCapture"
            | "cuStreamEndCapture" | "cuStreamIsCapturing" | "cuStreamGetCaptureInfo"
            => on(0, Detail::Nothing);
        "cuStreamWaitEvent" => on(0, Detail::Word(1));
        "cuStreamCreate" | "cuStreamCreateWithPriority" | "cuEventCreate"
            => made(0, Detail::Word(1));
        "cuEventRecord" | "cuEventRecordWithFlags" => on(1, Detail::Word(0));
        "cuEventSynchronize" | "cuEventQuery" | "cuEventDestroy" => on(0, Detail::Nothing);
        "cuCtxSetCurrent" | "cuCtxPushCurrent" => on(0, Detail::Nothing);
        "cuModuleGetFunction" | "cuLibraryGetKernel" | "cuKernelGetFunction"
            => made(0, Detail::Word(1));
        "cuModuleLoadData" | "cuModuleLoadDataEx" | "cuModuleLoad" | "cuLibraryLoadData"
            | "cuCtxCreate" | "cuGraphCreate" => made(0, Detail::Nothing);
        "cuGraphInstantiate" | "cuGraphInstantiateWithFlags" | "cuGraphInstantiateWithParams"
            => made(0, Detail::Word(1));
    }
    NONE
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Returns true if the symbol is a variant for the thread's own default stream.
pub(crate) const fn has_suffix(symbol: &str) -> bool {
    let symbol = symbol.as_bytes();
    let tail = symbol.len();
    tail > 5
        && symbol[tail - 5] == b'_'
        && symbol[tail - 4] == b'p'
        && symbol[tail - 3] == b't'
        && (symbol[tail - 2] == b's' || symbol[tail - 2] == b'd')
        && (symbol[tail - 1] == b'z' || symbol[tail - 1] == b's')
}

/// The handles that stand for the default streams.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// Returns the facts that are kept of a call.
///
/// # Safety
/// The arguments must be what the program passed to function `number`; structures that it passed
/// by address are read, as the driver will.
pub(super) unsafe fn facts(number: usize, a: &Arguments) -> Facts {
    let places = &PLACES[number];
    // SAFETY: the caller's promise.
    let read = |at: usize, offset: usize| unsafe {
        if at == 0 { 0 } else { ((at + offset) as *const u64).read_unaligned() }
    };
    let argument = |place: u8| a[place as usize & 15] as u64;
    let subject = match places.subject {
        NO => 0,
        IN_CONFIGURATION => read(a[0], CONFIGURATION_STREAM),
        place => argument(place),
    };
    let subject = match subject {
        0 | LEGACY if places.per_thread => PER_THREAD,
        LEGACY => 0,
        stream => stream,
    };
    let detail = match places.detail {
        Detail::Nothing => 0,
        Detail::Word(place) => argument(place),
        Detail::HostCopy { bytes, host } => {
            record::layout::host_copy(argument(bytes), pinned::contains(argument(host)))
        }
        Detail::Elements { count, size } => argument(count).wrapping_mul(u64::from(size)),
        Detail::Area(place) => {
            let at = a[place as usize];
            read(at, AREA[0]).wrapping_mul(read(at, AREA[1]))
        }
    };
    let handle_at = if places.made == NO { 0 } else { a[places.made as usize] };
    Facts { subject, detail, handle_at }
}
