// product = left right, square matrices of a side of whole tiles, row by row. A group computes a
// tile of 16 x 16, with tiles of both matrices in its own memory. Nothing is beyond a matrix.

@group(0) @binding(0) var<storage, read> left: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<f32>;
@group(0) @binding(2) var<storage, read_write> product: array<f32>;
var<immediate> side: u32;

var<workgroup> a: array<array<f32, 16>, 16>;
var<workgroup> b: array<array<f32, 16>, 16>;

@compute @workgroup_size(16, 16)
fn matmul(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    var sum = 0.0;
    for (var inner = 0u; inner < side; inner += 16u) {
        a[local.y][local.x] = left[id.y * side + inner + local.x];
        b[local.y][local.x] = right[(inner + local.y) * side + id.x];
        workgroupBarrier();
        for (var k = 0u; k < 16u; k++) {
            sum += a[local.y][k] * b[k][local.x];
        }
        workgroupBarrier();
    }
    product[id.y * side + id.x] = sum;
}
