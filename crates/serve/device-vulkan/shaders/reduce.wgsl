// Sums of 4096 elements each, in double precision: one for each group. low.x is the number of
// elements, which begin at high.x of the input. The order of the additions is fixed.

struct Arguments {
    low: vec4<u32>,
    high: vec4<u32>,
}

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> sums: array<f64>;
@group(0) @binding(2) var<uniform> arguments: Arguments;

var<workgroup> parts: array<f64, 256>;

@compute @workgroup_size(256)
fn reduce(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let n = arguments.low.x;
    var sum = f64(0.0);
    for (var i = 0u; i < 16u; i++) {
        let at = group.x * 4096u + i * 256u + local;
        if at < n {
            sum += f64(input[arguments.high.x + at]);
        }
    }
    parts[local] = sum;
    workgroupBarrier();
    for (var width = 128u; width > 0u; width >>= 1u) {
        if local < width {
            parts[local] += parts[local + width];
        }
        workgroupBarrier();
    }
    if local == 0u {
        sums[group.x] = parts[0];
    }
}
