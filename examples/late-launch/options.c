/* The command line of both forms of Algorithm 2. */
#include "experiment.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: %s [options]\n"
    "Threads that copy to the GPU and threads that launch kernels; how long do the calls take?\n"
    "\n"
    "  --copy-threads M     threads that copy (default 1)\n"
    "  --launch-threads N   threads that launch (default 1)\n"
    "  --launch-priority P  SCHED_FIFO priority of the threads that launch (default: none)\n"
    "  --launch-period US   microseconds from one launch of a thread to its next (default: none)\n"
    "  --copy-period US     the same for copies\n"
    "  --seconds S          how long (default 5, or until the iterations are done, if given)\n"
    "  --iterations N       calls of each thread (default: until the time is over)\n"
    "  --bytes B            bytes of one copy, a multiple of 4 (default 4194304)\n"
    "  --buffers N          pieces of memory that a thread copies from in turn (default 1)\n"
    "  --pinned             copy from pinned memory (default: pageable)\n"
    "  --grid N             blocks of a launch (default 16)\n"
    "  --block N            threads of a block (default 256)\n"
    "  --sync-every N       synchronise after every N calls, untimed; 0: never (default 64)\n"
    "  --sync-each          the same as --sync-every 1\n"
    "  --artifact           25 + 25 threads, 20 iterations, 1 MiB pageable, grid 4096, block 256,\n"
    "                       synchronised after each call: what the study published\n"
    "  --json               print one JSON object\n"
    "  --help               print this\n";

static const char *program_name;

static void fail(const char *option, const char *value, const char *expected) {
    fprintf(stderr, "%s: --%s: \"%s\": expected %s\n", program_name, option, value, expected);
    exit(2);
}

static uint64_t whole(const char *option, const char *text, uint64_t least, uint64_t most) {
    char expected[96], *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < least ||
        value > most) {
        snprintf(expected, sizeof expected, "a whole number from %llu to %llu",
                 (unsigned long long)least, (unsigned long long)most);
        fail(option, text, expected);
    }
    return value;
}

static double positive(const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value <= 0 || value > 86400)
        fail(option, text, "seconds, more than 0 and at most 86400");
    return value;
}

static void set_artifact(struct options *options) {
    options->copy_threads = options->launch_threads = 25;
    options->iterations = 20;
    options->bytes = 1048576;
    options->pinned = false;
    options->grid = 4096;
    options->block = 256;
    options->sync_every = 1;
}

enum {
    COPY_THREADS = 256,
    LAUNCH_THREADS,
    LAUNCH_PRIORITY,
    LAUNCH_PERIOD,
    COPY_PERIOD,
    SECONDS,
    ITERATIONS,
    BYTES,
    BUFFERS,
    PINNED,
    GRID,
    BLOCK,
    SYNC_EVERY,
    SYNC_EACH,
    ARTIFACT,
    JSON,
    HELP
};

static const struct option long_options[] = {
    {"copy-threads", required_argument, NULL, COPY_THREADS},
    {"launch-threads", required_argument, NULL, LAUNCH_THREADS},
    {"launch-priority", required_argument, NULL, LAUNCH_PRIORITY},
    {"launch-period", required_argument, NULL, LAUNCH_PERIOD},
    {"copy-period", required_argument, NULL, COPY_PERIOD},
    {"seconds", required_argument, NULL, SECONDS},
    {"iterations", required_argument, NULL, ITERATIONS},
    {"bytes", required_argument, NULL, BYTES},
    {"buffers", required_argument, NULL, BUFFERS},
    {"pinned", no_argument, NULL, PINNED},
    {"grid", required_argument, NULL, GRID},
    {"block", required_argument, NULL, BLOCK},
    {"sync-every", required_argument, NULL, SYNC_EVERY},
    {"sync-each", no_argument, NULL, SYNC_EACH},
    {"artifact", no_argument, NULL, ARTIFACT},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static void set_option(struct options *options, int option, const char *name) {
    switch (option) {
    case COPY_THREADS:
        options->copy_threads = (unsigned)whole(name, optarg, 0, 1000);
        break;
    case LAUNCH_THREADS:
        options->launch_threads = (unsigned)whole(name, optarg, 0, 1000);
        break;
    case LAUNCH_PRIORITY:
        options->launch_priority = (int)whole(name, optarg, 1, 99);
        break;
    case LAUNCH_PERIOD:
        options->launch_period_ns = whole(name, optarg, 1, 3600000000u) * 1000;
        break;
    case COPY_PERIOD:
        options->copy_period_ns = whole(name, optarg, 1, 3600000000u) * 1000;
        break;
    case SECONDS:
        options->seconds = positive(name, optarg);
        break;
    case ITERATIONS:
        options->iterations = whole(name, optarg, 1, UINT64_MAX / 2);
        break;
    case BYTES:
        options->bytes = (size_t)whole(name, optarg, 4, (uint64_t)1 << 30);
        if (options->bytes % 4 != 0)
            fail(name, optarg, "a multiple of 4");
        break;
    case BUFFERS:
        options->buffers = (unsigned)whole(name, optarg, 1, 1000);
        break;
    case PINNED:
        options->pinned = true;
        break;
    case GRID:
        options->grid = (unsigned)whole(name, optarg, 1, 65535);
        break;
    case BLOCK:
        options->block = (unsigned)whole(name, optarg, 1, 1024);
        break;
    case SYNC_EVERY:
        options->sync_every = whole(name, optarg, 0, UINT64_MAX / 2);
        break;
    case SYNC_EACH:
        options->sync_every = 1;
        break;
    case ARTIFACT:
        set_artifact(options);
        break;
    case JSON:
        options->json = true;
        break;
    case HELP:
        printf(usage, program_name);
        exit(0);
    default:
        fprintf(stderr, usage, program_name);
        exit(2);
    }
}

struct options read_options(int argc, char **argv) {
    struct options options;
    memset(&options, 0, sizeof options);
    options.copy_threads = options.launch_threads = 1;
    options.bytes = 4194304;
    options.buffers = 1;
    options.grid = 16;
    options.block = 256;
    options.sync_every = 64;
    program_name = argv[0];
    int option, position = 0;
    while ((option = getopt_long(argc, argv, "", long_options, &position)) != -1)
        set_option(&options, option, option >= 256 ? long_options[position].name : "");
    if (optind < argc) {
        fprintf(stderr, "%s: %s: expected an option\n", program_name, argv[optind]);
        exit(2);
    }
    if (options.copy_threads + options.launch_threads == 0) {
        fprintf(stderr, "%s: --copy-threads 0 --launch-threads 0: expected at least one thread\n",
                program_name);
        exit(2);
    }
    if (options.seconds == 0 && options.iterations == 0)
        options.seconds = 5;
    return options;
}
