/* An event, which a stream records, or which a capture turns into a place in a graph. */
#ifndef EVENT_H
#define EVENT_H

#include "gpu.h"

struct event {
    uint32_t magic;
    unsigned flags;
    struct context *context;
    pthread_mutex_t *mutex;

    /* Under mutex. */
    struct fence *fence;
    uint64_t capture_id; /* of the capture that recorded it last, 0 if a stream did */
    size_t *frontier;    /* the nodes after which it was captured */
    size_t frontier_length;
};

/* capture.c: a capturing stream records the event, or waits for it, or joins its capture. */
CUresult capture_record(struct stream *stream, struct event *event);
CUresult capture_wait(struct stream *stream, struct event *event);

#endif
