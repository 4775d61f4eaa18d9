//! Files that are wrong: text in, error text out.

use system::System;

const BAD: &[(&str, &str)] = &[
    (
        "kapa: 3\n",
        "bad.yaml:1:1: kapa: unknown key; expected one of time_unit, kappa, epsilon, sigma, hop, accelerators, executors, services, server, ros, chains, graph",
    ),
    (
        "kappa: 1 us
kappa: 2 us
",
        r#"bad.yaml:2:1: duplicate key "kappa"; first on line 1"#,
    ),
    (
        "kappa: [1\n",
        "bad.yaml:2:1: not YAML or JSON: while parsing a flow sequence, expected ',' or ']'",
    ),
    (
        "chains:
\t- id: x
",
        "bad.yaml:2:2: not YAML or JSON: tabs disallowed within this context (block indentation)",
    ),
    (
        "kappa: \"1\n",
        "bad.yaml:1:8: not YAML or JSON: while scanning a quoted scalar, found unexpected end of stream",
    ),
    (
        "- kappa\n",
        r#"bad.yaml:1:1: the file: found ["kappa"], expected a mapping with the keys time_unit, kappa, epsilon, sigma, hop, accelerators, executors, services, server, ros, chains, graph"#,
    ),
    (
        "just words\n",
        r#"bad.yaml:1:1: the file: found "just words", expected a mapping with the keys time_unit, kappa, epsilon, sigma, hop, accelerators, executors, services, server, ros, chains, graph"#,
    ),
    (
        "kappa: 1 us
---
kappa: 2 us
",
        "bad.yaml:2:1: a second document; expected one document in the file",
    ),
    (
        "{[a]: 1}\n",
        "bad.yaml:1:2: a list or mapping as a key; expected a name",
    ),
    (
        "kappa: *nowhere\n",
        "bad.yaml:1:8: not YAML or JSON: while parsing node, found unknown anchor",
    ),
    (
        "kappa: -1\n",
        r#"bad.yaml:1:8: kappa: found "-1", expected a time such as "10 ms" (ns, us, ms, s)"#,
    ),
    (
        "kappa: 1.5\n",
        r#"bad.yaml:1:8: kappa: found "1.5", expected a number with its unit: "1.5us" or "1.5ms""#,
    ),
    (
        "time_unit: ms\nkappa: 1.5\n",
        r#"bad.yaml:2:8: kappa: found "1.5", expected a time such as "10 ms" (ns, us, ms, s) or a whole number of ms"#,
    ),
    (
        "chains: [{id: x, priority: 1, period: 500}]\n",
        r#"bad.yaml:1:39: chains[0].period: found "500", expected a number with its unit: "500us" or "500ms""#,
    ),
    (
        "server: {limits: {memory: 64}}\n",
        r#"bad.yaml:1:27: server.limits.memory: found "64", expected a number with its unit: "64KiB" or "64MiB""#,
    ),
    (
        "kappa: 10 minutes\n",
        r#"bad.yaml:1:8: kappa: found "10 minutes", expected a time such as "10 ms" (ns, us, ms, s)"#,
    ),
    (
        "kappa: 0.5 ns\n",
        r#"bad.yaml:1:8: kappa: found "0.5 ns", expected a whole number of nanoseconds"#,
    ),
    (
        "kappa: 18446744073709551616 ns\n",
        r#"bad.yaml:1:8: kappa: found "18446744073709551616 ns", expected a time of at most 9007199254740992 ns (104 days)"#,
    ),
    (
        "kappa: {a: 1}\n",
        r#"bad.yaml:1:8: kappa: found a mapping, expected a time such as "10 ms""#,
    ),
    (
        "time_unit: h\n",
        r#"bad.yaml:1:12: time_unit: found "h", expected ns or us or ms or s"#,
    ),
    (
        "accelerators: gpu0\n",
        r#"bad.yaml:1:15: accelerators: found "gpu0", expected a list"#,
    ),
    (
        "accelerators: [gpu0]\n",
        r#"bad.yaml:1:16: accelerators[0]: found "gpu0", expected a mapping with the keys id, buckets, bucket_from, device, cores, concurrent_lowest, spin, blocks_per_slice, slices_at_once, provider, kernels"#,
    ),
    (
        "accelerators: [{id: gpu0}]\n",
        "bad.yaml:1:16: accelerators[0].buckets: missing key",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 0}]\n",
        r#"bad.yaml:1:36: accelerators[0].buckets: found "0", expected a whole number from 1 to 64"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 65}]\n",
        r#"bad.yaml:1:36: accelerators[0].buckets: found "65", expected a whole number from 1 to 64"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6.0}]\n",
        r#"bad.yaml:1:36: accelerators[0].buckets: found "6.0", expected a whole number from 1 to 64"#,
    ),
    (
        "accelerators: [{id: \"\", buckets: 6}]\n",
        r#"bad.yaml:1:21: accelerators[0].id: found "", expected a name of 1 to 64 bytes of visible characters, without outer spaces"#,
    ),
    (
        "accelerators: [{id: \"a\\nb\", buckets: 6}]\n",
        r#"bad.yaml:1:21: accelerators[0].id: found "a\nb", expected a name of 1 to 64 bytes of visible characters, without outer spaces"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6, device: cuda}]\n",
        r#"bad.yaml:1:47: accelerators[0].device: found "cuda", expected cpu, cuda:N, vulkan:N or onnx"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6, device: \"cuda:x\"}]\n",
        r#"bad.yaml:1:47: accelerators[0].device: found "cuda:x", expected cpu, cuda:N, vulkan:N or onnx"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6, spin: true}]\n",
        r#"bad.yaml:1:45: accelerators[0].spin: found "true", expected spin only with device cuda:N or vulkan:N"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: 'vulkan:0', blocks_per_slice: 8}]\n",
        r#"bad.yaml:1:74: accelerators[0].blocks_per_slice: found "8", expected blocks_per_slice only with device cuda:N"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: onnx, slices_at_once: 8}]\n",
        r#"bad.yaml:1:66: accelerators[0].slices_at_once: found "8", expected slices_at_once only with device cuda:N"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: 'cuda:0', slices_at_once: 0}]\n",
        r#"bad.yaml:1:70: accelerators[0].slices_at_once: found "0", expected a whole number from 1 to 64"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: 'cuda:0', blocks_per_slice: -1}]\n",
        r#"bad.yaml:1:72: accelerators[0].blocks_per_slice: found "-1", expected a whole number from 0 to 4294967295"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: 'cuda:0', kernels: [{name: x, code: y, function: f, in_place: 1}]}]\n",
        r#"bad.yaml:1:106: accelerators[0].kernels[0].in_place: found "1", expected true or false"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: onnx, kernels: [{name: x, code: y}]}]\n",
        r#"bad.yaml:1:70: accelerators[0].kernels[0].code: unknown key; expected one of name, model, batch"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: onnx, kernels: [{name: x, model: y}, {name: x, model: z}]}]\n",
        r#"bad.yaml:1:88: accelerators[0].kernels[1].name: found "x", expected every name once"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: 'cuda:0', kernels: [{name: x, code: y, function: f, input: [1]}]}]\n",
        r#"bad.yaml:1:103: accelerators[0].kernels[0].input: found ["1"], expected [BYTES, BYTES OF EACH ITEM]"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: 'cuda:0', kernels: [{name: x, library: y, threads: 3}]}]\n",
        r#"bad.yaml:1:86: accelerators[0].kernels[0].threads: unknown key; expected one of name, library, configuration, input, output"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: 'vulkan:0', kernels: [{name: x, shader: y, entry: main, groups: [1, 1, 1], items_per_group: 2}]}]\n",
        r#"bad.yaml:1:136: accelerators[0].kernels[0].items_per_group: found "2", expected groups or items_per_group, not both"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: 'vulkan:0', kernels: [{name: x, shader: y, entry: main, groups: [1, 0, 1]}]}]\n",
        r#"bad.yaml:1:112: accelerators[0].kernels[0].groups[1]: found "0", expected a whole number from 1 to 65535"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, provider: 'cuda:0'}]\n",
        r#"bad.yaml:1:46: accelerators[0].provider: found "cuda:0", expected provider only with device onnx"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, device: onnx, provider: 'vulkan:0'}]\n",
        r#"bad.yaml:1:60: accelerators[0].provider: found "vulkan:0", expected cpu or cuda:N"#,
    ),
    (
        "accelerators: [{id: a, buckets: 6, kernels: [{name: x}]}]\n",
        r#"bad.yaml:1:46: accelerators[0].kernels[0]: found a mapping, expected kernels only with device cuda:N, vulkan:N or onnx"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6, cores: [0, 0]}]\n",
        r#"bad.yaml:1:50: accelerators[0].cores[1]: found "0", expected every core once"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 3, bucket_from: [0, 5]}]\n",
        r#"bad.yaml:1:52: accelerators[0].bucket_from: found ["0", "5"], expected one priority for each of 3 buckets"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 2, bucket_from: [1, 5]}]\n",
        r#"bad.yaml:1:53: accelerators[0].bucket_from[0]: found "1", expected 0, so that all have a bucket"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 3, bucket_from: [0, 5, 5]}]\n",
        r#"bad.yaml:1:59: accelerators[0].bucket_from[2]: found "5", expected more than 5, from which the bucket below is"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 2, bucket_from: [0, 5]}]
executors: [{id: e, core: 0, priority: 1}]
chains:
- {id: c, priority: 5, period: 1 us, bucket: {gpu0: 0}, callbacks: [{id: a, executor: e, segments: [{accel: gpu0, exec: 1 us}]}]}
",
        r#"bad.yaml:4:53: chains[0].bucket.gpu0: found "0", expected 1, which bucket_from of "gpu0" says"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6, cores: 0}]\n",
        r#"bad.yaml:1:46: accelerators[0].cores: found "0", expected a list"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6, concurrent_lowest: yes}]\n",
        r#"bad.yaml:1:58: accelerators[0].concurrent_lowest: found "yes", expected true or false"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6, units: 2}]\n",
        "bad.yaml:1:39: accelerators[0].units: unknown key; expected one of id, buckets, bucket_from, device, cores, concurrent_lowest, spin, blocks_per_slice, slices_at_once, provider, kernels",
    ),
    (
        "accelerators:
- {id: gpu0, buckets: 6}
- {id: gpu0, buckets: 2}
",
        r#"bad.yaml:3:8: accelerators[1].id: found "gpu0", expected a name of its own; accelerators[0] has it"#,
    ),
    (
        "executors: [{id: e1, core: 1024, priority: 1}]\n",
        r#"bad.yaml:1:28: executors[0].core: found "1024", expected a whole number from 0 to 1023"#,
    ),
    (
        "executors: [{id: e1, core: 0, priority: 100}]\n",
        r#"bad.yaml:1:41: executors[0].priority: found "100", expected a whole number from 0 to 99"#,
    ),
    (
        "executors: [{id: e1, core: 0}]\n",
        "bad.yaml:1:13: executors[0].priority: missing key",
    ),
    (
        "executors:
- {id: e1, core: 0, priority: 7}
- {id: e2, core: 0, priority: 7}
",
        r#"bad.yaml:3:31: executors[1].priority: found "7", expected a priority of its own on core 0; "e1" has it"#,
    ),
    (
        "executors:
- {id: e1, core: 0, priority: 0}
- {id: e1, core: 1, priority: 0}
",
        r#"bad.yaml:3:8: executors[1].id: found "e1", expected a name of its own; executors[0] has it"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, perod: 1, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        "bad.yaml:4:39: chains[0].perod: unknown key; expected one of id, priority, period, deadline, jitter, wait, best_effort, bucket, callbacks",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        "bad.yaml:4:3: chains[0].period: missing key",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 0, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:32: chains[0].period: found "0", expected a time above 0"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, deadline: 0, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:49: chains[0].deadline: found "0", expected a time above 0"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, deadline: 11 ms, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:49: chains[0].deadline: found "11 ms", expected at most the period, 10 ms"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 9007199254740993 ns, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:32: chains[0].period: found "9007199254740993 ns", expected a time of at most 9007199254740992 ns (104 days)"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, cpu: 9007200 s}]}
",
        r#"bad.yaml:4:78: chains[0].callbacks[0].cpu: found "9007200 s", expected a time of at most 9007199254740992 ns (104 days)"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, segments: [{accel: gpu0, exec: 9007199254741 us}]}]}
",
        r#"bad.yaml:4:104: chains[0].callbacks[0].segments[0].exec: found "9007199254741 us", expected a time of at most 9007199254740992 ns (104 days)"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, jitter: 11 ms, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        "bad.yaml:4:47: chains[0].jitter: found 11 ms, expected at most the period, 10 ms",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, jitter: -1, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:47: chains[0].jitter: found "-1", expected a time such as "10 ms" (ns, us, ms, s)"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, cpu: 5 us, segments: [{accel: gpu0, exec: 1 us, cpu_before: 6 us}]}]}
",
        "bad.yaml:4:133: chains[0].callbacks[0].segments[0].cpu_before: found 6 us, expected at most cpu, 5 us",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, cpu: 5 us, segments: [{accel: gpu0, exec: 1 us, cpu_before: 3 us}, {accel: gpu0, exec: 1 us, cpu_before: 3 us}]}]}
",
        "bad.yaml:4:178: chains[0].callbacks[0].segments[1].cpu_before: found 6 us up to here, expected at most cpu, 5 us",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, cpu: 5 us, cpu_min: 2 us, segments: [{accel: gpu0, exec: 1 us, cpu_before: 3 us}]}]}
",
        "bad.yaml:4:148: chains[0].callbacks[0].segments[0].cpu_before: found 3 us, expected at most cpu_min, 2 us",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, segments: [{accel: gpu0, exec: 1 us, exec_max: 3}]}]}
",
        "bad.yaml:4:110: chains[0].callbacks[0].segments[0].exec_max: unknown key; expected one of accel, exec, exec_min, cpu_before, service",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, wait: sleep, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:45: chains[0].wait: found "sleep", expected suspend or spin"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, best_effort: maybe, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:52: chains[0].best_effort: found "maybe", expected true or false"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, bucket: {gpu0: 6}, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:54: chains[0].bucket.gpu0: found "6", expected a bucket from 0 to 5 of "gpu0""#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, bucket: {gpu1: 0}, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:54: chains[0].bucket.gpu1: found "gpu1", expected one of the accelerators: "gpu0""#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, bucket: 3, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:47: chains[0].bucket: found "3", expected a mapping"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: []}
",
        "bad.yaml:4:50: chains[0].callbacks: found [], expected at least one callback",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1}]}
",
        "bad.yaml:4:51: chains[0].callbacks[0]: found a mapping, expected a cpu time above 0 or at least one segment",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e2, cpu: 1 us}]}
",
        r#"bad.yaml:4:69: chains[0].callbacks[0].executor: found "e2", expected one of the executors: "e1""#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, cpu: 1 us, cpu_min: 2 us}]}
",
        "bad.yaml:4:93: chains[0].callbacks[0].cpu_min: found 2 us, expected at most cpu, 1 us",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, cpu: 1 us}, {id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:4:90: chains[0].callbacks[1].id: found "c", expected a name of its own in the chain"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, segments: [{accel: gpu1, exec: 1 us}]}]}
",
        r#"bad.yaml:4:92: chains[0].callbacks[0].segments[0].accel: found "gpu1", expected one of the accelerators: "gpu0""#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, segments: [{accel: gpu0, exec: 0}]}]}
",
        r#"bad.yaml:4:104: chains[0].callbacks[0].segments[0].exec: found "0", expected a time above 0"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, segments: [{accel: gpu0, exec: 1 us, exec_min: 2 us}]}]}
",
        "bad.yaml:4:120: chains[0].callbacks[0].segments[0].exec_min: found 2 us, expected at most exec, 1 us",
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, segments: [{accel: gpu0, exec: 1 us, service: s}]}]}
",
        r#"bad.yaml:4:119: chains[0].callbacks[0].segments[0].service: found "s", expected one of the services, but the file has none"#,
    ),
    (
        "services: [{name: s, accelerator: npu0, kernel: busy}]
accelerators: [{id: gpu0, buckets: 6}, {id: npu0, buckets: 1}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, segments: [{accel: gpu0, exec: 1 us, service: s}]}]}
",
        r#"bad.yaml:5:119: chains[0].callbacks[0].segments[0].service: found "s", expected a service of "gpu0"; this one belongs to "npu0""#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
- {id: x, priority: 2, period: 10 us, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:5:8: chains[1].id: found "x", expected a name of its own; chains[0] has it"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
- {id: y, priority: 1, period: 10 us, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:5:21: chains[1].priority: found "1", expected a priority of its own; "x" has it"#,
    ),
    (
        "accelerators: [{id: gpu0, buckets: 6}]
executors: [{id: e1, core: 2, priority: 9}]
chains:
- {id: x, priority: 1, period: 10 ms, bucket: {gpu0: 3}, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
- {id: y, priority: 2, period: 10 us, bucket: {gpu0: 2}, callbacks: [{id: c, executor: e1, cpu: 1 us}]}
",
        r#"bad.yaml:5:54: chains[1].bucket.gpu0: found "2", expected at least 3, the bucket of "x", whose priority 1 is below 2"#,
    ),
    (
        "executors: [{id: e1, core: 0, priority: 1}]
chains: [{id: x, priority: 1, period: 1 us, callbacks: [{id: c, executor: e1, segments: [{accel: gpu0, exec: 1 us}]}]}]
",
        r#"bad.yaml:2:98: chains[0].callbacks[0].segments[0].accel: found "gpu0", expected one of the accelerators, but the file has none"#,
    ),
    (
        "services: [{name: s, accelerator: gpu0, kernel: busy}]\n",
        r#"bad.yaml:1:35: services[0].accelerator: found "gpu0", expected one of the accelerators, but the file has none"#,
    ),
    (
        "accelerators: [{id: a, buckets: 1}]
services: [{name: s, accelerator: a, kernel: busy, arguments: [1, 2, 3, 4, 5]}]
",
        "bad.yaml:2:63: services[0].arguments: found a list of 5, expected at most 4 arguments",
    ),
    (
        "accelerators: [{id: a, buckets: 1}]
services: [{name: s, accelerator: a, kernel: busy, arguments: [18446744073709551616]}]
",
        r#"bad.yaml:2:64: services[0].arguments[0]: found "18446744073709551616", expected a whole number below 2^64"#,
    ),
    (
        "server: {mode: \"0990\"}\n",
        r#"bad.yaml:1:16: server.mode: found "0990", expected octal permissions up to "0777", such as "0660""#,
    ),
    (
        "server: {mode: 01777}\n",
        r#"bad.yaml:1:16: server.mode: found "01777", expected octal permissions up to "0777", such as "0660""#,
    ),
    (
        "server: {policy: random}\n",
        r#"bad.yaml:1:18: server.policy: found "random", expected priority or fifo or timeslice"#,
    ),
    (
        "server: {slice: 0}\n",
        r#"bad.yaml:1:17: server.slice: found "0", expected a time above 0"#,
    ),
    (
        "server: {priority: 100}\n",
        r#"bad.yaml:1:20: server.priority: found "100", expected a whole number from 0 to 99"#,
    ),
    (
        "server: {socket: \"\"}\n",
        r#"bad.yaml:1:18: server.socket: found "", expected a path of 1 to 107 bytes"#,
    ),
    (
        "server: {overrun: kill}\n",
        r#"bad.yaml:1:19: server.overrun: found "kill", expected count or demote"#,
    ),
    (
        "server: {admission: maybe}\n",
        r#"bad.yaml:1:21: server.admission: found "maybe", expected enforce or report or off"#,
    ),
    (
        "server: {analysis: published}\n",
        r#"bad.yaml:1:20: server.analysis: found "published", expected tight or sound"#,
    ),
    (
        "server: {calibration: \"\"}\n",
        r#"bad.yaml:1:23: server.calibration: found "", expected the path of a file"#,
    ),
    (
        "server: {bandwidth_socket: \"\"}\n",
        r#"bad.yaml:1:28: server.bandwidth_socket: found "", expected a path of 1 to 107 bytes"#,
    ),
    (
        "services: [{name: s, accelerator: gpu0, kernel: busy, bandwidth_lock: always}]\n",
        r#"bad.yaml:1:71: services[0].bandwidth_lock: found "always", expected true or false"#,
    ),
    (
        "server: {limits: {sessions: 0}}\n",
        r#"bad.yaml:1:29: server.limits.sessions: found "0", expected a whole number from 1 to 65536"#,
    ),
    (
        "server: {limits: {memory: 64 MB}}\n",
        r#"bad.yaml:1:27: server.limits.memory: found "64 MB", expected a size such as "64 MiB" (B, KiB, MiB, GiB)"#,
    ),
    (
        "server: {limits: {memory: 1 KiB}}\n",
        r#"bad.yaml:1:27: server.limits.memory: found "1 KiB", expected 4 KiB to 1024 GiB"#,
    ),
    (
        "server: {access: [{priority: [0, 1]}]}\n",
        "bad.yaml:1:19: server.access[0]: found a mapping, expected either a user or a group",
    ),
    (
        "server: {access: [{user: a, group: b, priority: [0, 1]}]}\n",
        "bad.yaml:1:19: server.access[0]: found a mapping, expected either a user or a group",
    ),
    (
        "server: {access: [{user: a, priority: [2, 1]}]}\n",
        r#"bad.yaml:1:39: server.access[0].priority: found ["2", "1"], expected two numbers, [least, greatest]"#,
    ),
    (
        "server: {access: [{user: a, priority: 2}]}\n",
        r#"bad.yaml:1:39: server.access[0].priority: found "2", expected a list"#,
    ),
    (
        "server: {access: [{user: a}]}\n",
        "bad.yaml:1:19: server.access[0].priority: missing key",
    ),
    (
        "server: {access: [{user: a, priority: [0, 1], declare: some}]}\n",
        r#"bad.yaml:1:56: server.access[0].declare: found "some", expected true, false, or percents of accelerators such as {gpu0: 25}"#,
    ),
    (
        "server: {access: [{user: a, priority: [0, 1], declare: {gpu0: 101}}]}\n",
        r#"bad.yaml:1:63: server.access[0].declare.gpu0: found "101", expected a whole number from 0 to 100"#,
    ),
    (
        "server: {access: [{user: a, priority: [0, 1], declare: {gpu0: 10}}]}\n",
        r#"bad.yaml:1:63: server.access[0].declare.gpu0: found "gpu0", expected one of the accelerators, but the file has none"#,
    ),
    (
        "server: {limits: {control_percent: 0}}\n",
        r#"bad.yaml:1:36: server.limits.control_percent: found "0", expected a whole number from 1 to 100"#,
    ),
    (
        r##"{"accelerators": [{"id": "gpu0",
  "buckets": 6,
  "bukets": 6}]}
"##,
        "bad.yaml:3:3: accelerators[0].bukets: unknown key; expected one of id, buckets, bucket_from, device, cores, concurrent_lowest, spin, blocks_per_slice, slices_at_once, provider, kernels",
    ),
    (
        "{\"kappa\": 1 us\n",
        "bad.yaml:2:1: not YAML or JSON: while parsing a flow mapping, did not find expected ',' or '}'",
    ),
];

#[test]
fn every_mistake_has_its_message() {
    let mut wrong = Vec::new();
    for (text, expected) in BAD {
        let found = match System::parse(text, "bad.yaml") {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        if found != *expected {
            wrong.push(format!("{text}found:    {found}\nexpected: {expected}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
