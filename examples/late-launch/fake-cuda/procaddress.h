/* The table of entry points that the Makefile generates from the list of symbols. */
#ifndef PROCADDRESS_H
#define PROCADDRESS_H

struct entry_point {
    const char *base;   /* the name that cuGetProcAddress takes */
    int version;        /* the CUDA version that brought this form of it */
    int per_thread;     /* the form whose null stream is the calling thread's own */
    void (*address)(void);
};

extern const struct entry_point entry_points[];
extern const unsigned entry_point_count;

#endif
