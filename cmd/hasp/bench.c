/* SPDX-License-Identifier: MIT */

/* hasp bench: clients in threads, each of which acquires and releases a lock
 * over and over, waiting for every answer. */

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "cmd/hasp/tool.h"
#include "include/hasp/hasp.h"

#define CLIENTS_MAX 1000
#define SECONDS_MAX 3000

struct bench {
    struct tool *tool;
    uint64_t clients;
    uint64_t seconds;
    uint64_t locks; /* 0: as many as clients. */
    const char *prefix;
    uint64_t end_ns;
    atomic_uint_least64_t cycles;
    atomic_bool is_stopped;
};

struct worker {
    struct bench *bench;
    pthread_t thread;
    uint64_t number;
    uint32_t *took_us;
    size_t count;
    uint32_t capacity;
    int error;
    char why[HASP_WHY_SIZE];
};

static const struct field bench_fields[] = {
    {"clients", "CLIENTS", FIELD_NUMBER},
    {"locks", "LOCKS", FIELD_NUMBER},
    {"seconds", "SECONDS", FIELD_TEXT},
    {"cycles", "CYCLES", FIELD_NUMBER},
    {"cycles_per_second", "CYCLES/S", FIELD_NUMBER},
    {"p50_us", "P50 US", FIELD_NUMBER},
    {"p99_us", "P99 US", FIELD_NUMBER},
    {"max_us", "MAX US", FIELD_NUMBER},
    {"errors", "ERRORS", FIELD_NUMBER},
    {0},
};

static atomic_bool was_interrupted;

static void interrupt(int number)
{
    (void)number;
    atomic_store(&was_interrupted, true);
}

static bool is_over(const struct bench *bench)
{
    return client_now_ns() >= bench->end_ns ||
           atomic_load(&bench->is_stopped) || atomic_load(&was_interrupted);
}

/* Acquires, waiting if others have it, and gives it back. */
static int cycle(struct worker *worker, struct hasp_session *session)
{
    const struct bench *bench = worker->bench;
    struct hasp_hold *hold;
    struct hasp_acquire_options options;
    char name[256];
    hasp_acquire_options_init(&options);
    options.wait_ms = bench->tool->timeout_ms + bench->seconds * 1000;
    snprintf(name, sizeof name, "%.200s%" PRIu64, bench->prefix,
             worker->number % bench->locks);
    int error = hasp_acquire(session, name, &options, &hold);
    return error != 0 ? error : hasp_release(hold);
}

static void note(struct worker *worker, uint64_t took_ns)
{
    ROOM(worker->took_us, worker->capacity, worker->count + 1);
    uint64_t took_us = took_ns / 1000;
    worker->took_us[worker->count++] = took_us < UINT32_MAX ? (uint32_t)took_us
                                                            : UINT32_MAX;
    atomic_fetch_add(&worker->bench->cycles, 1);
}

static void *work(void *data)
{
    struct worker *worker = data;
    struct bench *bench = worker->bench;
    struct hasp_session *session;
    struct hasp_options options;
    hasp_options_init(&options);
    options.endpoints = bench->tool->endpoints_text;
    options.tls = bench->tool->tls_text;
    options.secret_file = bench->tool->secret_text;
    options.name = PROCESS;
    options.timeout_ms = tool_timeout_ms(bench->tool);
    worker->error = hasp_open(&options, &session);
    bool is_open = worker->error == 0;
    while (worker->error == 0 && !is_over(bench)) {
        uint64_t start_ns = client_now_ns();
        worker->error = cycle(worker, session);
        if (worker->error == 0) {
            note(worker, client_now_ns() - start_ns);
        }
    }
    if (worker->error != 0) {
        snprintf(worker->why, sizeof worker->why, "%.500s",
                 worker->error == HASP_NOT_ACQUIRED
                     ? "somebody else holds the lock"
                     : hasp_why());
        atomic_store(&bench->is_stopped, true);
    }
    if (is_open) {
        hasp_close(session);
    }
    return NULL;
}

/* On a terminal: a line that is written over each second. */
static void show_progress(const struct bench *bench)
{
    uint64_t before = 0;
    bool is_shown = isatty(STDERR_FILENO) && !bench->tool->is_quiet;
    uint64_t start_ns = bench->end_ns - bench->seconds * NS_PER_S;
    while (!is_over(bench)) {
        uint64_t look_ns = client_now_ns() + NS_PER_S;
        while (client_now_ns() < look_ns && !is_over(bench)) {
            client_sleep_ms(20);
        }
        uint64_t cycles = atomic_load(&bench->cycles);
        if (is_shown) {
            fprintf(stderr,
                    "\r\033[K%" PRIu64 " of %" PRIu64 " s, %" PRIu64
                    " cycles/s",
                    (client_now_ns() - start_ns) / NS_PER_S, bench->seconds,
                    cycles - before);
        }
        before = cycles;
    }
    if (is_shown) {
        fputs("\r\033[K", stderr);
    }
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int report(const struct bench *bench, struct worker *workers,
                  uint64_t took_ns)
{
    size_t count = 0, errors = 0;
    const struct worker *failed = NULL;
    for (uint64_t i = 0; i < bench->clients; i++) {
        count += workers[i].count;
        errors += workers[i].error != 0;
        failed = workers[i].error != 0 ? &workers[i] : failed;
    }
    uint32_t *all = memory_new((count + 1) * sizeof *all);
    count = 0;
    for (uint64_t i = 0; i < bench->clients; i++) {
        for (size_t n = 0; n < workers[i].count; n++) {
            all[count++] = workers[i].took_us[n];
        }
    }
    qsort(all, count, sizeof *all, compare);
    size_t last = count > 0 ? count - 1 : 0;
    json_auto_t *record = json_pack(
        "{s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "clients",
        (json_int_t)bench->clients, "locks", (json_int_t)bench->locks,
        "seconds", (double)(took_ns / 10000000) / 100, "cycles",
        (json_int_t)count, "cycles_per_second",
        (json_int_t)((double)count * 1e9 / (double)took_ns), "p50_us",
        (json_int_t)all[last / 2], "p99_us", (json_int_t)all[last - last / 100],
        "max_us", (json_int_t)all[last], "errors", (json_int_t)errors);
    output_record(bench->tool->format, bench_fields, record);
    free(all);
    return failed == NULL
               ? 0
               : tool_fail(
                     EX_UNAVAILABLE,
                     "%zu of %" PRIu64
                     " clients failed, so the measurement was stopped: %s",
                     errors, bench->clients, failed->why);
}

static int read_bench(struct bench *bench, char **argv)
{
    const struct option_row rows[] = {
        {'c', "clients", OPTION_NUMBER, .value = &bench->clients, .min = 1,
         .max = CLIENTS_MAX},
        {'s', "seconds", OPTION_NUMBER, .value = &bench->seconds, .min = 1,
         .max = SECONDS_MAX},
        {'l', "locks", OPTION_NUMBER, .value = &bench->locks, .min = 1},
        {0, "prefix", OPTION_TEXT, .value = &bench->prefix},
        {0},
    };
    int exit_code = options_read(bench->tool, argv, rows, 0, 0);
    if (bench->locks == 0) {
        bench->locks = bench->clients;
    }
    return exit_code;
}

int run_bench(struct tool *tool, char **argv)
{
    struct bench bench = {
        .tool = tool, .clients = 16, .seconds = 5, .prefix = "bench/"};
    struct sigaction action = {.sa_handler = interrupt,
                               .sa_flags = (int)SA_RESETHAND};
    int exit_code = read_bench(&bench, argv);
    if (exit_code != 0) {
        return exit_code;
    }
    struct worker *workers = memory_new(bench.clients * sizeof *workers);
    uint64_t start_ns = client_now_ns(), started = 0;
    bench.end_ns = start_ns + bench.seconds * NS_PER_S;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    for (; started < bench.clients; started++) {
        workers[started].bench = &bench;
        workers[started].number = started;
        if (pthread_create(&workers[started].thread, NULL, work,
                           &workers[started]) != 0) {
            exit_code = tool_fail(EX_OSERR,
                                  "cannot start more than %" PRIu64 " threads",
                                  started);
            atomic_store(&bench.is_stopped, true);
            break;
        }
    }
    show_progress(&bench);
    uint64_t took_ns = client_now_ns() - start_ns;
    for (uint64_t i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    if (exit_code == 0) {
        exit_code = report(&bench, workers, took_ns);
    }
    for (uint64_t i = 0; i < started; i++) {
        free(workers[i].took_us);
    }
    free(workers);
    return exit_code;
}
