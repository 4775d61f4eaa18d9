/* A library that is opened and closed again and again, and locks at every step of its life. */
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock(int times) {
    for (int i = 0; i < times; i++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
}

__attribute__((constructor)) static void begin(void) {
    lock(1);
}

__attribute__((destructor)) static void end(void) {
    lock(1);
}

__attribute__((visibility("default"))) int use(int times) {
    lock(times);
    return times;
}
