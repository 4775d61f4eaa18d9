/*
 * Latencies of calls, in constant memory: a histogram whose buckets are 1/64 of their value wide,
 * and the exact maximum. A percentile is the upper edge of its bucket, so it is never too small
 * and at most 1.6 % too large.
 *
 * A histogram belongs to one thread; those of several threads are added up when they have ended.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LATENCY_STEPS = 64, LATENCY_BUCKETS = LATENCY_STEPS * 60 };

struct latency {
    uint64_t count, max_ns;
    uint64_t bucket[LATENCY_BUCKETS];
};

/* The clock that all programs here measure with. */
uint64_t clock_ns(void);

void latency_add(struct latency *latency, uint64_t ns);
void latency_merge(struct latency *into, const struct latency *from);

/* The latency that this share of the calls does not exceed; 0 without a call. */
uint64_t latency_percentile_ns(const struct latency *latency, double share);

/* One line for people, or the members of a JSON object, without its braces. */
void latency_print(const char *name, const struct latency *latency);
void latency_print_json(const struct latency *latency);

#ifdef __cplusplus
}
#endif
#endif
