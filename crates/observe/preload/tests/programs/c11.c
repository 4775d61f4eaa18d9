/* The locks of C11, by their own results. */
#include "check.h"

#include <threads.h>

static const char *result_name(int result) {
    switch (result) {
    case thrd_success: return "success";
    case thrd_busy: return "busy";
    case thrd_timedout: return "timedout";
    case thrd_error: return "error";
    case thrd_nomem: return "nomem";
    default: return "a result without a name";
    }
}

static mtx_t mutex;
static cnd_t condition;
static once_flag flag = ONCE_FLAG_INIT;
static int ran, turn;
static long acquired;
static atomic_long taken;

#undef SHOW
#undef TAKE
#define SHOW(call) printf("%s = %s\n", #call, result_name(call))
#define TAKE(call) printf("%s = %s\n", #call, result_name(counted(call)))

static int counted(int result) {
    if (result == thrd_success)
        atomic_fetch_add(&taken, 1);
    return result;
}

static int ask(void *unused) {
    (void)unused;
    TAKE(mtx_trylock(&mutex));
    TAKE(mtx_timedlock(&mutex, SOON(CLOCK_REALTIME)));
    TAKE(mtx_timedlock(&mutex, PAST(CLOCK_REALTIME)));
    TAKE(mtx_timedlock(&mutex, NONE));
    return 7;
}

static void run_once(void) {
    ran++;
}

static int ping_pong(void *argument) {
    int own = *(int *)argument;
    counted(mtx_lock(&mutex));
    for (int round = 0; round < 200; round++) {
        while (turn != own) {
            int rc = round % 2 ? cnd_wait(&condition, &mutex)
                               : cnd_timedwait(&condition, &mutex, FAR(CLOCK_REALTIME));
            MUST(rc == thrd_success);
        }
        turn = 1 - own;
        MUST((round % 5 ? cnd_signal(&condition) : cnd_broadcast(&condition)) == thrd_success);
        call_once(&flag, run_once);
        acquired++;
    }
    return mtx_unlock(&mutex);
}

static void one(const char *name, int type) {
    printf("--- %s\n", name);
    thrd_t thread;
    int result, own[2] = {0, 1};
    SHOW(mtx_init(&mutex, type));
    TAKE(mtx_lock(&mutex));
    if (type & mtx_recursive) {
        TAKE(mtx_lock(&mutex));
        TAKE(mtx_trylock(&mutex));
        SHOW(mtx_unlock(&mutex));
        SHOW(mtx_unlock(&mutex));
    }
    MUST(thrd_create(&thread, ask, NULL) == thrd_success);
    MUST(thrd_join(thread, &result) == thrd_success && result == 7);
    SHOW(cnd_timedwait(&condition, &mutex, SOON(CLOCK_REALTIME)));
    SHOW(cnd_timedwait(&condition, &mutex, NONE));
    SHOW(mtx_unlock(&mutex));
    TAKE(mtx_timedlock(&mutex, FAR(CLOCK_REALTIME)));
    SHOW(mtx_unlock(&mutex));
    turn = 0;
    MUST(thrd_create(&thread, ping_pong, &own[1]) == thrd_success);
    MUST(ping_pong(&own[0]) == thrd_success);
    MUST(thrd_join(thread, &result) == thrd_success && result == thrd_success);
    mtx_destroy(&mutex);
}

int main(void) {
    SHOW(cnd_init(&condition));
    one("plain", mtx_plain);
    one("timed", mtx_timed);
    one("recursive", mtx_plain | mtx_recursive);
    one("timed and recursive", mtx_timed | mtx_recursive);
    cnd_destroy(&condition);
    printf("ran %d\nturns %ld\nacquired %ld\n", ran, acquired, atomic_load(&taken));
    return 0;
}
