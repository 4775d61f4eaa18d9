// Some rows of max(x + bias, 0): low.x is the width, low.y the rows. These rows begin at high.x of
// the input, the biases of the columns at high.y of it, the results at high.z of the output.

struct Arguments {
    low: vec4<u32>,
    high: vec4<u32>,
}

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
@group(0) @binding(2) var<uniform> arguments: Arguments;

@compute @workgroup_size(256)
fn activation(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let width = arguments.low.x;
    let count = width * arguments.low.y;
    let i = (group.y * groups.x + group.x) * 256u + local;
    if i >= count {
        return;
    }
    let first = arguments.high;
    output[first.z + i] = max(input[first.x + i] + input[first.y + i % width], 0.0);
}
