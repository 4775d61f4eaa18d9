/* What the wrapper counts: 1000 locks, 3 waits. */
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

int main(void) {
    for (int i = 0; i < 1000; i++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        if (i < 3)
            MUST(pthread_cond_timedwait(&condition, &mutex, PAST(CLOCK_REALTIME)) == ETIMEDOUT);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    return 0;
}
