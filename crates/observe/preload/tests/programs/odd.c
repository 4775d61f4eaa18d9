/* odd DRIVER...: opens drivers one after the other, and uses what they give out. */
#include "check.h"

#include <dlfcn.h>
#include <stdint.h>

typedef int get_proc_address(const char *, void **, int, uint64_t, int *);

static int call(void *function) {
    return function == NULL ? -1 : ((int (*)(unsigned))function)(0);
}

int main(int count, char **arguments) {
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i < count; i++) {
            void *driver = dlopen(arguments[i], RTLD_NOW);
            MUST(driver != NULL);
            void *found = NULL;
            int status, version;
            get_proc_address *ask = (get_proc_address *)dlsym(driver, "cuGetProcAddress_v2");
            MUST(ask("cuInit", &found, 12000, 0, &status) == 0);
            printf("init %d, ", call(found));
            MUST(ask("cuCtxSynchronize", &found, 12000, 0, &status) == 0);
            printf("asked %d, ", call(found));
            printf("looked up %d, ", call(dlsym(driver, "cuCtxSynchronize")));
            int rc = ((int (*)(int *))dlsym(driver, "cuDriverGetVersion"))(&version);
            printf("version %d, %d, ", rc, version);
            rc = ask("cuLaunchKernel", &found, 12000, 0, &status);
            printf("missing %d, %d, %s\n", rc, status, found == NULL ? "null" : "not null");
            MUST(dlclose(driver) == 0);
            MUST(dlopen(arguments[i], RTLD_NOW | RTLD_NOLOAD) == NULL);
        }
    }
    return 0;
}
