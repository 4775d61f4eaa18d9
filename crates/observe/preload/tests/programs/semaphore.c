/* Semaphores, with what they leave in errno; spinlocks, barriers, once. */
#include "check.h"

#include <fcntl.h>
#include <signal.h>

static sem_t semaphore;
static long posts, taken;
#define S (&semaphore)
#define TOOK(call) (errno = UNTOUCHED, got(#call, (call)))
#define POST(semaphore) (posts++, SHOW(sem_post(semaphore)))

static int got(const char *call, int code) {
    if (code == 0)
        taken++;
    return show(call, code);
}

static void available(void) {
    printf("--- available\n");
    SHOW(sem_init(S, 0, 10));
    TOOK(sem_wait(S));
    TOOK(sem_trywait(S));
    TOOK(sem_timedwait(S, FAR(CLOCK_REALTIME)));
    TOOK(sem_timedwait(S, PAST(CLOCK_REALTIME)));
    TOOK(sem_timedwait(S, NONE));
    TOOK(sem_clockwait(S, CLOCK_MONOTONIC, FAR(CLOCK_MONOTONIC)));
    TOOK(sem_clockwait(S, CLOCK_REALTIME, PAST(CLOCK_REALTIME)));
    TOOK(sem_clockwait(S, CLOCK_MONOTONIC, NONE));
    TOOK(sem_clockwait(S, CLOCK_TAI, FAR(CLOCK_MONOTONIC)));
    int value;
    MUST(sem_getvalue(S, &value) == 0);
    printf("value %d\n", value);
    SHOW(sem_destroy(S));
}

static void used_up(void) {
    printf("--- used up\n");
    SHOW(sem_init(S, 0, 0));
    TOOK(sem_trywait(S));
    TOOK(sem_timedwait(S, PAST(CLOCK_REALTIME)));
    TOOK(sem_timedwait(S, SOON(CLOCK_REALTIME)));
    TOOK(sem_timedwait(S, NONE));
    TOOK(sem_clockwait(S, CLOCK_MONOTONIC, SOON(CLOCK_MONOTONIC)));
    TOOK(sem_clockwait(S, CLOCK_TAI, SOON(CLOCK_MONOTONIC)));
    POST(S);
    TOOK(sem_wait(S));
    SHOW(sem_destroy(S));
    SHOW(sem_init(S, 0, 1u << 31));
    SHOW(sem_init(S, 0, (1u << 31) - 1));
    POST(S); /* EOVERFLOW */
    SHOW(sem_destroy(S));
}

static void handler(int number) {
    (void)number;
}

static int interrupted[2];

static void *waits(void *argument) {
    MUST(write(((struct steps *)argument)->pipe[1], &(pid_t){gettid()}, sizeof(pid_t)) > 0);
    errno = UNTOUCHED;
    interrupted[0] = sem_wait(S);
    interrupted[1] = errno;
    return NULL;
}

/* A signal ends a wait with EINTR; with SA_RESTART it goes on. */
static void interrupted_by(int flags) {
    printf("--- interrupted%s\n", flags != 0 ? ", restarted" : "");
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct steps steps = new_steps();
    pthread_t thread;
    pid_t id;
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    SHOW(sem_init(S, 0, 0));
    MUST(pthread_create(&thread, NULL, waits, &steps) == 0);
    MUST(read(steps.pipe[0], &id, sizeof id) == sizeof id);
    await_sleep(id);
    MUST(pthread_kill(thread, SIGUSR1) == 0);
    if (flags != 0) {
        POST(S);
        taken++;
    }
    MUST(pthread_join(thread, NULL) == 0);
    printf("%d, errno %s\n", interrupted[0],
           interrupted[1] == UNTOUCHED ? "untouched" : code_name(interrupted[1]));
    SHOW(sem_destroy(S));
}

static void named(void) {
    printf("--- named, between processes\n");
    char name[64];
    snprintf(name, sizeof name, "/keeptime-test-%d", (int)getpid());
    sem_t *first = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    MUST(first != SEM_FAILED && sem_unlink(name) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(sem_wait(first));
    POST(first);
    int status;
    MUST(waitpid(child, &status, 0) == child);
    taken++;
    printf("the child: %d\n", status);
    SHOW(sem_close(first));
}

static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int serial, ran;
static long sum;

enum { THREADS = 4, ROUNDS = 500 };

static void run_once(void) {
    atomic_fetch_add(&ran, 1);
    sched_yield();
}

static void *together(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        int rc = pthread_barrier_wait(&barrier);
        MUST(rc == 0 || rc == PTHREAD_BARRIER_SERIAL_THREAD);
        atomic_fetch_add(&serial, rc == PTHREAD_BARRIER_SERIAL_THREAD);
        MUST(pthread_once(&once, run_once) == 0 && atomic_load(&ran) == 1);
        MUST(pthread_spin_lock(&spin) == 0);
        sum += round;
        MUST(pthread_spin_unlock(&spin) == 0);
    }
    return unused;
}

static void others(void) {
    printf("--- spinlock, barrier, once\n");
    pthread_t threads[THREADS];
    SHOW(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    SHOW(pthread_spin_trylock(&spin));
    SHOW(pthread_spin_trylock(&spin));
    SHOW(pthread_spin_unlock(&spin));
    SHOW(pthread_barrier_init(&barrier, NULL, 0));
    SHOW(pthread_barrier_init(&barrier, NULL, THREADS));
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, together, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    printf("serial %d, ran %d, sum %ld\n", atomic_load(&serial), atomic_load(&ran), sum);
    SHOW(pthread_barrier_destroy(&barrier));
    SHOW(pthread_spin_destroy(&spin));
}

int main(void) {
    available();
    used_up();
    interrupted_by(0);
    interrupted_by(SA_RESTART);
    named();
    others();
    printf("posts %ld\ntaken %ld\n", posts, taken);
    return 0;
}
