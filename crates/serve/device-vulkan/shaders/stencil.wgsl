// Some rows of one step of a five-point stencil: low.x is the width, low.y the rows to compute.
// At high.x of the input these rows begin and the ones beside them: one above unless low.z (they
// are the first ones of the grid), one below unless low.w (they are the last ones). The results
// begin at high.z of the output.

struct Arguments {
    low: vec4<u32>,
    high: vec4<u32>,
}

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
@group(0) @binding(2) var<uniform> arguments: Arguments;

@compute @workgroup_size(256)
fn stencil(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let width = arguments.low.x;
    let rows = arguments.low.y;
    let first = arguments.low.z != 0u;
    let last = arguments.low.w != 0u;
    let i = (group.y * groups.x + group.x) * 256u + local;
    if i >= width * rows {
        return;
    }
    let x = i % width;
    let y = i / width;
    let at = arguments.high.x + select(i + width, i, first);
    let edge = x == 0u || x == width - 1u || (first && y == 0u) || (last && y == rows - 1u);
    var value = input[at];
    if !edge {
        let vertical = input[at - width] + input[at + width];
        let horizontal = input[at - 1u] + input[at + 1u];
        value = (value + vertical + horizontal) * 0.2;
    }
    output[arguments.high.z + i] = value;
}
