/* The histogram of latency.h. */
#include "latency.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Values below 64 have a bucket each; above, every power of two is divided into 64 steps. */
static unsigned bucket_of(uint64_t ns) {
    if (ns < LATENCY_STEPS)
        return (unsigned)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    unsigned shift = power - 6;
    return (shift + 1) * LATENCY_STEPS + (unsigned)((ns >> shift) - LATENCY_STEPS);
}

static uint64_t upper_edge(unsigned bucket) {
    if (bucket < LATENCY_STEPS)
        return bucket;
    unsigned shift = bucket / LATENCY_STEPS - 1;
    uint64_t low = (uint64_t)(bucket % LATENCY_STEPS + LATENCY_STEPS) << shift;
    return low + (((uint64_t)1 << shift) - 1);
}

void latency_add(struct latency *latency, uint64_t ns) {
    latency->count++;
    latency->bucket[bucket_of(ns)]++;
    if (ns > latency->max_ns)
        latency->max_ns = ns;
}

void latency_merge(struct latency *into, const struct latency *from) {
    into->count += from->count;
    if (from->max_ns > into->max_ns)
        into->max_ns = from->max_ns;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
        into->bucket[i] += from->bucket[i];
}

uint64_t latency_percentile_ns(const struct latency *latency, double share) {
    uint64_t seen = 0;
    uint64_t wanted = (uint64_t)((double)latency->count * share);
    if ((double)wanted < (double)latency->count * share)
        wanted++;
    for (unsigned i = 0; i < LATENCY_BUCKETS && latency->count > 0; i++) {
        seen += latency->bucket[i];
        if (seen >= wanted && seen > 0) {
            uint64_t edge = upper_edge(i);
            return edge < latency->max_ns ? edge : latency->max_ns;
        }
    }
    return latency->max_ns;
}

static double us(uint64_t ns) {
    return (double)ns / 1e3;
}

void latency_print(const char *name, const struct latency *latency) {
    printf("%-10s %10" PRIu64 " calls   p50 %10.1f us   p99 %10.1f us   p99.9 %10.1f us   "
           "max %10.1f us\n",
           name, latency->count, us(latency_percentile_ns(latency, 0.5)),
           us(latency_percentile_ns(latency, 0.99)), us(latency_percentile_ns(latency, 0.999)),
           us(latency->max_ns));
}

void latency_print_json(const struct latency *latency) {
    printf("\"count\": %" PRIu64 ", \"p50_us\": %.3f, \"p99_us\": %.3f, \"p999_us\": %.3f, "
           "\"max_us\": %.3f",
           latency->count, us(latency_percentile_ns(latency, 0.5)),
           us(latency_percentile_ns(latency, 0.99)), us(latency_percentile_ns(latency, 0.999)),
           us(latency->max_ns));
}
