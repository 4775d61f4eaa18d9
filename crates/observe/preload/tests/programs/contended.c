/* Threads that wait for each other's locks, and allocate. Ends with a status of its own. */
#include "check.h"

enum { THREADS = 4, ROUNDS = 300, TURNS = 40, STATUS = 3 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static sem_t tokens;
static long counted, written, turn;

static void *contend(void *argument) {
    long me = (long)argument;
    struct timespec soon = {0, 200000};
    for (int round = 0; round < ROUNDS; round++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        counted++;
        if (round % 50 == 0)
            nanosleep(&soon, NULL);
        MUST(pthread_mutex_unlock(&mutex) == 0);
        if (round % 4 == 0) {
            MUST(pthread_rwlock_wrlock(&lock) == 0);
            written++;
            if (round % 40 == 0)
                nanosleep(&soon, NULL);
        } else {
            MUST(pthread_rwlock_rdlock(&lock) == 0);
        }
        MUST(pthread_rwlock_unlock(&lock) == 0);
        MUST(sem_wait(&tokens) == 0);
        MUST(sem_post(&tokens) == 0);
        free(malloc(100));
    }
    for (int round = 0; round < TURNS; round++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        while (turn % THREADS != me)
            MUST(pthread_cond_wait(&turned, &mutex) == 0);
        turn++;
        MUST(pthread_cond_broadcast(&turned) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    MUST(sem_init(&tokens, 0, 2) == 0);
    for (long i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, contend, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    printf("%ld counted, %ld written, %ld turns\n", counted, written, turn);
    return STATUS;
}
