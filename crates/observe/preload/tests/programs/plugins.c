/*
 * plugins TIMES FLAGS PLUGIN...: opens, uses and closes plugins, some of them in threads at once.
 * With one thread all plugins follow each other in the same place; with several, each has its own.
 */
#include "check.h"

#include <dlfcn.h>

static long times;
static int flags;

static void use_once(const char *path) {
    void *plugin = dlopen(path, flags);
    MUST(plugin != NULL);
    int (*use)(int) = (int (*)(int))dlsym(plugin, "use");
    MUST(use != NULL && use(3) == 3);
    MUST(dlclose(plugin) == 0);
    MUST(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL); /* it has really gone */
}

static void *one_plugin(void *path) {
    for (long i = 0; i < times; i++)
        use_once(path);
    return NULL;
}

int main(int count, char **arguments) {
    MUST(count >= 4);
    times = atol(arguments[2]);
    flags = RTLD_NOW | (strcmp(arguments[3], "deep") == 0 ? RTLD_DEEPBIND : RTLD_LOCAL);
    char **paths = arguments + 4;
    int plugins = count - 4;
    if (strcmp(arguments[1], "in-turn") == 0) {
        for (long i = 0; i < times; i++)
            use_once(paths[i % plugins]);
    } else {
        pthread_t threads[plugins];
        for (int i = 0; i < plugins; i++)
            MUST(pthread_create(&threads[i], NULL, one_plugin, paths[i]) == 0);
        for (int i = 0; i < plugins; i++)
            MUST(pthread_join(threads[i], NULL) == 0);
    }
    printf("used\n");
    return 0;
}
