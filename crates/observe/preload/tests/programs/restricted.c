/*
 * restricted WAY
 *
 * Threads that let the kernel kill the process for any system call that the C library's own locks
 * do not make, and then contend for locks, for longer than the guard's bound too. The filter is
 * installed by a function of the C library (prctl, syscall) or by the instruction.
 */
#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { THREADS = 4, ROUNDS = 1500, OPERATION = 0x7f };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static sem_t done, never;
static const char *way;
static long counted, turn, torn[2], broken;

static long raw(long number, long first, long second, long third) {
    register long fourth __asm__("r10") = 0, fifth __asm__("r8") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}

/* Only futex, to wait and to wake. */
static void restrict_calls(void) {
#define ALLOW(operation) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, operation, 0, 1),                     \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        /* The end of the process, after an assertion that failed too. */
        ALLOW(SYS_exit_group),
        ALLOW(SYS_write),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, OPERATION),
        ALLOW(0 /* FUTEX_WAIT */),
        ALLOW(1 /* FUTEX_WAKE */),
        ALLOW(9 /* FUTEX_WAIT_BITSET */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (strcmp(way, "prctl") == 0)
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    else if (strcmp(way, "syscall") == 0)
        MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    else
        MUST(raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program) == 0);
}

static void spin(long ns) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < ns);
}

static void *contend(void *argument) {
    long me = (long)argument;
    /* Half of the threads have taken a lock before, the others have not. */
    if (me % 2 == 0)
        MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    restrict_calls();
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1000;
        MUST((round % 4 == 0 ? pthread_mutex_timedlock(&mutex, &until)
                             : pthread_mutex_lock(&mutex)) == 0);
        counted++;
        spin(round % 100 == 0 ? 500000 : 500);
        MUST(pthread_mutex_unlock(&mutex) == 0);
        if ((round + me) % 4 == 0) {
            MUST(pthread_rwlock_wrlock(&lock) == 0);
            torn[0]++;
            spin(round % 100 == 0 ? 500000 : 500);
            torn[1]++;
        } else {
            MUST(pthread_rwlock_rdlock(&lock) == 0);
            if (torn[0] != torn[1])
                broken = 1;
            spin(500);
        }
        MUST(pthread_rwlock_unlock(&lock) == 0);
    }
    for (int round = 0; round < ROUNDS / 10; round++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        while (turn % THREADS != me)
            MUST(pthread_cond_wait(&turned, &mutex) == 0);
        turn++;
        MUST(pthread_cond_broadcast(&turned) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    MUST(sem_post(&done) == 0);
    /* To end, a thread needs more system calls. */
    for (;;)
        sem_wait(&never);
}

int main(int count, char **words) {
    MUST(count == 2);
    way = words[1];
    pthread_t threads[THREADS];
    MUST(sem_init(&done, 0, 0) == 0 && sem_init(&never, 0, 0) == 0);
    /* So that the guard knows the lock before. */
    MUST(pthread_rwlock_wrlock(&lock) == 0 && pthread_rwlock_unlock(&lock) == 0);
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    for (long i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, contend, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        while (sem_wait(&done) != 0)
            ;
    printf("%ld counted, %ld turns, %ld written, %ld broken\n", counted, turn, torn[1], broken);
    return 0;
}
