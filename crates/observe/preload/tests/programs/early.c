/* A library whose constructor does everything that can be hooked, before the program's own. */
#include "check.h"

#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *lock(void *unused) {
    for (int i = 0; i < 100; i++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    return unused;
}

__attribute__((constructor(101))) static void begin(void) {
    lock(NULL);
    run_thread(lock, NULL);
    MUST(dlsym(RTLD_DEFAULT, "pthread_mutex_lock") != NULL);
    MUST(dlsym(RTLD_DEFAULT, "no_such_function") == NULL);
    MUST(dlsym(RTLD_DEFAULT, "cuInit") == NULL);
    MUST(prctl(PR_GET_DUMPABLE) == 1);
    MUST(syscall(SYS_getpid) == getpid());
    MUST(dlclose(dlopen("libc.so.6", RTLD_NOW)) == 0);
    pid_t child = fork();
    if (child == 0) {
        lock(NULL);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

int early(void) {
    return 1;
}
