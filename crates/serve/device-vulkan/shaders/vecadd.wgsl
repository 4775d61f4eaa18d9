// c[i] = a[i] + b[i] for low.x elements: a begins at high.x of the input, b at high.y of it, c at
// high.z of the output.

struct Arguments {
    low: vec4<u32>,
    high: vec4<u32>,
}

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
@group(0) @binding(2) var<uniform> arguments: Arguments;

@compute @workgroup_size(256)
fn vecadd(@builtin(global_invocation_id) id: vec3<u32>) {
    let first = arguments.high;
    if id.x < arguments.low.x {
        output[first.z + id.x] = input[first.x + id.x] + input[first.y + id.x];
    }
}
