/* The pinned bounce buffer of a context, through which pageable memory is copied. */
#ifndef STAGING_H
#define STAGING_H

#include "gpu.h"

enum { CHUNK_BYTES = 256 * 1024, CHUNKS = 32 };

struct staging *staging_new(void);
void staging_free(struct staging *staging);

/* Copies between pageable memory and the device, on the calling thread. */
void staged_to_device(struct stream *stream, void *to, const void *from, size_t bytes);
void staged_to_host(struct stream *stream, void *to, const void *from, size_t bytes);

#endif
