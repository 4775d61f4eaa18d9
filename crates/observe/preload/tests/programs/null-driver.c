/*
 * A driver whose calls cost next to nothing, to measure what a hook adds to them. A stream has work
 * from its first launch until it is waited for; asked, it is never ready.
 */
#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, NOT_READY = 600 };

EXPORT int cuInit(unsigned flags) {
    (void)flags;
    return SUCCESS;
}

EXPORT int cuCtxGetCurrent(void **context) {
    *context = (void *)0x1000;
    return SUCCESS;
}

EXPORT int cuCtxSetCurrent(void *context) {
    (void)context;
    return SUCCESS;
}

EXPORT int cuStreamGetCtx(void *stream, void **context) {
    (void)stream;
    *context = (void *)0x1000;
    return SUCCESS;
}

EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned bytes,
                          void *stream, void **params, void **extra) {
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
    (void)block_z, (void)bytes, (void)stream, (void)params, (void)extra;
    return SUCCESS;
}

EXPORT int cuStreamSynchronize(void *stream) {
    (void)stream;
    return SUCCESS;
}

EXPORT int cuStreamQuery(void *stream) {
    (void)stream;
    return NOT_READY;
}
