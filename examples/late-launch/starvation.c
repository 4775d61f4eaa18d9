/*
 * A reader that writers starve: what delayed the launches in the study's incident.
 *
 *     starvation [--seconds S] [--writers N] [--hold-us U] [--json] [--expect-starvation]
 *
 * The writers take the lock, hold it for a while and take it again at once; there is always one
 * that waits. One reader takes the lock again and again, and the program prints its longest wait.
 * It runs itself twice: with glibc's lock, and with librwlock223.so preloaded, which lies beside
 * it. With --once it runs the experiment once, with whatever lock it finds.
 *
 * The writers stop when the time is over, so that a reader that starves waits for that long.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WRITERS = 64 };

struct options {
    double seconds;
    unsigned writers, hold_us;
    bool once, json, expect_starvation;
};

struct outcome {
    uint64_t worst_ns, reads, writes;
};

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_bool stop;
static atomic_ullong writes;
static unsigned hold_ns;
static volatile uint64_t shared_value; /* what the lock guards: the writers count in it */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *write_again_and_again(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        pthread_rwlock_wrlock(&rwlock);
        uint64_t start_ns = now_ns();
        while (now_ns() - start_ns < hold_ns) {
        }
        shared_value++;
        pthread_rwlock_unlock(&rwlock);
        atomic_fetch_add(&writes, 1);
    }
    return NULL;
}

static void *read_again_and_again(void *argument) {
    struct outcome *outcome = argument;
    struct timespec pause = {0, 1000000};
    while (!atomic_load(&stop)) {
        uint64_t start_ns = now_ns();
        pthread_rwlock_rdlock(&rwlock);
        uint64_t wait_ns = now_ns() - start_ns;
        pthread_rwlock_unlock(&rwlock);
        outcome->reads++;
        if (wait_ns > outcome->worst_ns)
            outcome->worst_ns = wait_ns;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), void *argument) {
    int rc = pthread_create(thread, NULL, run, argument);
    if (rc != 0) {
        fprintf(stderr, "starvation: a thread could not be started: %s\n", strerror(rc));
        exit(2);
    }
}

/* The lock is right if no write was lost. */
static struct outcome run_once(const struct options *options) {
    pthread_t writer[MAX_WRITERS], reader;
    struct outcome outcome = {0, 0, 0};
    hold_ns = options->hold_us * 1000;
    for (unsigned i = 0; i < options->writers; i++)
        start(&writer[i], write_again_and_again, NULL);
    start(&reader, read_again_and_again, &outcome);
    struct timespec time = {(time_t)options->seconds,
                            (long)((options->seconds - (double)(time_t)options->seconds) * 1e9)};
    nanosleep(&time, NULL);
    atomic_store(&stop, true);
    pthread_join(reader, NULL);
    for (unsigned i = 0; i < options->writers; i++)
        pthread_join(writer[i], NULL);
    outcome.writes = atomic_load(&writes);
    if (shared_value != outcome.writes) {
        fprintf(stderr, "starvation: %" PRIu64 " writes, but the value is %" PRIu64 "\n",
                outcome.writes, shared_value);
        exit(2);
    }
    return outcome;
}

/* ---- Both locks ---------------------------------------------------------------------------- */

static void library_path(char *path, size_t length) {
    char program[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    if (bytes < 0) {
        perror("starvation: /proc/self/exe");
        exit(2);
    }
    program[bytes] = '\0';
    snprintf(path, length, "%s/librwlock223.so", dirname(program));
    if (access(path, R_OK) != 0) {
        fprintf(stderr, "starvation: %s: %s\n", path, strerror(errno));
        exit(2);
    }
}

/* Behind what is preloaded already: a recorder must stay in front. */
static void preload(const char *library) {
    char value[4 * PATH_MAX];
    const char *before = getenv("LD_PRELOAD");
    snprintf(value, sizeof value, "%s%s%s", before != NULL ? before : "",
             before != NULL && *before != '\0' ? ":" : "", library);
    setenv("LD_PRELOAD", value, 1);
}

static void run_child(const struct options *options, const char *library, int out) {
    char seconds[32], writers[16], hold[16];
    snprintf(seconds, sizeof seconds, "%.3f", options->seconds);
    snprintf(writers, sizeof writers, "%u", options->writers);
    snprintf(hold, sizeof hold, "%u", options->hold_us);
    if (library != NULL)
        preload(library);
    dup2(out, STDOUT_FILENO);
    execl("/proc/self/exe", "starvation", "--once", "--seconds", seconds, "--writers", writers,
          "--hold-us", hold, (char *)NULL);
    perror("starvation: exec");
    _exit(2);
}

static struct outcome run_with(const struct options *options, const char *library) {
    struct outcome outcome;
    int ends[2], status;
    if (pipe(ends) != 0) {
        perror("starvation: pipe");
        exit(2);
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run_child(options, library, ends[1]);
    }
    close(ends[1]);
    FILE *answer = fdopen(ends[0], "r");
    int fields = fscanf(answer, "worst_ns=%" SCNu64 " reads=%" SCNu64 " writes=%" SCNu64,
                        &outcome.worst_ns, &outcome.reads, &outcome.writes);
    fclose(answer);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || fields != 3) {
        fprintf(stderr, "starvation: the run with %s failed\n",
                library != NULL ? library : "glibc's lock");
        exit(2);
    }
    return outcome;
}

static void print_outcome(const char *lock, const struct outcome *outcome) {
    printf("%-24s the reader's longest wait %10.3f ms   (%" PRIu64 " reads, %" PRIu64
           " writes)\n",
           lock, (double)outcome->worst_ns / 1e6, outcome->reads, outcome->writes);
}

static int compare(const struct options *options) {
    char library[PATH_MAX + 32];
    library_path(library, sizeof library);
    struct outcome now = run_with(options, NULL);
    struct outcome then = run_with(options, library);
    if (options->json) {
        printf("{\"glibc\": {\"worst_ms\": %.3f, \"reads\": %" PRIu64 ", \"writes\": %" PRIu64
               "}, \"glibc_2_23\": {\"worst_ms\": %.3f, \"reads\": %" PRIu64
               ", \"writes\": %" PRIu64 "}}\n",
               (double)now.worst_ns / 1e6, now.reads, now.writes, (double)then.worst_ns / 1e6,
               then.reads, then.writes);
    } else {
        print_outcome("glibc of this machine:", &now);
        print_outcome("as glibc 2.23 did it:", &then);
    }
    return options->expect_starvation && then.worst_ns < 3 * now.worst_ns ? 1 : 0;
}

/* ---- Command line -------------------------------------------------------------------------- */

static double number(const char *option, const char *text, double least, double most) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= least && value <= most)) {
        fprintf(stderr, "starvation: %s: \"%s\": expected a number from %g to %g\n", option, text,
                least, most);
        exit(2);
    }
    return value;
}

static struct options read_options(int argc, char **argv) {
    static const struct option names[] = {
        {"seconds", required_argument, NULL, 's'}, {"writers", required_argument, NULL, 'w'},
        {"hold-us", required_argument, NULL, 'h'}, {"once", no_argument, NULL, 'o'},
        {"json", no_argument, NULL, 'j'},          {"expect-starvation", no_argument, NULL, 'e'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {2.0, 4, 200, false, false, false};
    int option;
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 's':
            options.seconds = number("--seconds", optarg, 0.01, 3600);
            break;
        case 'w':
            options.writers = (unsigned)number("--writers", optarg, 1, MAX_WRITERS);
            break;
        case 'h':
            options.hold_us = (unsigned)number("--hold-us", optarg, 0, 1000000);
            break;
        case 'o':
            options.once = true;
            break;
        case 'j':
            options.json = true;
            break;
        case 'e':
            options.expect_starvation = true;
            break;
        default:
            fprintf(stderr, "usage: starvation [--seconds S] [--writers N] [--hold-us U] [--once] "
                            "[--json] [--expect-starvation]\n");
            exit(2);
        }
    }
    return options;
}

int main(int argc, char **argv) {
    struct options options = read_options(argc, argv);
    if (!options.once)
        return compare(&options);
    struct outcome outcome = run_once(&options);
    printf("worst_ns=%" PRIu64 " reads=%" PRIu64 " writes=%" PRIu64 "\n", outcome.worst_ns,
           outcome.reads, outcome.writes);
    return 0;
}
