// A 3 x 3 convolution of a square matrix, zeros beyond its edge.

@group(0) @binding(0) var<storage, read> matrix: array<f32>;
@group(0) @binding(1) var<storage, read> weights: array<f32>;
@group(0) @binding(2) var<storage, read_write> convolved: array<f32>;
var<immediate> side: u32;

@compute @workgroup_size(16, 16)
fn convolution(@builtin(global_invocation_id) id: vec3<u32>) {
    var sum = 0.0;
    for (var row = 0u; row < 3u; row++) {
        for (var column = 0u; column < 3u; column++) {
            // What would be negative is very large.
            let x = id.x + column - 1u;
            let y = id.y + row - 1u;
            if x < side && y < side {
                sum += weights[row * 3u + column] * matrix[y * side + x];
            }
        }
    }
    convolved[id.y * side + id.x] = sum;
}
