/*
 * A library that defines functions of the driver: with DRIVER it loads the driver when it is first
 * called and passes calls on, as some frameworks do; without it answers itself, as tests do.
 */
#include <dlfcn.h>
#include <stddef.h>

#ifdef DRIVER
static void *real(const char *name) {
    static void *driver;
    if (driver == NULL)
        driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    return driver == NULL ? NULL : dlsym(driver, name);
}

int cuInit(unsigned flags) {
    static int (*init)(unsigned);
    if (init == NULL)
        init = (int (*)(unsigned))real("cuInit");
    return init == NULL ? 100 : init(flags);
}

int cuDriverGetVersion(int *version) {
    static int (*get)(int *);
    if (get == NULL)
        get = (int (*)(int *))real("cuDriverGetVersion");
    return get == NULL ? 100 : get(version);
}
#else
int cuInit(unsigned flags) {
    return (int)flags;
}

int cuDriverGetVersion(int *version) {
    *version = 77;
    return 0;
}
#endif
