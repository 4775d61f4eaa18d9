/*
 * The GPU: streams, which are queues of work, and engines, which are threads that take from them.
 *
 *   caller                          stream                           engines
 *   stream_reserve: waits for room  +------------------------------+
 *   stream_push: writes the slot -> | completed .. submitted       | -> compute, copy, host
 *                                   +------------------------------+
 *
 * The work of a stream runs in order, one piece at a time. The legacy default stream and the other
 * blocking streams wait for each other by the order of submission, as CUDA defines it.
 */
#ifndef GPU_H
#define GPU_H

#include "fake.h"

enum { QUEUE_LENGTH = 1024, KERNEL_PARAM_BYTES = 64 };

/* ---- kernels.c ----------------------------------------------------------------------------- */

/* What one parameter that points to memory will touch; checked when the launch is submitted. */
struct touched {
    CUdeviceptr address;
    size_t bytes;
};
enum { MAX_TOUCHED = 3 };

struct kernel {
    const char *name;
    unsigned params;
    struct {
        unsigned offset, bytes;
    } param[8];
    /* Runs the threads of a block that differ in x only, from the first thread's index on. */
    void (*row)(const unsigned char *params, uint64_t first, unsigned threads);
    /* Writes down what a launch over so many threads touches; returns how many entries. */
    unsigned (*touches)(const unsigned char *params, uint64_t threads, struct touched *touched);
    /* If it is not NULL, it runs a launch of so many blocks as a whole, and there is no row. */
    void (*whole)(const unsigned char *params, const unsigned grid[3]);
};

/* Those of Keeptime's CUDA device, and of its study of submissions; the last ones have no name. In
 * device-kernels.c and submission-kernels.c. */
extern const struct kernel device_kernels[], submission_kernels[];

/* Those of the tests of Keeptime's CUDA device, and of examples/gpu-service. In user-kernels.c. */
extern const struct kernel user_kernels[];

const struct kernel *kernel_named(const char *name);
const char *kernel_names(void);

/* ---- gpu.c --------------------------------------------------------------------------------- */

/* One recording of an event: the event and every stream that waits for it share it. */
struct fence {
    atomic_uint owners;
    atomic_bool done;
    uint64_t time_ns; /* valid once done */
};

struct fence *fence_new(void);
struct fence *fence_share(struct fence *fence);
void fence_release(struct fence *fence);

enum work_kind {
    WORK_EMPTY,   /* nothing, keeps its place */
    WORK_KERNEL,  /* compute engine */
    WORK_FILL,    /* compute engine */
    WORK_COPY,    /* copy engine */
    WORK_HOST,    /* the thread for host functions */
    WORK_RECORD,  /* these take no time: any engine */
    WORK_WAIT,
    WORK_RELEASE, /* of device memory */
    WORK_GRAPH,   /* the engine of its next node */
};

struct graph_exec;

struct work {
    enum work_kind kind;
    union {
        struct {
            const struct kernel *kernel;
            unsigned grid[3], block[3];
            unsigned char params[KERNEL_PARAM_BYTES];
        } kernel;
        struct {
            void *to;
            const void *from;
            size_t bytes;
            bool ends_copy;     /* false for all chunks of a staged copy but the last */
            struct latch *slot; /* cleared when copied, if not NULL */
        } copy;
        struct {
            void *to;
            size_t count;
            unsigned width_bytes;
            uint32_t value;
        } fill;
        struct {
            CUhostFn function;
            void *argument;
        } host;
        struct fence *fence; /* of WORK_RECORD and WORK_WAIT */
        struct {
            void *base;
            size_t bytes;
        } release;
        struct {
            struct graph_exec *exec;
            uint64_t turn; /* launches of one executable graph run one after the other */
            size_t next;   /* node */
        } graph;
    };
};

struct queued {
    uint64_t ticket; /* numbers submissions over all streams */
    struct work work;
};

struct capture;

struct stream {
    uint32_t magic;
    uint64_t id;
    struct context *context;
    unsigned flags;
    int priority; /* 0 is the lowest, LEAST to GREATEST as CUDA numbers them */
    pthread_mutex_t *queue_mutex;
    pthread_rwlock_t *state_rwlock;
    struct waitpoint ended;

    /* Under state_rwlock: what captures this stream, and the nodes that the next one follows. */
    struct capture *capture;
    size_t *frontier;
    size_t frontier_length;

    /* reserved - completed <= QUEUE_LENGTH; slots from completed to submitted are the engines'. */
    atomic_ullong reserved, submitted, completed;
    struct queued *queue;

    /* Under the hardware lock. */
    bool busy;       /* an engine has the head */
    bool retired;    /* to be freed once its work has ended */
    uint64_t served; /* when an engine last took from it; the larger the later */
    struct stream *next;
};

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

bool gpu_start(void);

/* A stream in the engines' list. Retired, it is freed when the last of its work has ended. */
struct stream *gpu_add_stream(struct context *context, unsigned flags, int priority);
void gpu_retire_stream(struct stream *stream);
void gpu_retire_stream_numbered(uint64_t id);
void gpu_retire_streams_of(struct context *context);
bool gpu_is_stream(const struct stream *stream);

/* Whether it went with its context, by a reset. */
bool gpu_was_reset(const struct stream *stream);

/* For a kernel: it breaks its context, or waits until that ends. */
void gpu_break_context(CUresult error);
void gpu_wait_for_end(void);

/* Waits for room in the queue, spinning with sched_yield as a real driver does. */
void stream_reserve(struct stream *stream);

/* Puts work into a slot that was reserved; the caller holds the queue's mutex. */
uint64_t stream_push(struct stream *stream, const struct work *work);

/* The ticket of the latest submission to any stream. */
uint64_t gpu_latest_ticket(void);

/* True if no work with this ticket or an earlier one is pending in the context's streams. */
bool gpu_passed(const struct context *context, uint64_t ticket, bool blocking_streams_only);

uint64_t now_ns(void);

/* ---- stream.c ------------------------------------------------------------------------------ */

/* The stream that a handle names; the null handle is the legacy or the per-thread one. */
enum null_stream { LEGACY, PER_THREAD };
CUresult use_stream(struct context *context, CUstream handle, enum null_stream null,
                    struct stream **stream, bool *capturing);

/* Through the channel into the stream's queue; the only way for work but a staged copy's. */
void submit(struct stream *stream, const struct work *work);
void submit_reserved(struct stream *stream, const struct work *work);

/* Counts a submission in the context. */
void track(struct context *context);

/* Waits for all work that the stream held at the call. */
void stream_drain(struct stream *stream);

/* ---- capture.c, graph.c -------------------------------------------------------------------- */

/* Adds the work to the graph of the stream's capture. */
CUresult capture_work(struct stream *stream, const struct work *work);

/* After a call that a capturing stream does not allow. */
void capture_invalidate(struct stream *stream);

/* What the engines need of an executable graph. */
size_t exec_nodes(const struct graph_exec *exec);
const struct work *exec_work(const struct graph_exec *exec, size_t node);
bool exec_turn(const struct graph_exec *exec, uint64_t turn);
void exec_launch_ended(struct graph_exec *exec);

#endif
