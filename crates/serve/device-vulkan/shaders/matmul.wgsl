// A strip of C = A B: low.x is n, low.y the rows of the strip. These rows of A begin at high.x of
// the input, B at high.y of it, the rows of C at high.z of the output. A group computes a tile of
// 16 x 16.

struct Arguments {
    low: vec4<u32>,
    high: vec4<u32>,
}

@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
@group(0) @binding(2) var<uniform> arguments: Arguments;

var<workgroup> a: array<array<f32, 16>, 16>;
var<workgroup> b: array<array<f32, 16>, 16>;

@compute @workgroup_size(16, 16)
fn matmul(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let n = arguments.low.x;
    let rows = arguments.low.y;
    let row = group.y * 16u + local.y;
    let column = group.x * 16u + local.x;
    var sum = 0.0;
    for (var inner = 0u; inner < n; inner += 16u) {
        var from_a = 0.0;
        if row < rows && inner + local.x < n {
            from_a = input[arguments.high.x + row * n + inner + local.x];
        }
        a[local.y][local.x] = from_a;
        var from_b = 0.0;
        if column < n && inner + local.y < n {
            from_b = input[arguments.high.y + (inner + local.y) * n + column];
        }
        b[local.y][local.x] = from_b;
        workgroupBarrier();
        for (var k = 0u; k < 16u; k++) {
            sum += a[local.y][k] * b[k][local.x];
        }
        workgroupBarrier();
    }
    if row < rows && column < n {
        output[arguments.high.z + row * n + column] = sum;
    }
}
