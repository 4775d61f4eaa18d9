/* SPDX-License-Identifier: Apache-2.0 OR MIT OR GPL-2.0-only
 *
 * What the scheduler uses of the kernel, and no more. Members are found by name in the running
 * kernel's own type information when the scheduler is loaded (preserve_access_index), so that their
 * order and their neighbours do not matter and no generated vmlinux.h is needed.
 */
#ifndef KEEPTIME_KERNEL_H
#define KEEPTIME_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/types.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define RELOCATED __attribute__((preserve_access_index))

struct sched_ext_entity {
	u32 flags;
	u32 weight; /* 100 is that of nice 0 */
	u64 dsq_vtime;
} RELOCATED;

enum { SCX_TASK_QUEUED = 1 }; /* of flags: the task could run */

struct task_struct {
	struct sched_ext_entity scx;
} RELOCATED;

struct scx_exit_info {
	s64 exit_code;
	const char *reason;
	char *msg;
} RELOCATED;

/* The values are the kernel's own; these only have to have the names. */
enum scx_enq_flags { SCX_ENQ_WAKEUP = 1 };
enum scx_kick_flags { SCX_KICK_PREEMPT = 2 };
enum scx_ops_flags { SCX_OPS_SWITCH_PARTIAL = 8 };

struct scx_init_task_args;

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *task, s32 previous, u64 wake_flags);
	void (*enqueue)(struct task_struct *task, u64 flags);
	void (*dispatch)(s32 core, struct task_struct *previous);
	void (*tick)(struct task_struct *task);
	void (*running)(struct task_struct *task);
	void (*stopping)(struct task_struct *task, bool runnable);
	void (*enable)(struct task_struct *task);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));

struct bpf_iter_scx_dsq {
	__u64 opaque[6];
} __attribute__((aligned(8)));

int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *iterator, u64 queue, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *iterator) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *iterator) __ksym;

s32 scx_bpf_create_dsq(u64 queue, s32 node) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *task, s32 previous, u64 wake_flags, bool *is_idle) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *task) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 queue) __ksym;
u32 scx_bpf_nr_cpu_ids(void) __ksym;
void scx_bpf_kick_cpu(s32 core, u64 flags) __ksym;

/*
 * Two functions had three names each: the first since Linux 6.19, the second from 6.13, the last in
 * 6.12. What follows the last ___ is not part of the kernel's name.
 */
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};
bool __scx_bpf_dsq_insert_vtime(struct task_struct *task, struct scx_bpf_dsq_insert_vtime_args *args)
	__ksym __weak;
void scx_bpf_dsq_insert_vtime(struct task_struct *task, u64 queue, u64 slice, u64 vtime, u64 flags)
	__ksym __weak;
void scx_bpf_dispatch_vtime(struct task_struct *task, u64 queue, u64 slice, u64 vtime, u64 flags)
	__ksym __weak;

bool scx_bpf_dsq_move_to_local___v2___name(u64 queue, u64 flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local(u64 queue) __ksym __weak;
bool scx_bpf_consume(u64 queue) __ksym __weak;

static __always_inline void insert_by_vtime(struct task_struct *task, u64 queue, u64 slice, u64 vtime,
					    u64 flags)
{
	if (bpf_ksym_exists(__scx_bpf_dsq_insert_vtime)) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = queue, .slice = slice, .vtime = vtime, .enq_flags = flags,
		};

		__scx_bpf_dsq_insert_vtime(task, &args);
	} else if (bpf_ksym_exists(scx_bpf_dsq_insert_vtime)) {
		scx_bpf_dsq_insert_vtime(task, queue, slice, vtime, flags);
	} else {
		scx_bpf_dispatch_vtime(task, queue, slice, vtime, flags);
	}
}

static __always_inline bool move_to_local(u64 queue)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___name))
		return scx_bpf_dsq_move_to_local___v2___name(queue, 0);
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local))
		return scx_bpf_dsq_move_to_local(queue);
	return scx_bpf_consume(queue);
}

#endif
