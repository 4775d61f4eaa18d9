// Does nothing.

@compute @workgroup_size(1)
fn empty() {}
