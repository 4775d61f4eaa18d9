/*
 * A driver of a few functions that gives out, for a name that it exports, another function; and
 * that really goes when it is closed.
 */
#include <string.h>

typedef unsigned long long flags;

__attribute__((visibility("default"))) int cuInit(unsigned unused) {
    (void)unused;
    return 0;
}

__attribute__((visibility("default"))) int cuDriverGetVersion(int *version) {
    *version = NUMBER;
    return 0;
}

__attribute__((visibility("default"))) int cuCtxSynchronize(void) {
    return 1000 + NUMBER;
}

__attribute__((visibility("hidden"))) int another_synchronize(void) {
    return 2000 + NUMBER;
}

__attribute__((visibility("default"))) int cuGetProcAddress_v2(const char *name, void **address,
                                                               int version, flags unused,
                                                               int *status) {
    (void)version, (void)unused;
    *address = NULL;
    if (strcmp(name, "cuInit") == 0)
        *address = (void *)cuInit;
    else if (strcmp(name, "cuCtxSynchronize") == 0)
        *address = (void *)another_synchronize;
    else if (strcmp(name, "cuGetProcAddress") == 0)
        *address = (void *)cuGetProcAddress_v2;
    if (status != NULL)
        *status = *address == NULL;
    return *address == NULL ? 500 : 0;
}
