/*
 * Waiting and waking without pthread locks, for the engines: they stand for hardware, and hardware
 * takes no lock of the process. A recorder that counts locks must not see them.
 */
#include "fake.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(atomic_uint) == 4, "a futex is 32 bits");

/* Returns when woken, at once if the word has changed, or for no reason: callers look again. */
void futex_wait(atomic_uint *word, unsigned seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void futex_wake(atomic_uint *word, int threads) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

enum { CLEAR = 0, SET = 1, WAITED_FOR = 2 };

void latch_set(struct latch *latch) {
    atomic_store(&latch->state, SET);
}

void latch_clear(struct latch *latch) {
    if (atomic_exchange(&latch->state, CLEAR) == WAITED_FOR)
        futex_wake(&latch->state, INT_MAX);
}

void latch_wait_clear(struct latch *latch) {
    unsigned seen = atomic_load(&latch->state);
    while (seen != CLEAR) {
        if (seen == WAITED_FOR ||
            atomic_compare_exchange_weak(&latch->state, &seen, WAITED_FOR))
            futex_wait(&latch->state, WAITED_FOR);
        seen = atomic_load(&latch->state);
    }
}
