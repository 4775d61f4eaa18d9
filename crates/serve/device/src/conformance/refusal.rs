//! Calls that a device must refuse: arguments come from foreign processes.

use super::Check;
use super::scene::{Scene, Stop, done, ensure};
use crate::{ContextId, Error, Event, KernelId, Launch, Level, StreamId};

pub(super) const CASES: &[(&str, Check)] = &[
    ("arguments that do not fit their buffers are refused", arguments),
    ("copies into a shorter buffer are refused", short_copy),
    ("unknown ids and levels are refused", unknown),
];

const HUGE: u64 = u64::MAX;

/// A kernel, its arguments, and the bytes of its input and output.
pub(super) type Bad = (&'static str, [u64; 4], usize, usize);

const BAD: &[Bad] = &[
    ("vecadd", [3, 0, 0, 0], 23, 12),
    ("vecadd", [3, 0, 0, 0], 24, 11),
    ("vecadd", [HUGE, 0, 0, 0], 64, 64),
    ("vecadd", [1 << 63, 0, 0, 0], 64, 64),
    ("vecadd", [1 << 61, 0, 0, 0], 64, 64),
    ("vecadd", [1 << 62, 0, 0, 0], 64, 64),
    ("matmul", [3, 0, 0, 0], 71, 36),
    ("matmul", [3, 0, 0, 0], 72, 35),
    ("matmul", [HUGE, 0, 0, 0], 64, 64),
    ("matmul", [1 << 32, 0, 0, 0], 64, 64),
    ("matmul", [1 << 31, 0, 0, 0], 64, 64),
    ("reduce", [5, 0, 0, 0], 19, 8),
    ("reduce", [5, 0, 0, 0], 20, 7),
    ("reduce", [1 << 62, 0, 0, 0], 64, 64),
    ("reduce", [HUGE, 0, 0, 0], 64, 64),
    ("histogram", [4, 0, 0, 0], 16, 64),
    ("histogram", [4, 5, 0, 0], 15, 20),
    ("histogram", [4, 5, 0, 0], 16, 19),
    ("histogram", [4, HUGE, 0, 0], 16, 64),
    ("histogram", [4, 1 << 62, 0, 0], 16, 64),
    ("histogram", [HUGE, 4, 0, 0], 16, 64),
    ("histogram", [1 << 62, 4, 0, 0], 16, 64),
    ("stencil", [4, 4, 0, 0], 63, 64),
    ("stencil", [4, 4, 0, 0], 64, 63),
    ("stencil", [HUGE, HUGE, 0, 0], 64, 64),
    ("stencil", [1 << 32, 1 << 32, 0, 0], 64, 64),
    ("stencil", [1 << 31, 1 << 31, 0, 0], 64, 64),
    ("stencil", [HUGE, 1, 0, 0], 64, 64),
    ("convolution", [4, 4, 0, 0], 99, 64),
    ("convolution", [4, 4, 0, 0], 100, 63),
    ("convolution", [1 << 32, 1 << 32, 0, 0], 128, 64),
    ("convolution", [HUGE, 1, 0, 0], 128, 64),
    ("activation", [4, 4, 0, 0], 79, 64),
    ("activation", [4, 4, 0, 0], 80, 63),
    ("activation", [1 << 32, 1 << 32, 0, 0], 128, 64),
    ("activation", [HUGE, 1, 0, 0], 128, 64),
    ("busy", [HUGE, 0, 0, 0], 0, 0),
];

fn arguments(scene: &Scene) -> Result<(), Stop> {
    all_refused(scene, BAD)
}

/// Checks that none of these does anything, neither when it is checked nor when it is launched.
pub(super) fn all_refused(scene: &Scene, bad: &[Bad]) -> Result<(), Stop> {
    let (stream, event) = (scene.stream(Level(0))?, Event::new());
    for &(kernel, arguments, input, output) in bad {
        let mut launch = scene.order(kernel, arguments)?;
        launch.input = scene.memory(input)?;
        launch.output = scene.memory(output)?;
        let what = || format!("{kernel} {arguments:?} of {input} and {output} bytes");
        let checked = scene.device.check(&launch);
        let launched = scene.device.launch(stream, launch, &event);
        ensure(refused(&checked), || format!("check of {}: {checked:?}", what()))?;
        ensure(launched == checked, || format!("launch of {}: {launched:?}", what()))?;
    }
    ensure(event.query().is_none(), || "refused work has signalled its event".into())?;
    scene.empty(stream, &event)?;
    done(&event).map(|_| ())
}

fn refused(result: &Result<(), Error>) -> bool {
    matches!(result, Err(Error::BadArgument { .. } | Error::ShortBuffer { .. }))
}

fn short_copy(scene: &Scene) -> Result<(), Stop> {
    let (stream, event) = (scene.stream(Level(0))?, Event::new());
    let result = scene.device.copy(stream, scene.memory(9)?, scene.memory(8)?, &event);
    ensure(refused(&result), || format!("{result:?}"))?;
    ensure(event.query().is_none(), || "a refused copy has signalled its event".into())
}

fn unknown(scene: &Scene) -> Result<(), Stop> {
    let device = &scene.device;
    let (stream, event) = (scene.stream(Level(0))?, Event::new());
    let launch = Launch::new(KernelId(u32::MAX), [0; 4]);
    let nobody = Error::UnknownKernel(launch.kernel);
    let is = |result: Result<(), Error>, error: &Error| {
        ensure(result.as_ref() == Err(error), || format!("{result:?} instead of {error:?}"))
    };
    is(device.check(&launch), &nobody)?;
    is(device.launch(stream, launch, &event), &nobody)?;
    ensure(device.kernel("no such kernel").is_none(), || "an invented kernel exists".into())?;

    let levels = device.properties().levels;
    let level = Level(levels);
    let too_high = Error::UnknownLevel { level, levels };
    is(device.create_stream(scene.context, level).map(|_| ()), &too_high)?;
    is(device.set_stream_level(stream, level), &too_high)?;

    for id in [HUGE, stream.0 ^ 1 << 40] {
        let no_stream = Error::UnknownStream(StreamId(id));
        let order = scene.order("empty", [0; 4])?;
        is(device.launch(StreamId(id), order, &event), &no_stream)?;
        is(device.cancel(StreamId(id)), &no_stream)?;
        is(device.destroy_stream(StreamId(id)), &no_stream)?;
        is(device.set_stream_level(StreamId(id), Level(0)), &no_stream)?;
    }
    let no_context = ContextId(HUGE);
    let created = device.create_stream(no_context, Level(0)).map(|_| ());
    is(created, &Error::UnknownContext(no_context))?;
    is(device.destroy_context(no_context), &Error::UnknownContext(no_context))
}
