// low.x dependent steps of integer arithmetic (xorshift) in one invocation.

struct Arguments {
    low: vec4<u32>,
    high: vec4<u32>,
}

@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@group(0) @binding(2) var<uniform> arguments: Arguments;

@compute @workgroup_size(1)
fn busy() {
    var x = arguments.low.x | 1u;
    for (var i = 0u; i < arguments.low.x; i++) {
        x ^= x << 13u;
        x ^= x >> 17u;
        x ^= x << 5u;
    }
    // Written, so that no compiler leaves the loop out.
    result[0] = x;
}
