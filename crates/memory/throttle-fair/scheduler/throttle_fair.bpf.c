// SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
/*
 * Throttle-fair scheduling (BWLOCK++, section IV-C) as a sched_ext scheduler.
 *
 * Each task has a virtual run time V: its run time divided by its weight (equation 1, the weight of
 * nice 0 being 1), to which the time is added, times a factor, for which a core was stopped because
 * of the task (equation 2; divided by the weight too, so that with a factor of 1 stopped time counts
 * as run time does). A core runs the task of its queue with the smallest V.
 *
 * Who regulates a core writes to two places in memory that is mapped into its process. It adds what
 * it charges to `charged_ns` of the task's slot; the task is queued meanwhile, at its old V. And it
 * counts the core's periods in `periods`; a task that was interrupted for that would go on at once.
 * Both are noticed when the core picks its next task: that one is compared with the queue before it
 * has run, at the V that it has now. So every period begins with a decision, none stands
 * on an old V, and nobody has to search a queue.
 *
 * Only tasks that were switched to SCHED_EXT are here (SCX_OPS_SWITCH_PARTIAL): all others, the
 * real-time ones first, stay with the kernel's own schedulers and run ahead of these.
 */
#include "kernel.h"

/* MIT and GPL: the kernel wants a licence that it knows. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum {
	CORES_MAX = 1024,
	SLOTS_MAX = 1024,
	WEIGHT_OF_NICE_0 = 100,
	/*
	 * How long a task runs before it is compared with those that wait. More than a period of a
	 * regulator, at whose begin it is compared too: a task that is to have a period has all of it.
	 */
	SLICE_NS = 5000000,
};

/* One cache line of a task, which the process that loaded the scheduler has mapped. */
struct slot {
	u64 charged_ns; /* written there, with atomic additions; the rest is written here */
	u64 taken_ns;   /* what of it is in V */
	u64 run_ns;
	u64 vtime_ns;
	u64 runs; /* how often it was picked and ran */
	u32 core; /* where it ran last */
	u32 padding[5];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS_MAX);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct task {
	u32 slot; /* 1 and up; 0 has none, and cannot be charged: a child that inherited the policy */
	u32 core; /* whose virtual time V is measured against */
	u32 placed;
	u32 padding;
	u64 vtime_ns;
	u64 taken_ns;
	u64 began_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

/* What is known of each core. */
struct core {
	u64 vtime_ns; /* the V of the task that it picked last: the smallest there, never set back */
	u64 period;   /* the one that it has decided in */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CORES_MAX);
	__type(key, u32);
	__type(value, struct core);
} cores SEC(".maps");

/* How many periods have begun on each core; written by who regulates it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CORES_MAX);
	__type(key, u32);
	__type(value, u64);
} periods SEC(".maps");

/* Why the kernel ended the scheduler, for who loaded it. */
struct ended {
	char reason[128];
	char message[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct ended);
} ended_why SEC(".maps");

static __always_inline bool earlier(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static __always_inline u64 core_vtime(s32 core)
{
	u32 key = core;
	struct core *known = bpf_map_lookup_elem(&cores, &key);

	return known ? known->vtime_ns : 0;
}

static __always_inline struct slot *slot_of(struct task *task)
{
	u32 key = task->slot - 1;

	return task->slot ? bpf_map_lookup_elem(&slots, &key) : NULL;
}

/*
 * The task's own data, its V measured against `core`: one that comes from elsewhere keeps its lead or
 * its lag, and one that is new begins where the core is.
 */
static __always_inline struct task *at(struct task_struct *p, s32 core)
{
	struct task *task = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!task)
		return NULL;
	if (!task->placed) {
		task->placed = 1;
		task->vtime_ns = core_vtime(core);
	} else if (task->core != core) {
		task->vtime_ns += core_vtime(core) - core_vtime(task->core);
	}
	task->core = core;
	return task;
}

static __always_inline u64 weighted(u64 ns, struct task_struct *p)
{
	return ns * WEIGHT_OF_NICE_0 / (p->scx.weight ?: 1);
}

/* Adds to V what was charged since the last time; whether that was anything. */
static __always_inline bool take_charges(struct task *task, struct slot *slot, struct task_struct *p)
{
	u64 charged;

	if (!slot)
		return false;
	charged = *(volatile u64 *)&slot->charged_ns - task->taken_ns;
	if (!charged)
		return false;
	task->taken_ns += charged;
	task->vtime_ns += weighted(charged, p);
	slot->taken_ns = task->taken_ns;
	slot->vtime_ns = task->vtime_ns;
	return true;
}

/* The kernel's own choice, an idle core first. The task goes through that core's queue all the same. */
SEC("struct_ops/select_cpu")
s32 BPF_PROG(select_core, struct task_struct *p, s32 previous, u64 wake_flags)
{
	bool is_idle = false;

	return scx_bpf_select_cpu_dfl(p, previous, wake_flags, &is_idle);
}

SEC("struct_ops/enqueue")
void BPF_PROG(enqueue, struct task_struct *p, u64 flags)
{
	s32 core = scx_bpf_task_cpu(p);
	struct task *task = at(p, core);
	bool woken = flags & bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_WAKEUP);
	u64 vtime = core_vtime(core);

	if (task) {
		take_charges(task, slot_of(task), p);
		/* Who slept does not get back the time for which it did. */
		if (woken && earlier(task->vtime_ns, vtime - SLICE_NS))
			task->vtime_ns = vtime - SLICE_NS;
		vtime = task->vtime_ns;
	}
	insert_by_vtime(p, core, SLICE_NS, vtime, flags);
	/* Who runs is put back and compared with who woke. */
	if (woken)
		scx_bpf_kick_cpu(core, bpf_core_enum_value(enum scx_kick_flags, SCX_KICK_PREEMPT));
}

/* Adds to V, and to what is told of the task, how long it has run since the last time. */
static __always_inline void account(struct task_struct *p, struct task *task)
{
	struct slot *slot = slot_of(task);
	u64 now = bpf_ktime_get_ns();
	u64 ran = now - task->began_ns;

	task->began_ns = now;
	task->vtime_ns += weighted(ran, p);
	if (slot) {
		slot->run_ns += ran;
		slot->vtime_ns = task->vtime_ns;
	}
}

/*
 * Whether the task that runs goes on; it is in no queue. The V of the first in the queue may be old,
 * but only too small: if it was charged, this is seen when it is picked.
 */
static __always_inline bool goes_on(struct task_struct *p, s32 core)
{
	struct task *task = p && p->scx.flags & SCX_TASK_QUEUED ? at(p, core) : NULL;
	struct task_struct *first;
	bool is_first = true;

	if (!task)
		return false;
	account(p, task);
	bpf_for_each(scx_dsq, first, core, 0) {
		is_first = !earlier(first->scx.dsq_vtime, task->vtime_ns);
		break;
	}
	return is_first;
}

/* The core's own queue; if it is empty, whatever another one has that may run here. */
SEC("struct_ops/dispatch")
void BPF_PROG(dispatch, s32 core, struct task_struct *previous)
{
	u32 count = scx_bpf_nr_cpu_ids();
	s32 other;

	if (goes_on(previous, core) || move_to_local(core))
		return;
	bpf_for(other, 0, count)
		if (other != core && move_to_local(other))
			return;
}

/* Whether a period has begun since the core last decided. */
static __always_inline bool new_period(struct core *known, u32 key)
{
	u64 *begun = bpf_map_lookup_elem(&periods, &key);
	u64 period = begun ? *(volatile u64 *)begun : 0;

	if (known->period == period)
		return false;
	known->period = period;
	return true;
}

SEC("struct_ops/running")
void BPF_PROG(running, struct task_struct *p)
{
	s32 core = scx_bpf_task_cpu(p);
	u32 key = core;
	struct task *task = at(p, core);
	struct core *known = bpf_map_lookup_elem(&cores, &key);
	struct slot *slot;
	bool anew, charged;

	if (!task || !known)
		return;
	slot = slot_of(task);
	task->began_ns = bpf_ktime_get_ns();
	charged = take_charges(task, slot, p);
	anew = new_period(known, key);
	if ((charged || anew) && scx_bpf_dsq_nr_queued(core) > 0) {
		/* Its slice ends at once, and it is compared with the queue. */
		scx_bpf_kick_cpu(core, bpf_core_enum_value(enum scx_kick_flags, SCX_KICK_PREEMPT));
		return;
	}
	if (earlier(known->vtime_ns, task->vtime_ns))
		known->vtime_ns = task->vtime_ns;
	if (slot) {
		slot->core = core;
		slot->runs++;
	}
}

SEC("struct_ops/stopping")
void BPF_PROG(stopping, struct task_struct *p, bool runnable)
{
	struct task *task = at(p, scx_bpf_task_cpu(p));

	if (task)
		account(p, task);
}

/* For those who look on: a task that is alone on its core need not stop for long. */
SEC("struct_ops/tick")
void BPF_PROG(tick, struct task_struct *p)
{
	struct task *task = at(p, scx_bpf_task_cpu(p));

	if (task)
		account(p, task);
}

/* A task that comes back to this scheduler begins anew: meanwhile its V stood still. */
SEC("struct_ops/enable")
void BPF_PROG(enable, struct task_struct *p)
{
	struct task *task = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (task)
		task->placed = 0;
}

SEC("struct_ops.s/init")
s32 BPF_PROG(init)
{
	u32 count = scx_bpf_nr_cpu_ids();
	s32 core, error;

	if (count > CORES_MAX)
		return -7; /* E2BIG */
	bpf_for(core, 0, count) {
		error = scx_bpf_create_dsq(core, -1);
		if (error)
			return error;
	}
	return 0;
}

SEC("struct_ops/exit")
void BPF_PROG(ended, struct scx_exit_info *info)
{
	u32 key = 0;
	struct ended *why = bpf_map_lookup_elem(&ended_why, &key);

	if (!why)
		return;
	bpf_probe_read_kernel_str(why->message, sizeof(why->message), info->msg);
	bpf_probe_read_kernel_str(why->reason, sizeof(why->reason), info->reason);
}

SEC(".struct_ops.link")
struct sched_ext_ops throttle_fair = {
	.select_cpu = (void *)select_core,
	.enqueue = (void *)enqueue,
	.dispatch = (void *)dispatch,
	.running = (void *)running,
	.stopping = (void *)stopping,
	.tick = (void *)tick,
	.enable = (void *)enable,
	.init = (void *)init,
	.exit = (void *)ended,
	.flags = SCX_OPS_SWITCH_PARTIAL,
	.timeout_ms = 10000,
	.name = "keeptime_tfs",
};
