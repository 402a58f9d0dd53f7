/* SPDX-License-Identifier: MIT */

/* hasp bench: clients in threads, each of which acquires and releases a lock
 * repeatedly. Each represents a program, so it has its own connection; with
 * --shared all are one program.
 *
 * In a closed loop each client sends its next request after the answer: that is
 * the highest rate, but a slow cluster gets fewer requests and looks better
 * than it is. In an open loop (--rate, --open-loop) cycles begin on a schedule,
 * whatever happened to the ones before, and the time since a cycle was due is
 * reported. */

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "cmd/hasp/tool.h"
#include "include/hasp/hasp.h"

#define CLIENTS_MAX 1000
#define SECONDS_MAX 3000
#define RATE_MAX 10000000

struct bench {
    struct tool *tool;
    uint64_t clients;
    uint64_t seconds;
    uint64_t locks; /* 0 for as many as clients. */
    const char *prefix;
    uint64_t rate; /* Cycles that are due per second; 0 for a closed loop. */
    /* Also run at fractions of the closed loop's rate. */
    bool is_open_loop;
    bool is_shared;  /* The clients are one program with one connection. */
    char load[24];   /* Description of this run, for people. */
    json_t *records; /* The records of all runs. */
    /* 0 until all clients have their sessions. */
    atomic_uint_least64_t start_ns;
    /* Clients that have a session or failed to open one. */
    atomic_uint_least64_t ready;
    atomic_uint_least64_t cycles;
    atomic_bool is_stopped;
};

struct bench_worker {
    struct bench *bench;
    pthread_t thread;
    uint64_t number;
    uint32_t *took_us;
    size_t count;
    uint32_t capacity;
    uint64_t missed; /* Cycles that were due, and never began. */
    int error;
    char why[HASP_WHY_SIZE];
};

static const struct view_field bench_fields[] = {
    {"load", "LOAD", FIELD_TEXT},
    {"clients", "CLIENTS", FIELD_NUMBER},
    {"locks", "LOCKS", FIELD_NUMBER},
    {"seconds", "SECONDS", FIELD_TEXT},
    {"cycles", "CYCLES", FIELD_NUMBER},
    {"cycles_per_second", "CYCLES/S", FIELD_NUMBER},
    {"p50_us", "P50 US", FIELD_NUMBER},
    {"p99_us", "P99 US", FIELD_NUMBER},
    {"p999_us", "P99.9 US", FIELD_NUMBER},
    {"max_us", "MAX US", FIELD_NUMBER},
    {"missed", "MISSED", FIELD_NUMBER},
    {"errors", "ERRORS", FIELD_NUMBER},
    {0},
};

static atomic_bool was_interrupted;

static void bench_interrupt(int number)
{
    (void)number;
    atomic_store(&was_interrupted, true);
}

static bool is_cancelled(const struct bench *bench)
{
    return atomic_load(&bench->is_stopped) || atomic_load(&was_interrupted);
}

static uint64_t end_ns(const struct bench *bench)
{
    return atomic_load(&bench->start_ns) + bench->seconds * NS_PER_S;
}

static bool is_over(const struct bench *bench)
{
    return client_now_ns() >= end_ns(bench) || is_cancelled(bench);
}

/* Acquires a lock, waiting if it is held, and releases it. */
static int bench_cycle(struct bench_worker *worker,
                       struct hasp_session *session)
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
    return error ?: hasp_release(hold);
}

static void bench_note(struct bench_worker *worker, uint64_t took_ns)
{
    ROOM(worker->took_us, worker->capacity, worker->count + 1);
    uint64_t took_us = took_ns / 1000;
    worker->took_us[worker->count++] = took_us < UINT32_MAX ? (uint32_t)took_us
                                                            : UINT32_MAX;
    atomic_fetch_add(&worker->bench->cycles, 1);
}

static void one_cycle(struct bench_worker *worker, struct hasp_session *session,
                      uint64_t since_ns)
{
    worker->error = bench_cycle(worker, session);
    if (worker->error == 0) {
        bench_note(worker, client_now_ns() - since_ns);
    }
}

static void closed_loop(struct bench_worker *worker,
                        struct hasp_session *session)
{
    while (worker->error == 0 && !is_over(worker->bench)) {
        one_cycle(worker, session, client_now_ns());
    }
}

static void bench_sleep_until(uint64_t due_ns)
{
    struct timespec due = {(time_t)(due_ns / NS_PER_S),
                           (long)(due_ns % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) ==
           EINTR) {
    }
}

/* The clients share the cycles that are due. A late cycle begins at once.
 * After the end there is as much time again to catch up; a cycle that has not
 * begun by then is missed. */
static void open_loop(struct bench_worker *worker, struct hasp_session *session)
{
    const struct bench *bench = worker->bench;
    uint64_t start_ns = atomic_load(&bench->start_ns);
    uint64_t last_ns = end_ns(bench) + bench->seconds * NS_PER_S;
    uint64_t count = bench->seconds * bench->rate;
    for (uint64_t i = worker->number; i < count && worker->error == 0;
         i += bench->clients) {
        uint64_t due_ns = start_ns +
                          (uint64_t)((double)i * 1e9 / (double)bench->rate);
        bench_sleep_until(due_ns);
        if (client_now_ns() >= last_ns || is_cancelled(bench)) {
            worker->missed += (count - i - 1) / bench->clients + 1;
            return;
        }
        one_cycle(worker, session, due_ns);
    }
}

static void *bench_work(void *data)
{
    struct bench_worker *worker = data;
    struct bench *bench = worker->bench;
    struct hasp_session *session;
    struct hasp_options options;
    tool_session_options(bench->tool, &options);
    options.name = PROCESS;
    options.own_connection = !bench->is_shared;
    worker->error = hasp_open(&options, &session);
    bool is_open = worker->error == 0;
    atomic_fetch_add(&bench->ready, 1);
    while (is_open && atomic_load(&bench->start_ns) == 0 &&
           !is_cancelled(bench)) {
        client_sleep_ms(1);
    }
    if (is_open && !is_cancelled(bench)) {
        (bench->rate == 0 ? closed_loop : open_loop)(worker, session);
    }
    if (worker->error != 0) {
        snprintf(worker->why, sizeof worker->why, "%.500s",
                 worker->error == HASP_NOT_ACQUIRED
                     ? "another client holds the lock"
                     : hasp_why());
        atomic_store(&bench->is_stopped, true);
    }
    if (is_open) {
        hasp_close(session);
    }
    return NULL;
}

/* Shows progress on a terminal, in a line that is overwritten each second. */
static void bench_show_progress(const struct bench *bench)
{
    uint64_t before = 0;
    bool is_shown = isatty(STDERR_FILENO) && !bench->tool->is_quiet;
    uint64_t start_ns = atomic_load(&bench->start_ns);
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

static int bench_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The sample below which 'per_mille' of 1000 lie. */
static uint32_t bench_part_of(const uint32_t *sorted, size_t count,
                              size_t per_mille)
{
    return count == 0 ? 0 : sorted[(count - 1) * per_mille / 1000];
}

static int bench_report(const struct bench *bench, struct bench_worker *workers,
                        uint64_t took_ns, uint64_t *ret_rate)
{
    size_t count = 0, errors = 0, missed = 0;
    const struct bench_worker *failed = NULL;
    for (uint64_t i = 0; i < bench->clients; i++) {
        count += workers[i].count;
        errors += workers[i].error != 0;
        missed += workers[i].missed;
        failed = workers[i].error != 0 ? &workers[i] : failed;
    }
    uint32_t *all = memory_new((count + 1) * sizeof *all);
    count = 0;
    for (uint64_t i = 0; i < bench->clients; i++) {
        for (size_t n = 0; n < workers[i].count; n++) {
            all[count++] = workers[i].took_us[n];
        }
    }
    qsort(all, count, sizeof *all, bench_compare);
    *ret_rate = (uint64_t)((double)count * 1e9 / (double)took_ns);
    json_auto_t *record = json_pack(
        "{s:s, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "load",
        bench->load, "clients", (json_int_t)bench->clients, "locks",
        (json_int_t)bench->locks, "seconds", (double)(took_ns / 10000000) / 100,
        "cycles", (json_int_t)count, "cycles_per_second", (json_int_t)*ret_rate,
        "p50_us", (json_int_t)bench_part_of(all, count, 500), "p99_us",
        (json_int_t)bench_part_of(all, count, 990), "p999_us",
        (json_int_t)bench_part_of(all, count, 999), "max_us",
        (json_int_t)bench_part_of(all, count, 1000), "missed",
        (json_int_t)missed, "errors", (json_int_t)errors);
    json_array_append(bench->records, record);
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
        {"clients", OPTION_NUMBER, .value = &bench->clients, .min = 1,
         .max = CLIENTS_MAX},
        {"seconds", OPTION_NUMBER, .value = &bench->seconds, .min = 1,
         .max = SECONDS_MAX},
        {"locks", OPTION_NUMBER, .value = &bench->locks, .min = 1},
        {"prefix", OPTION_TEXT, .value = &bench->prefix},
        {"rate", OPTION_NUMBER, .value = &bench->rate, .min = 1,
         .max = RATE_MAX},
        {"open-loop", OPTION_FLAG, .value = &bench->is_open_loop},
        {"shared", OPTION_FLAG, .value = &bench->is_shared},
        {0},
    };
    int exit_code = options_read(bench->tool, argv, rows, 0, 0);
    if (bench->locks == 0) {
        bench->locks = bench->clients;
    }
    return exit_code;
}

/* Starts all clients at once, when each has its session. */
static uint64_t bench_start(struct bench *bench, uint64_t count)
{
    while (atomic_load(&bench->ready) < count && !is_cancelled(bench)) {
        client_sleep_ms(1);
    }
    uint64_t now_ns = client_now_ns();
    atomic_store(&bench->start_ns, now_ns);
    return now_ns;
}

/* Runs one load; '*ret_rate' is the number of cycles per second. */
static int run_load(struct bench *bench, uint64_t *ret_rate)
{
    struct bench_worker *workers = memory_new(bench->clients * sizeof *workers);
    uint64_t started = 0;
    int exit_code = 0;
    atomic_store(&bench->start_ns, 0);
    atomic_store(&bench->ready, 0);
    atomic_store(&bench->cycles, 0);
    for (; started < bench->clients; started++) {
        workers[started].bench = bench;
        workers[started].number = started;
        if (pthread_create(&workers[started].thread, NULL, bench_work,
                           &workers[started]) != 0) {
            exit_code = tool_fail(EX_OSERR,
                                  "cannot start more than %" PRIu64 " threads",
                                  started);
            atomic_store(&bench->is_stopped, true);
            break;
        }
    }
    uint64_t start_ns = bench_start(bench, started);
    bench_show_progress(bench);
    uint64_t took_ns = client_now_ns() - start_ns;
    for (uint64_t i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    exit_code = exit_code ?: bench_report(bench, workers, took_ns, ret_rate);
    for (uint64_t i = 0; i < started; i++) {
        free(workers[i].took_us);
    }
    free(workers);
    return exit_code;
}

int run_bench(struct tool *tool, char **argv)
{
    static const uint64_t parts[] = {10, 50, 80};
    struct bench bench = {
        .tool = tool, .clients = 16, .seconds = 5, .prefix = "bench/"};
    struct sigaction action = {.sa_handler = bench_interrupt,
                               .sa_flags = (int)SA_RESETHAND};
    uint64_t most = 0, reached;
    int exit_code = read_bench(&bench, argv);
    if (exit_code != 0) {
        return exit_code;
    }
    bench.records = json_array();
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    snprintf(bench.load, sizeof bench.load, "closed");
    if (bench.rate != 0) {
        snprintf(bench.load, sizeof bench.load, "%" PRIu64 "/s", bench.rate);
    }
    exit_code = run_load(&bench, &most);
    for (size_t i = 0; bench.is_open_loop && exit_code == 0 &&
                       i < sizeof parts / sizeof parts[0];
         i++) {
        bench.rate = most * parts[i] / 100 > 0 ? most * parts[i] / 100 : 1;
        snprintf(bench.load, sizeof bench.load, "%" PRIu64 " %%", parts[i]);
        exit_code = is_cancelled(&bench) ? 0 : run_load(&bench, &reached);
    }
    if (bench.is_open_loop) {
        output_rows(tool->format, bench_fields, bench.records);
    } else if (json_array_size(bench.records) > 0) {
        output_record(tool->format, bench_fields,
                      json_array_get(bench.records, 0));
    }
    json_decref(bench.records);
    return exit_code;
}
