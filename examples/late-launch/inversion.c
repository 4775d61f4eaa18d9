/*
 * Priority inversion in the driver (Figure 11 of "Autonomy Today: Many Delay-Prone Black Boxes").
 *
 *     inversion [--rounds N] [--round-ms T] [--burst-ms B] [--bytes N] [--priorities H,M,L]
 *               [--cpus HIGH,LOW] [--json] [--expect-inversion]
 *
 *   tau1  high priority, on one core: launches a kernel every 200 us
 *   tau2  middle priority, on another core: computes in bursts, and never calls the driver
 *   tau3  low priority, on tau2's core: copies pageable memory
 *
 * tau3 holds the driver's mutexes while it copies. When tau2 takes the core from it, it keeps them,
 * and tau1, on its own free core, waits in its launch until tau2's burst is over. A round is run
 * without tau2's bursts and then with them; the program prints the latencies of tau1's launches.
 *
 * The priorities are SCHED_FIFO. Without the right to set them the threads run at normal priority,
 * which is said: tau2 then takes only its share of the core, so the delay is smaller.
 */
#include "driver_api.h"
#include "kernels_ptx.h"
#include "latency.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LAUNCH_PERIOD_NS = 200000, COPY_PAUSE_NS = 200000 };
enum { WITHOUT, WITH, PHASES };

struct options {
    unsigned rounds, round_ms, burst_ms;
    size_t bytes;
    int priority[3]; /* of tau1, tau2, tau3 */
    int cpu[3];
    bool json, expect_inversion;
};

static struct options options = {
    5, 200, 5, 4194304, {30, 20, 10}, {1, 0, 0}, false, false,
};
static CUcontext context;
static CUfunction saxpy;
static atomic_int phase;
static atomic_bool stop;
static atomic_bool fifo_refused;
static struct latency latency[PHASES]; /* tau1's */

static void check(const char *call, CUresult rc) {
    const char *name = NULL;
    if (rc == CUDA_SUCCESS)
        return;
    cuGetErrorName(rc, &name);
    fprintf(stderr, "inversion: %s: %s (%d)\n", call, name != NULL ? name : "unknown error",
            (int)rc);
    exit(2);
}

#define CHECK(call) check(#call, call)

static void sleep_ns(uint64_t ns) {
    struct timespec pause = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&pause, NULL);
}

/* ---- The three tasks ----------------------------------------------------------------------- */

/* Pins the calling thread first: it must not disturb other cores at its priority. */
static void become(int task) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(options.cpu[task], &cpus);
    int rc = pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    if (rc != 0) {
        fprintf(stderr, "inversion: --cpus: core %d: %s\n", options.cpu[task], strerror(rc));
        exit(2);
    }
    struct sched_param param = {.sched_priority = options.priority[task]};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) != 0)
        atomic_store(&fifo_refused, true);
}

struct launching {
    CUstream stream;
    CUdeviceptr in, inout;
    uint64_t launches;
};

enum { ELEMENTS = 4096, BLOCK = 256, ONE = 0x3f800000 /* 1.0f */ };

static void launch(struct launching *own) {
    unsigned elements = ELEMENTS;
    float factor = 1.0f;
    void *params[] = {&elements, &factor, &own->in, &own->inout};
    int now = atomic_load(&phase);
    uint64_t start_ns = clock_ns();
    CHECK(cuLaunchKernel(saxpy, ELEMENTS / BLOCK, 1, 1, BLOCK, 1, 1, 0, own->stream, params, NULL));
    latency_add(&latency[now], clock_ns() - start_ns);
    own->launches++;
    CHECK(cuStreamSynchronize(own->stream));
}

static void check_sums(const struct launching *own) {
    static float sums[ELEMENTS];
    CHECK(cuMemcpyDtoHAsync_v2(sums, own->inout, sizeof sums, own->stream));
    CHECK(cuStreamSynchronize(own->stream));
    for (int i = 0; i < ELEMENTS; i++) {
        if (sums[i] != (float)own->launches) {
            fprintf(stderr, "inversion: element %d is %g after %llu launches\n", i, sums[i],
                    (unsigned long long)own->launches);
            exit(2);
        }
    }
}

static void *tau1(void *unused) {
    struct launching own = {0};
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&own.stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&own.in, ELEMENTS * sizeof(float)));
    CHECK(cuMemAlloc_v2(&own.inout, ELEMENTS * sizeof(float)));
    CHECK(cuMemsetD32Async(own.in, ONE, ELEMENTS, own.stream));
    CHECK(cuMemsetD32Async(own.inout, 0, ELEMENTS, own.stream));
    CHECK(cuStreamSynchronize(own.stream));
    become(0);
    while (!atomic_load(&stop)) {
        launch(&own);
        sleep_ns(LAUNCH_PERIOD_NS);
    }
    check_sums(&own);
    return unused;
}

static void *tau2(void *unused) {
    become(1);
    while (!atomic_load(&stop)) {
        uint64_t start_ns = clock_ns(), burst_ns = (uint64_t)options.burst_ms * 1000000u;
        while (atomic_load(&phase) == WITH && clock_ns() - start_ns < burst_ns) {
        }
        sleep_ns(burst_ns);
    }
    return unused;
}

static void *tau3(void *unused) {
    CUstream stream;
    CUdeviceptr device;
    unsigned char *host = malloc(options.bytes);
    if (host == NULL) {
        fprintf(stderr, "inversion: no memory for %zu bytes\n", options.bytes);
        exit(2);
    }
    memset(host, 0x5a, options.bytes);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&device, options.bytes));
    become(2);
    while (!atomic_load(&stop)) {
        CHECK(cuMemcpyHtoDAsync_v2(device, host, options.bytes, stream));
        CHECK(cuStreamSynchronize(stream));
        sleep_ns(COPY_PAUSE_NS);
    }
    free(host);
    return unused;
}

/* ---- Command line -------------------------------------------------------------------------- */

static void fail(const char *option, const char *value, const char *expected) {
    fprintf(stderr, "inversion: %s: \"%s\": expected %s\n", option, value, expected);
    exit(2);
}

static unsigned whole(const char *option, const char *text, unsigned least, unsigned most) {
    char expected[64], *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < least ||
        value > most) {
        snprintf(expected, sizeof expected, "a whole number from %u to %u", least, most);
        fail(option, text, expected);
    }
    return (unsigned)value;
}

static void read_priorities(const char *text) {
    int *p = options.priority;
    char rest;
    if (sscanf(text, "%d,%d,%d%c", &p[0], &p[1], &p[2], &rest) != 3 || p[2] < 1 || p[1] <= p[2] ||
        p[0] <= p[1] || p[0] > 98)
        fail("--priorities", text, "three falling numbers from 98 to 1, as in 30,20,10");
}

static void read_cpus(const char *text) {
    int high, low;
    char rest;
    if (sscanf(text, "%d,%d%c", &high, &low, &rest) != 2 || high < 0 || low < 0 || high == low ||
        high >= CPU_SETSIZE || low >= CPU_SETSIZE)
        fail("--cpus", text, "two different cores, as in 1,0");
    options.cpu[0] = high;
    options.cpu[1] = options.cpu[2] = low;
}

static void read_options(int argc, char **argv) {
    static const struct option names[] = {
        {"rounds", required_argument, NULL, 'r'},     {"round-ms", required_argument, NULL, 't'},
        {"burst-ms", required_argument, NULL, 'b'},   {"bytes", required_argument, NULL, 'n'},
        {"priorities", required_argument, NULL, 'p'}, {"cpus", required_argument, NULL, 'c'},
        {"json", no_argument, NULL, 'j'},             {"expect-inversion", no_argument, NULL, 'e'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 'r':
            options.rounds = whole("--rounds", optarg, 1, 100000);
            break;
        case 't':
            options.round_ms = whole("--round-ms", optarg, 10, 60000);
            break;
        case 'b':
            options.burst_ms = whole("--burst-ms", optarg, 1, 1000);
            break;
        case 'n':
            options.bytes = whole("--bytes", optarg, 1, 1u << 30);
            break;
        case 'p':
            read_priorities(optarg);
            break;
        case 'c':
            read_cpus(optarg);
            break;
        case 'j':
            options.json = true;
            break;
        case 'e':
            options.expect_inversion = true;
            break;
        default:
            fprintf(stderr,
                    "usage: inversion [--rounds N] [--round-ms T] [--burst-ms B] [--bytes N] "
                    "[--priorities H,M,L] [--cpus HIGH,LOW] [--json] [--expect-inversion]\n");
            exit(2);
        }
    }
    if (optind < argc)
        fail("argument", argv[optind], "an option");
}

/* ---- The experiment ------------------------------------------------------------------------ */

static void open_device(void) {
    CUdevice device;
    CUmodule module;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, KERNELS_PTX));
    CHECK(cuModuleGetFunction(&saxpy, module, "saxpy"));
}

static void start(pthread_t *thread, void *(*run)(void *)) {
    int rc = pthread_create(thread, NULL, run, NULL);
    if (rc != 0) {
        fprintf(stderr, "inversion: a thread could not be started: %s\n", strerror(rc));
        exit(2);
    }
}

static void run_rounds(void) {
    pthread_t threads[3];
    start(&threads[0], tau1);
    start(&threads[1], tau2);
    start(&threads[2], tau3);
    for (unsigned round = 0; round < options.rounds; round++) {
        for (int now = WITHOUT; now < PHASES; now++) {
            atomic_store(&phase, now);
            sleep_ns((uint64_t)options.round_ms * 1000000u);
        }
    }
    atomic_store(&phase, WITHOUT);
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static void print_report(void) {
    bool fifo = !atomic_load(&fifo_refused);
    if (options.json) {
        printf("{\"program\": \"inversion\", \"sched_fifo\": %s, \"without_tau2\": {",
               fifo ? "true" : "false");
        latency_print_json(&latency[WITHOUT]);
        printf("}, \"with_tau2\": {");
        latency_print_json(&latency[WITH]);
        printf("}}\n");
        return;
    }
    printf("tau1's launches, on a core of its own, while tau3 copies %zu bytes on another (%s):\n",
           options.bytes, fifo ? "SCHED_FIFO" : "normal priorities");
    latency_print("no tau2", &latency[WITHOUT]);
    latency_print("with tau2", &latency[WITH]);
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    open_device();
    run_rounds();
    if (atomic_load(&fifo_refused))
        fprintf(stderr, "inversion: SCHED_FIFO was refused (it needs CAP_SYS_NICE or a limit on "
                        "real-time priority, ulimit -r): the threads ran at normal priority\n");
    print_report();
    /* The maximum alone may be a chance; an inversion shows in several launches of a thousand, but
     * on a busy machine not in one of a hundred. */
    bool inverted = latency_percentile_ns(&latency[WITH], 0.998) >
                    2 * latency_percentile_ns(&latency[WITHOUT], 0.998);
    return options.expect_inversion && !inverted ? 1 : 0;
}
