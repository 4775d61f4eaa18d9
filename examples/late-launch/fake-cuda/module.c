/*
 * Modules and libraries: PTX text of which only the names of the entries are read.
 *
 * A function can be had if the PTX declares an entry of its name and kernels.c implements it. What
 * the PTX says the kernel does is not looked at.
 */
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODULE_MAGIC = 0x4d4f4455, FUNCTION_MAGIC = 0x46554e43, LIBRARY_MAGIC = 0x4c494252 };

struct module {
    uint32_t magic;      /* of a module or of a library */
    struct module *next; /* of the same context, under MODULES; libraries belong to none */
    size_t functions;
    char **names;
    struct function *function;
};

static atomic_ullong function_ids;

struct function *function_of(CUfunction handle) {
    struct function *function = (struct function *)handle;
    return function != NULL && function->magic == FUNCTION_MAGIC ? function : NULL;
}

/* ---- Reading PTX --------------------------------------------------------------------------- */

static const char *skip_blank(const char *at) {
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end != NULL ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

/* The name of the next entry from here on, and where to go on; NULL if there is none. */
static const char *next_entry(const char *at, size_t *length, const char **rest) {
    while (*(at = skip_blank(at)) != '\0') {
        size_t word = strcspn(at, " \t\r\n/");
        if (word == strlen(".entry") && strncmp(at, ".entry", word) == 0) {
            at = skip_blank(at + word);
            *length = strcspn(at, " \t\r\n(){};,/");
            *rest = at + *length;
            return *length > 0 ? at : NULL;
        }
        at += word > 0 ? word : 1;
    }
    return NULL;
}

static size_t count_entries(const char *text) {
    size_t entries = 0, length;
    while (next_entry(text, &length, &text) != NULL)
        entries++;
    return entries;
}

static void free_module(struct module *module) {
    module->magic = 0;
    for (size_t i = 0; module->names != NULL && i < module->functions; i++)
        free(module->names[i]);
    for (size_t i = 0; module->function != NULL && i < module->functions; i++)
        module->function[i].magic = 0;
    free(module->names);
    free(module->function);
    free(module);
}

static bool fill_module(struct module *module, const char *text) {
    module->names = calloc(module->functions, sizeof *module->names);
    module->function = calloc(module->functions, sizeof *module->function);
    if (module->names == NULL || module->function == NULL)
        return false;
    for (size_t i = 0; i < module->functions; i++) {
        size_t length;
        const char *name = next_entry(text, &length, &text);
        module->names[i] = strndup(name, length);
        if (module->names[i] == NULL)
            return false;
        module->function[i] = (struct function){
            .magic = FUNCTION_MAGIC,
            .id = atomic_fetch_add(&function_ids, 1),
            .module = module,
            .kernel = kernel_named(module->names[i]),
        };
    }
    return true;
}

static CUresult read_ptx(const void *image, uint32_t magic, struct module **read) {
    if (image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const char *text = skip_blank(image);
    if (strncmp(text, ".version", strlen(".version")) != 0)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    struct module *module = calloc(1, sizeof *module);
    if (module == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->magic = magic;
    module->functions = count_entries(text);
    if (module->functions == 0 || !fill_module(module, text)) {
        CUresult rc = module->functions == 0 ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_OUT_OF_MEMORY;
        free_module(module);
        return rc;
    }
    *read = module;
    return CUDA_SUCCESS;
}

static CUresult read_file(const char *path, char **text) {
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    if (file == NULL)
        return path == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_FILE_NOT_FOUND;
    size_t capacity = 0;
    *text = NULL;
    ssize_t length = getdelim(text, &capacity, '\0', file);
    fclose(file);
    if (length >= 0)
        return CUDA_SUCCESS;
    free(*text);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

static CUresult find_function(const struct module *module, const char *name,
                              struct function **found) {
    for (size_t i = 0; i < module->functions; i++) {
        if (strcmp(module->names[i], name) != 0)
            continue;
        if (module->function[i].kernel == NULL) {
            fprintf(stderr, "fake libcuda: kernel %s: not implemented here; there are %s\n", name,
                    kernel_names());
            return CUDA_ERROR_NOT_FOUND;
        }
        *found = &module->function[i];
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- Modules ------------------------------------------------------------------------------- */

static CUresult load(void **handle, const void *image, uint32_t magic) {
    struct context *context;
    struct module *module = NULL;
    CUresult rc = handle != NULL ? enter(&context) : CUDA_ERROR_INVALID_VALUE;
    if (rc != CUDA_SUCCESS)
        return rc;
    lock_exclusive(&context->locks.rwlocks[MODULES]);
    rc = read_ptx(image, magic, &module);
    if (rc == CUDA_SUCCESS && magic == MODULE_MAGIC) {
        module->next = context->modules;
        context->modules = module;
    }
    unlock_rw(&context->locks.rwlocks[MODULES]);
    if (rc == CUDA_SUCCESS)
        *handle = module;
    return rc;
}

static CUresult load_file(void **handle, const char *path, uint32_t magic) {
    char *text;
    CUresult rc = read_file(path, &text);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = load(handle, text, magic);
    free(text);
    return rc;
}

static CUresult unload(void *handle, uint32_t magic) {
    struct context *context;
    struct module *module = handle;
    CUresult rc = enter(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (module == NULL || module->magic != magic)
        return CUDA_ERROR_INVALID_HANDLE;
    context_drain(context);
    lock_exclusive(&context->locks.rwlocks[MODULES]);
    struct module **link = &context->modules;
    while (*link != NULL && *link != module)
        link = &(*link)->next;
    bool own = magic == LIBRARY_MAGIC || *link == module;
    if (own && *link == module)
        *link = module->next;
    if (own)
        free_module(module);
    unlock_rw(&context->locks.rwlocks[MODULES]);
    return own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void modules_release_all(struct context *context) {
    lock_exclusive(&context->locks.rwlocks[MODULES]);
    while (context->modules != NULL) {
        struct module *module = context->modules;
        context->modules = module->next;
        free_module(module);
    }
    unlock_rw(&context->locks.rwlocks[MODULES]);
}

static CUresult get(void **handle, void *owner, const char *name, uint32_t magic) {
    struct context *context;
    struct module *module = owner;
    struct function *function = NULL;
    CUresult rc = enter(&context);
    if (rc != CUDA_SUCCESS)
        return rc;
    if (handle == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (module == NULL || module->magic != magic)
        return CUDA_ERROR_INVALID_HANDLE;
    lock_shared(&context->locks.rwlocks[MODULES]);
    rc = find_function(module, name, &function);
    unlock_rw(&context->locks.rwlocks[MODULES]);
    if (rc == CUDA_SUCCESS)
        *handle = function;
    return rc;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return load((void **)module, image, MODULE_MAGIC);
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned options,
                                   void *names, void *values) {
    (void)options;
    (void)names;
    (void)values;
    return load((void **)module, image, MODULE_MAGIC);
}

EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path) {
    return load_file((void **)module, path, MODULE_MAGIC);
}

EXPORT CUresult cuModuleUnload(CUmodule module) {
    return unload(module, MODULE_MAGIC);
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    return get((void **)function, module, name, MODULE_MAGIC);
}

/* ---- Libraries: the same for all contexts -------------------------------------------------- */

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, void *jit_options,
                                  void **jit_values, unsigned jit_count, void *library_options,
                                  void **library_values, unsigned library_count) {
    (void)jit_options;
    (void)jit_values;
    (void)jit_count;
    (void)library_options;
    (void)library_values;
    (void)library_count;
    return load((void **)library, code, LIBRARY_MAGIC);
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, void *jit_options,
                                      void **jit_values, unsigned jit_count,
                                      void *library_options, void **library_values,
                                      unsigned library_count) {
    (void)jit_options;
    (void)jit_values;
    (void)jit_count;
    (void)library_options;
    (void)library_values;
    (void)library_count;
    return load_file((void **)library, path, LIBRARY_MAGIC);
}

EXPORT CUresult cuLibraryUnload(CUlibrary library) {
    return unload(library, LIBRARY_MAGIC);
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    return get((void **)kernel, library, name, LIBRARY_MAGIC);
}

EXPORT CUresult cuLibraryGetKernelCount(unsigned *kernels, CUlibrary library) {
    const struct module *module = (struct module *)library;
    if (kernels == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (module == NULL || module->magic != LIBRARY_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    *kernels = (unsigned)module->functions;
    return CUDA_SUCCESS;
}

/* ---- What a function is -------------------------------------------------------------------- */

static CUresult name_of(const char **name, void *handle) {
    const struct function *function = function_of(handle);
    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *name = function->kernel->name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction function) {
    return name_of(name, function);
}

EXPORT CUresult cuKernelGetName(const char **name, CUkernel kernel) {
    return name_of(name, kernel);
}

EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    if (function_of((CUfunction)kernel) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

static CUresult owner_of(void **owner, void *handle, uint32_t magic) {
    const struct function *function = function_of(handle);
    if (function == NULL || function->module->magic != magic)
        return CUDA_ERROR_INVALID_HANDLE;
    if (owner == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *owner = function->module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
    return owner_of((void **)module, function, MODULE_MAGIC);
}

EXPORT CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
    return owner_of((void **)library, kernel, LIBRARY_MAGIC);
}

EXPORT CUresult cuFuncLoad(CUfunction function) {
    return function_of(function) != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Attribute 0 is the largest block; the others that exist are 0 for a kernel in C. */
EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    if (function_of(function) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (value == NULL || attribute < 0)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == 0 ? 1024 : 0;
    return CUDA_SUCCESS;
}
