// Some rows of a 3 x 3 convolution, zeros beyond the edge of the grid: low.x is the width, low.y
// the rows to compute. At high.x of the input these rows begin and the ones beside them: one above
// unless low.z (they are the first ones of the grid), one below unless low.w (they are the last
// ones). The filter begins at high.y of it, row by row; the results begin at high.z of the output.

struct Arguments {
    low: vec4<u32>,
    high: vec4<u32>,
}

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
@group(0) @binding(2) var<uniform> arguments: Arguments;

@compute @workgroup_size(256)
fn convolution(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let width = arguments.low.x;
    let rows = arguments.low.y;
    let above = select(1u, 0u, arguments.low.z != 0u);
    let below = select(1u, 0u, arguments.low.w != 0u);
    let i = (group.y * groups.x + group.x) * 256u + local;
    if i >= width * rows {
        return;
    }
    let loaded = above + rows + below;
    let first = arguments.high;
    let x = i % width;
    let y = i / width + above;
    var sum = 0.0;
    for (var row = 0u; row < 3u; row++) {
        for (var column = 0u; column < 3u; column++) {
            // What would be negative is very large.
            let at_x = x + column - 1u;
            let at_y = y + row - 1u;
            if at_x < width && at_y < loaded {
                let weight = input[first.y + row * 3u + column];
                sum += weight * input[first.x + at_y * width + at_x];
            }
        }
    }
    output[first.z + i] = sum;
}
