/*
 * callbacks PLUGIN: while one thread goes through the loaded libraries, and so has the dynamic
 * linker's lock, it waits for another, which locks from a library that has never locked before.
 */
#include "check.h"

#include <dlfcn.h>
#include <link.h>

static struct steps go, done;
static int (*use)(int);
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *locks_elsewhere(void *unused) {
    await_step(&go);
    MUST(use(10) == 10);
    step(&done);
    return unused;
}

static int visit(struct dl_phdr_info *info, size_t size, void *visits) {
    (void)info, (void)size;
    MUST(pthread_mutex_lock(&mutex) == 0);
    if ((*(int *)visits)++ == 0) {
        step(&go);
        await_step(&done);
    }
    MUST(pthread_mutex_unlock(&mutex) == 0);
    return 0;
}

int main(int count, char **arguments) {
    MUST(count == 2);
    go = new_steps();
    done = new_steps();
    void *plugin = dlopen(arguments[1], RTLD_NOW);
    MUST(plugin != NULL);
    use = (int (*)(int))dlsym(plugin, "use");
    pthread_t thread;
    int visits = 0;
    MUST(pthread_create(&thread, NULL, locks_elsewhere, NULL) == 0);
    dl_iterate_phdr(visit, &visits);
    MUST(visits > 3 && pthread_join(thread, NULL) == 0);
    printf("visited\n");
    return 0;
}
