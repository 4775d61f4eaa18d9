// max(x + bias, 0) of a square matrix, with a bias for each column.

@group(0) @binding(0) var<storage, read> matrix: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read_write> activated: array<f32>;
var<immediate> side: u32;

@compute @workgroup_size(16, 16)
fn activation(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.y * side + id.x;
    activated[i] = max(matrix[i] + bias[id.x], 0.0);
}
