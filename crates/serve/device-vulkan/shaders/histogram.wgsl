// Counts low.x values, which begin at high.x of the input, into low.y bins, which are zero before.

struct Arguments {
    low: vec4<u32>,
    high: vec4<u32>,
}

@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> bins: array<atomic<u32>>;
@group(0) @binding(2) var<uniform> arguments: Arguments;

@compute @workgroup_size(256)
fn histogram(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arguments.low.x {
        let bin = min(input[arguments.high.x + id.x], arguments.low.y - 1u);
        atomicAdd(&bins[bin], 1u);
    }
}
