/*
 * Copies of pageable memory.
 *
 * The GPU cannot read memory that the kernel may page out. The calling thread copies it, chunk by
 * chunk, into a pinned bounce buffer, and the copy engine from there to the device; the other
 * direction likewise. There is one bounce buffer, and its chunks go through the channel in one
 * piece: two mutexes are held from the first chunk to the last. That is what makes a launch late.
 *
 * Copying to the device returns when the last chunk is in the bounce buffer. If the buffer is full,
 * it waits for the copy engine, with both mutexes held.
 */
#include "staging.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct staging {
    unsigned char *buffer;
    size_t next_chunk; /* under STAGING */
    struct latch busy[CHUNKS];
};

struct staging *staging_new(void) {
    struct staging *staging = calloc(1, sizeof *staging);
    if (staging == NULL)
        return NULL;
    staging->buffer = memory_pages((size_t)CHUNKS * CHUNK_BYTES);
    if (staging->buffer == NULL) {
        free(staging);
        return NULL;
    }
    return staging;
}

void staging_free(struct staging *staging) {
    if (staging == NULL)
        return;
    memory_unmap(staging->buffer, (size_t)CHUNKS * CHUNK_BYTES);
    free(staging);
}

static void push_chunk(struct stream *stream, void *to, const void *from, size_t bytes, bool last,
                       struct latch *busy) {
    struct work work = {.kind = WORK_COPY};
    work.copy.to = to;
    work.copy.from = from;
    work.copy.bytes = bytes;
    work.copy.ends_copy = last;
    work.copy.slot = busy;
    latch_set(busy);
    stream_reserve(stream);
    lock(stream->queue_mutex);
    stream_push(stream, &work);
    unlock(stream->queue_mutex);
}

static size_t chunk_at(size_t offset, size_t bytes) {
    return bytes - offset < CHUNK_BYTES ? bytes - offset : CHUNK_BYTES;
}

static void begin(struct context *context) {
    lock(&context->locks.mutexes[STAGING]);
    lock(&context->locks.mutexes[CHANNEL]);
}

static void end(struct context *context) {
    unlock(&context->locks.mutexes[CHANNEL]);
    unlock(&context->locks.mutexes[STAGING]);
}

void staged_to_device(struct stream *stream, void *to, const void *from, size_t bytes) {
    struct staging *staging = stream->context->staging;
    begin(stream->context);
    for (size_t offset = 0; offset < bytes; offset += CHUNK_BYTES) {
        size_t chunk = staging->next_chunk++ % CHUNKS, length = chunk_at(offset, bytes);
        unsigned char *bounce = staging->buffer + chunk * CHUNK_BYTES;
        latch_wait_clear(&staging->busy[chunk]);
        memcpy(bounce, (const unsigned char *)from + offset, length);
        push_chunk(stream, (unsigned char *)to + offset, bounce, length, offset + length == bytes,
                   &staging->busy[chunk]);
    }
    end(stream->context);
}

/* The engine works a few chunks ahead of the thread that copies them out. */
void staged_to_host(struct stream *stream, void *to, const void *from, size_t bytes) {
    enum { AHEAD = 4 };
    struct staging *staging = stream->context->staging;
    size_t in = 0;
    begin(stream->context);
    size_t first = staging->next_chunk;
    for (size_t out = 0; out < bytes; out += CHUNK_BYTES) {
        for (; in < bytes && in < out + AHEAD * CHUNK_BYTES; in += CHUNK_BYTES) {
            size_t chunk = (first + in / CHUNK_BYTES) % CHUNKS, length = chunk_at(in, bytes);
            latch_wait_clear(&staging->busy[chunk]);
            push_chunk(stream, staging->buffer + chunk * CHUNK_BYTES,
                       (const unsigned char *)from + in, length, in + length == bytes,
                       &staging->busy[chunk]);
        }
        size_t chunk = (first + out / CHUNK_BYTES) % CHUNKS;
        latch_wait_clear(&staging->busy[chunk]);
        memcpy((unsigned char *)to + out, staging->buffer + chunk * CHUNK_BYTES,
               chunk_at(out, bytes));
    }
    staging->next_chunk = first + (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    end(stream->context);
}
