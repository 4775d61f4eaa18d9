/* Which memory is the device's, or pinned: an address space shared with the host. */
#ifndef MEMORY_H
#define MEMORY_H

#include "fake.h"

enum memory_kind {
    PAGEABLE, /* not in the map: ordinary memory of the process */
    DEVICE,
    PINNED,     /* cuMemAllocHost */
    REGISTERED, /* cuMemHostRegister: pinned, but the application's own */
};

/* What the bytes belong to; PAGEABLE too if they lie only partly in an entry of the map. */
enum memory_kind memory_kind_of(const void *address, size_t bytes);

/* The same with map_rwlock held, for callers who look up several. */
enum memory_kind memory_find(const void *address, size_t bytes);

/* Gives pages back to the system. For pinned and device memory that is no longer in the map. */
void memory_unmap(void *base, size_t bytes);

/* Frees what a context that ends still has. */
void memory_release_all(const struct context *context);

/* Pages that are there before they are touched, as device memory is. NULL if there are none. */
void *memory_pages(size_t bytes);

#endif
