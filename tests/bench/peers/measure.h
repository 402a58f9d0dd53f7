/* SPDX-License-Identifier: MIT */

/* Shared by the load generators for other lock services: the command line, the
 * clock, latencies, and the printed line. They do not link hasp. */

#ifndef HASP_TESTS_BENCH_PEERS_MEASURE_H
#define HASP_TESTS_BENCH_PEERS_MEASURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SERVER_MAX 16
#define WARM_UP_NS 500000000u
/* For each second; more are counted, but not stored. */
#define SAMPLES_PER_SECOND 500000

struct measure {
    bool is_handover; /* One lock for all; otherwise each client has its own. */
    uint32_t clients;
    double seconds;
    const char *server[SERVER_MAX];
    uint32_t server_count;
    uint64_t begin_ns; /* Start of the measurement. */
    uint64_t end_ns;
    uint64_t cycles;
    uint32_t *sample_us;
    size_t sample_count;
    size_t sample_max;
};

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* NAME cycle|handover CLIENTS SECONDS HOST:PORT... */
static inline struct measure measure_of(int argc, char **argv)
{
    struct measure measure = {0};
    if (argc < 5 || argc - 4 > SERVER_MAX) {
        fprintf(stderr, "usage: %s cycle|handover CLIENTS SECONDS SERVER...\n",
                argv[0]);
        exit(64);
    }
    measure.is_handover = strcmp(argv[1], "handover") == 0;
    measure.clients = (uint32_t)strtoul(argv[2], NULL, 10);
    measure.seconds = strtod(argv[3], NULL);
    for (int i = 4; i < argc; i++) {
        measure.server[measure.server_count++] = argv[i];
    }
    measure.sample_max = (size_t)(measure.seconds * SAMPLES_PER_SECOND) + 1;
    measure.sample_us = malloc(measure.sample_max * sizeof(uint32_t));
    return measure;
}

/* All clients are ready: counting starts half a second later. */
static inline void measure_begin(struct measure *measure)
{
    measure->begin_ns = now_ns() + WARM_UP_NS;
    measure->end_ns = measure->begin_ns + (uint64_t)(measure->seconds * 1e9);
}

/* An acquisition that began at 'asked_ns' was answered. */
static inline void measure_acquired(struct measure *measure, uint64_t asked_ns)
{
    uint64_t now = now_ns();
    if (now < measure->begin_ns || now >= measure->end_ns) {
        return;
    }
    measure->cycles++;
    if (measure->sample_count < measure->sample_max) {
        measure->sample_us[measure->sample_count++] = (uint32_t)((now -
                                                                  asked_ns) /
                                                                 1000);
    }
}

static inline int measure_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static inline void measure_report(struct measure *measure)
{
    size_t count = measure->sample_count;
    uint32_t p50 = 0, p99 = 0;
    if (count > 0) {
        qsort(measure->sample_us, count, sizeof(uint32_t), measure_compare);
        p50 = measure->sample_us[count / 2];
        p99 = measure->sample_us[count - 1 - count / 100];
    }
    printf("%.0f cycles/s p50 %u us p99 %u us\n",
           (double)measure->cycles / measure->seconds, p50, p99);
}

#endif /* HASP_TESTS_BENCH_PEERS_MEASURE_H */
