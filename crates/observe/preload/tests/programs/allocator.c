/* Threads that allocate and free each other's memory, and lock meanwhile. */
#include "check.h"

enum { THREADS = 4, SLOTS = 512, ROUNDS = 8000 };

static pthread_mutex_t mutexes[16];
static unsigned char *slots[SLOTS];
static atomic_long wrong;

static void *churn(void *argument) {
    unsigned seed = (unsigned)(long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525 + 1013904223;
        unsigned at = seed >> 8 & (SLOTS - 1), size = 1 + (seed >> 17) % 2000;
        unsigned char *made = malloc(size), *old;
        MUST(made != NULL);
        made[0] = made[size - 1] = (unsigned char)at;
        MUST(pthread_mutex_lock(&mutexes[at % 16]) == 0);
        old = slots[at];
        slots[at] = made;
        MUST(pthread_mutex_unlock(&mutexes[at % 16]) == 0);
        if (old != NULL && old[0] != (unsigned char)at)
            atomic_fetch_add(&wrong, 1);
        free(old);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < 16; i++)
        MUST(pthread_mutex_init(&mutexes[i], NULL) == 0);
    for (long i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    pid_t child = fork();
    if (child == 0) {
        churn((void *)9L);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child);
    for (int i = 0; i < SLOTS; i++)
        free(slots[i]);
    printf("wrong %ld, the child %d\n", atomic_load(&wrong), status);
    return 0;
}
