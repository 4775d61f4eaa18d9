/*
 * A library that is preloaded before Keeptime's: an allocator with a lock, which is taken by the
 * hooks as every other one. It ends the program when it is called from inside a function for locks,
 * or by Keeptime's library from anywhere.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);

static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int inside __attribute__((tls_model("initial-exec")));

static void die(const char *why) {
    (void)!write(2, why, strlen(why));
    abort();
}

static void begin(void *caller) {
    struct dl_find_object found;
    if (inside != 0)
        die("reentry: memory is allocated inside a hook\n");
    if (_dl_find_object(caller, &found) == 0 &&
        strstr(found.dlfo_link_map->l_name, "libkeeptime_preload") != NULL)
        die("reentry: the library allocates memory\n");
    pthread_mutex_lock(&heap);
}

static void end(void) {
    pthread_mutex_unlock(&heap);
}

#define ALLOCATE(result, name, parameters, call)                                                   \
    result name parameters {                                                                       \
        begin(__builtin_return_address(0));                                                        \
        result made = call;                                                                        \
        end();                                                                                     \
        return made;                                                                               \
    }

ALLOCATE(void *, malloc, (size_t size), __libc_malloc(size))
ALLOCATE(void *, calloc, (size_t count, size_t size), __libc_calloc(count, size))
ALLOCATE(void *, realloc, (void *old, size_t size), __libc_realloc(old, size))
ALLOCATE(void *, memalign, (size_t to, size_t size), __libc_memalign(to, size))
ALLOCATE(void *, aligned_alloc, (size_t to, size_t size), __libc_memalign(to, size))

int posix_memalign(void **place, size_t to, size_t size) {
    begin(__builtin_return_address(0));
    void *made = __libc_memalign(to, size);
    end();
    if (made != NULL)
        *place = made;
    return made != NULL ? 0 : ENOMEM;
}

void free(void *old) {
    begin(__builtin_return_address(0));
    __libc_free(old);
    end();
}

__attribute__((constructor)) static void survive_forks(void) {
    pthread_atfork((void (*)(void))(void *)begin, end, end);
}

/* The next function of this name, with the mark that the thread is inside. */
#define WRAP_IF(marks, name, parameters, arguments)                                                \
    int name parameters {                                                                          \
        static int(*real) parameters;                                                              \
        if (real == NULL)                                                                          \
            real = (int(*) parameters)dlsym(RTLD_NEXT, #name);                                     \
        int mark = (marks);                                                                        \
        inside += mark;                                                                            \
        int result = real arguments;                                                               \
        inside -= mark;                                                                            \
        return result;                                                                             \
    }
#define WRAP(name, parameters, arguments) WRAP_IF(1, name, parameters, arguments)
/* The C library itself allocates when a thread takes its first mutex with a priority ceiling. */
#define WRAP_TAKE(name, parameters, arguments)                                                     \
    WRAP_IF((m->__data.__kind & 64) == 0, name, parameters, arguments)

typedef pthread_mutex_t mutex;
typedef pthread_rwlock_t rwlock;
typedef pthread_cond_t cond;
typedef const struct timespec *until;

WRAP(pthread_mutex_init, (mutex * m, const pthread_mutexattr_t *a), (m, a))
WRAP(pthread_mutex_destroy, (mutex * m), (m))
WRAP_TAKE(pthread_mutex_lock, (mutex * m), (m))
WRAP_TAKE(pthread_mutex_trylock, (mutex * m), (m))
WRAP_TAKE(pthread_mutex_timedlock, (mutex * m, until t), (m, t))
WRAP_TAKE(pthread_mutex_clocklock, (mutex * m, clockid_t c, until t), (m, c, t))
WRAP_TAKE(pthread_mutex_unlock, (mutex * m), (m))
WRAP(pthread_rwlock_init, (rwlock * l, const pthread_rwlockattr_t *a), (l, a))
WRAP(pthread_rwlock_destroy, (rwlock * l), (l))
WRAP(pthread_rwlock_rdlock, (rwlock * l), (l))
WRAP(pthread_rwlock_tryrdlock, (rwlock * l), (l))
WRAP(pthread_rwlock_timedrdlock, (rwlock * l, until t), (l, t))
WRAP(pthread_rwlock_clockrdlock, (rwlock * l, clockid_t c, until t), (l, c, t))
WRAP(pthread_rwlock_wrlock, (rwlock * l), (l))
WRAP(pthread_rwlock_trywrlock, (rwlock * l), (l))
WRAP(pthread_rwlock_timedwrlock, (rwlock * l, until t), (l, t))
WRAP(pthread_rwlock_clockwrlock, (rwlock * l, clockid_t c, until t), (l, c, t))
WRAP(pthread_rwlock_unlock, (rwlock * l), (l))
WRAP(pthread_cond_init, (cond * c, const pthread_condattr_t *a), (c, a))
WRAP(pthread_cond_destroy, (cond * c), (c))
WRAP(pthread_cond_wait, (cond * c, mutex *m), (c, m))
WRAP(pthread_cond_timedwait, (cond * c, mutex *m, until t), (c, m, t))
WRAP(pthread_cond_clockwait, (cond * c, mutex *m, clockid_t k, until t), (c, m, k, t))
WRAP(pthread_cond_signal, (cond * c), (c))
WRAP(pthread_cond_broadcast, (cond * c), (c))
WRAP(pthread_spin_lock, (pthread_spinlock_t * s), (s))
WRAP(pthread_spin_trylock, (pthread_spinlock_t * s), (s))
WRAP(pthread_spin_unlock, (pthread_spinlock_t * s), (s))
WRAP(pthread_barrier_wait, (pthread_barrier_t * b), (b))
WRAP(sem_wait, (sem_t * s), (s))
WRAP(sem_trywait, (sem_t * s), (s))
WRAP(sem_timedwait, (sem_t * s, until t), (s, t))
WRAP(sem_clockwait, (sem_t * s, clockid_t c, until t), (s, c, t))
WRAP(sem_post, (sem_t * s), (s))
WRAP(mtx_lock, (mtx_t * m), (m))
WRAP(mtx_trylock, (mtx_t * m), (m))
WRAP(mtx_timedlock, (mtx_t * m, until t), (m, t))
WRAP(mtx_unlock, (mtx_t * m), (m))
WRAP(cnd_wait, (cnd_t * c, mtx_t *m), (c, m))
WRAP(cnd_signal, (cnd_t * c), (c))
WRAP(cnd_broadcast, (cnd_t * c), (c))
