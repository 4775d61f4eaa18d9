//! Effects of the driver's functions on the bandwidth lock: BWLOCK++, Table I, for the functions of
//! today's drivers.
//!
//! Launches, graph launches, copies and memsets begin work. A copy *to* the host that is not
//! asynchronous has ended when it returns, and so has all earlier work of its stream; one from the
//! host only if that memory is pinned. All other calls without `Async` in their name are
//! asynchronous in fact, as far as the driver's manual promises. Host functions, allocations and
//! waits are no work of the GPU's.

use crate::cuda::COUNT;
use record::cuda::FUNCTIONS;

/// Place at which a call names its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    /// An argument of this number.
    Argument(u8),
    /// The launch configuration that argument 0 points to.
    Configuration,
    /// Nowhere: it is the default stream.
    Default,
}

/// Action of a function, as far as it matters to the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// Nothing that matters here.
    Nothing,
    /// The driver is initialised.
    Initialise,
    /// Begins work that goes on when the call returns.
    Submit(At),
    /// Begins work on several devices: an array of launches, and how many.
    SubmitMany,
    /// Copies to the host: when it returns, the stream is empty.
    CopyBack,
    /// Copies from the host memory in this argument.
    CopyIn(u8),
    /// Waits for a stream, or asks about it.
    WaitStream,
    /// Waits for an event, or asks about it.
    WaitEvent,
    /// Records event 0 in stream 1.
    Record,
    /// Records event 0 in stream 1, perhaps as a node of a graph that is captured.
    RecordWithFlags,
    /// Others may record the event in this argument from here on.
    ShareEvent(u8),
    /// Makes an event that others may record.
    OpenEvent,
    /// Adds a node to a graph, described by what this argument points to.
    AddNode(u8),
    DestroyEvent,
    DestroyStream,
    /// A capture begins, or may take in a stream.
    Capture,
    /// Waits for the current context.
    WaitCurrent,
    /// Waits for a context, 0 for the current one.
    WaitContext,
    DestroyContext,
    /// Makes the primary context of device 1.
    RetainPrimary,
    /// May end the primary context of device 0.
    EndPrimary,
}

/// Acts by the number of the function.
pub(super) static ACTS: [Act; COUNT] = {
    let mut all = [Act::Nothing; COUNT];
    let mut number = 0;
    while number < COUNT {
        all[number] = act(FUNCTIONS[number].base, version(FUNCTIONS[number].symbol));
        number += 1;
    }
    all
};

/// The version in a symbol, 1 without.
const fn version(symbol: &str) -> u8 {
    let symbol = symbol.as_bytes();
    let mut at = 0;
    while at + 3 <= symbol.len() {
        if symbol[at] == b'_' && symbol[at + 1] == b'v' {
            return symbol[at + 2] - b'0';
        }
        at += 1;
    }
    1
}

const fn act(base: &str, version: u8) -> Act {
    use Act::*;
    const fn submit(stream: u8) -> Act {
        Act::Submit(At::Argument(stream))
    }
    let base = base.as_bytes();
    macro_rules! by_name {
        ($($($name:literal)|+ => $act:expr;)*) => {
            $(if $(same(base, $name.as_bytes()))||+ { return $act; })*
        };
    }
    by_name! {
        "cuInit" => Initialise;
        "cuLaunchKernel" | "cuLaunchCooperativeKernel" => submit(8);
        "cuLaunchKernelEx" => Submit(At::Configuration);
        "cuLaunchGridAsync" => submit(3);
        "cuLaunch" | "cuLaunchGrid" => Submit(At::Default);
        "cuLaunchCooperativeKernelMultiDevice" => SubmitMany;
        "cuGraphLaunch" => submit(1);

        "cuMemcpyHtoD" => CopyIn(1);
        "cuMemcpyHtoA" => CopyIn(2);
        "cuMemcpyDtoH" | "cuMemcpyAtoH" => CopyBack;
        "cuMemcpy" | "cuMemcpyDtoD" | "cuMemcpyPeer" | "cuMemcpyAtoA" | "cuMemcpyAtoD"
            | "cuMemcpyDtoA" | "cuMemcpy2D" | "cuMemcpy2DUnaligned" | "cuMemcpy3D"
            | "cuMemcpy3DPeer" => Submit(At::Default);
        "cuMemcpyAsync" | "cuMemcpyHtoDAsync" | "cuMemcpyDtoHAsync" | "cuMemcpyDtoDAsync"
            => submit(3);
        "cuMemcpyAtoHAsync" | "cuMemcpyHtoAAsync" | "cuMemBatchDecompressAsync"
            | "cuMemcpyWithAttributesAsync" => submit(4);
        "cuMemcpyPeerAsync" => submit(5);
        "cuMemcpy2DAsync" | "cuMemcpy3DAsync" | "cuMemcpy3DPeerAsync" => submit(1);
        "cuMemcpy3DWithAttributesAsync" => submit(2);
        // The second forms have no place for the number of the copy that failed.
        "cuMemcpyBatchAsync" => submit(if version == 1 { 8 } else { 7 });
        "cuMemcpy3DBatchAsync" => submit(if version == 1 { 4 } else { 3 });

        "cuMemsetD8" | "cuMemsetD16" | "cuMemsetD32" | "cuMemsetD2D8" | "cuMemsetD2D16"
            | "cuMemsetD2D32" => Submit(At::Default);
        "cuMemsetD8Async" | "cuMemsetD16Async" | "cuMemsetD32Async" => submit(3);
        "cuMemsetD2D8Async" | "cuMemsetD2D16Async" | "cuMemsetD2D32Async" => submit(5);
        "cuMemPrefetchAsync" => submit(if version == 1 { 3 } else { 4 });
        "cuMemPrefetchBatchAsync" | "cuMemDiscardAndPrefetchBatchAsync" => submit(7);

        "cuStreamSynchronize" | "cuStreamQuery" => WaitStream;
        "cuEventSynchronize" | "cuEventQuery" => WaitEvent;
        "cuCtxSynchronize" => if version == 1 { WaitCurrent } else { WaitContext };
        "cuEventRecord" => Record;
        "cuEventRecordWithFlags" => RecordWithFlags;
        "cuEventDestroy" => DestroyEvent;
        "cuCtxRecordEvent" | "cuGreenCtxRecordEvent" | "cuIpcGetEventHandle"
            | "cuGraphEventRecordNodeSetEvent" => ShareEvent(1);
        "cuGraphExecEventRecordNodeSetEvent" => ShareEvent(2);
        "cuGraphAddEventRecordNode" => ShareEvent(4);
        "cuGraphAddNode" => match version {
            1 => AddNode(4),
            2 => AddNode(5),
            _ => Nothing,
        };
        "cuIpcOpenEventHandle" => OpenEvent;

        "cuStreamDestroy" => DestroyStream;
        "cuStreamBeginCapture" | "cuStreamBeginCaptureToGraph" | "cuStreamBeginRecaptureToGraph"
            | "cuStreamBeginCaptureToCig" | "cuStreamWaitEvent" => Capture;
        "cuCtxDestroy" | "cuCtxDetach" => DestroyContext;
        "cuDevicePrimaryCtxRetain" => RetainPrimary;
        "cuDevicePrimaryCtxRelease" | "cuDevicePrimaryCtxReset" => EndPrimary;
    }
    Nothing
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
