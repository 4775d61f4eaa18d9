/*
 * What real-time programs do first: they lock all their memory. It is done without privileges, with
 * a limit below the size of the recording, or with privileges. Threads take locks before and after,
 * and one does all the time.
 */
#include "check.h"

#include <sys/resource.h>
#include <sys/syscall.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool stop;

static void take(int times) {
    for (int i = 0; i < times; i++)
        MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
}

static void *take_some(void *times) {
    take(*(int *)times);
    return NULL;
}

static void *take_always(void *unused) {
    (void)unused;
    while (!atomic_load(&stop))
        take(1);
    return NULL;
}

static void in_threads(int threads, int times) {
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        MUST(pthread_create(&thread, NULL, take_some, &times) == 0);
        MUST(pthread_join(thread, NULL) == 0);
    }
}

/* A line of /proc/self/status, in KiB. */
static long status(const char *name) {
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    MUST(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            value = atol(line + strlen(name));
    fclose(file);
    return value;
}

static const char *result(long rc) {
    return rc == 0 ? "fine" : code_name(errno);
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "";
    pthread_t thread;
    /* Stacks are locked as well. */
    pthread_attr_t small;
    MUST(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 256 << 10) == 0);
    MUST(pthread_setattr_default_np(&small) == 0);
    if (strcmp(how, "without-privileges") == 0) {
        struct rlimit limit;
        MUST(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
        if (limit.rlim_cur > 24 << 20)
            limit.rlim_cur = 24 << 20;
        MUST(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
        MUST(geteuid() != 0 || setuid(65534) == 0);
    }
    take(10);
    in_threads(3, 3000);
    MUST(pthread_create(&thread, NULL, take_always, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        printf("%s\n", result(mlockall(MCL_CURRENT | MCL_FUTURE)));
        printf("%s\n", result(syscall(SYS_mlockall, MCL_CURRENT)));
        printf("%s\n", result(munlockall()));
    }
    printf("%s\n", result(mlockall(MCL_CURRENT | MCL_FUTURE)));
    printf("little is locked: %d\n", status("VmLck:") < 24 << 10);
    printf("%s\n", result(mlockall(-1)));
    in_threads(3, 3000);
    atomic_store(&stop, true);
    MUST(pthread_join(thread, NULL) == 0);
    in_threads(10, 10);
    puts("done");
    return 0;
}
