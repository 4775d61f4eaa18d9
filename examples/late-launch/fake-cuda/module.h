/* Functions: what a launch names. */
#ifndef MODULE_H
#define MODULE_H

#include "gpu.h"

struct module;

/* Behind CUfunction and CUkernel alike: a launch takes either. */
struct function {
    uint32_t magic;
    uint64_t id;
    struct module *module;
    const struct kernel *kernel;
};

/* NULL if the handle is not a function. */
struct function *function_of(CUfunction handle);

/* Unloads what a context that ends still has. */
void modules_release_all(struct context *context);

#endif
