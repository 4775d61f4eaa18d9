// c[i] = a[i] + b[i] for low.x elements; a and then b are the input.

struct Arguments {
    low: vec4<u32>,
    high: vec4<u32>,
}

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
@group(0) @binding(2) var<uniform> arguments: Arguments;

@compute @workgroup_size(256)
fn vecadd(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = arguments.low.x;
    if id.x < n {
        output[id.x] = input[id.x] + input[n + id.x];
    }
}
