/* SPDX-License-Identifier: MIT */

/* The simulator: whole nodes and clients in one process on virtual time.
 *
 *     sim [--seed N] [--seeds K] [--nodes 3|5] [--seconds S] [--jobs J]
 *         [--clients N] [--skip-faults LIST] [--without LIST] [--coverage]
 *         [--pairs N] [--plant] [--verbose]
 *
 * runs K seeds from N on, each S simulated seconds of faults, then a calm in
 * which there must be progress, then an end after which nothing may be left. A
 * run is decided by its seed alone. A failing run prints the broken rule, the
 * oracle that reported it (sim_oracles.h lists them) and the command that
 * repeats it. --without leaves out some oracles, by number. With fewer clients,
 * or without some faults ("3,7-9": their numbers are in the trace), the rest of
 * the run changes, too. --coverage prints in how many runs which faults, pairs
 * of faults and states were reached (sim_cover.h). --pairs prints in how many
 * lives each pair of options occurred (sim_pairs.h), and fails if one occurred
 * in fewer than N. --plant puts a bug into the rogues, which then trust their
 * sessions forever: for tests of which oracles see it. tests/sim/README.md
 * explains how it works. */

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_cover.h"
#include "tests/sim/sim_pairs.h"
#include "tests/unit/lockfsm_delta.h"

/* What a worker process reports of a seed. */
struct outcome {
    bool is_over; /* False: the process died. */
    bool has_failed;
    enum sim_oracle oracle; /* 0: none, the program died. */
    uint64_t trace;
    struct sim_stats stats;
    struct sim_cover cover;
    char why[1024];
};

/* What the processes of a batch share. */
struct shared {
    _Atomic uint64_t next; /* The first seed that no job has begun. */
    struct outcome outcomes[];
};

struct batch {
    struct sim_options options; /* The seed is the first one. */
    uint64_t seed_count;
    uint32_t job_count;
    bool shows_coverage;
    uint32_t pair_least; /* Required lives of each pair of options; 0: not
                            checked. */
};

static void log_line(void *data, enum log_level level, const char *event,
                     const char *fields)
{
    struct sim *sim = data;
    sim_say(sim, NULL, "log %s: %s %s", log_level_name(level), event, fields);
}

static void run_seed(const struct batch *batch, uint64_t seed,
                     struct outcome *outcome)
{
    static struct sim sim;
    struct sim_options options = batch->options;
    options.seed = seed;
    if (options.is_verbose) {
        log_set_level(LOG_DEBUG_LEVEL);
        log_set_sink(log_line, &sim);
        setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    }
    sim_run(&sim, &options);
    outcome->has_failed = sim.has_failed;
    outcome->oracle = sim.oracle;
    outcome->trace = sim.trace;
    outcome->stats = sim.stats;
    outcome->cover = sim.cover;
    memcpy(outcome->why, sim.why, sizeof outcome->why);
    sim_done(&sim);
    outcome->is_over = true;
    fflush(stdout);
}

static void print_violation(uint64_t seed, const struct outcome *outcome)
{
    printf("seed %" PRIu64 ": %s\n", seed, outcome->why);
    if (outcome->oracle != 0) {
        printf("  seen by oracle %d\n", (int)outcome->oracle);
    }
}

/* Runs seeds that no other job has begun. Each seed has its own process, so
 * that one that dies is identified and the rest continues. */
static void run_job(const struct batch *batch, struct shared *shared)
{
    struct outcome *outcomes = shared->outcomes;
    uint64_t i;
    while ((i = atomic_fetch_add(&shared->next, 1)) < batch->seed_count) {
        uint64_t seed = batch->options.seed + i;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            run_seed(batch, seed, &outcomes[i]);
            /* Not _exit(): gcov and the sanitizers report at the end. */
            exit(0);
        }
        int status = 0;
        CHECK(waitpid(pid, &status, 0) == pid);
        struct outcome *outcome = &outcomes[i];
        if (!outcome->is_over || (status != 0 && !outcome->has_failed)) {
            outcome->has_failed = true;
            outcome->oracle = 0;
            snprintf(outcome->why, sizeof outcome->why,
                     "the program does not crash: it ended with status %d",
                     WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                         : WEXITSTATUS(status));
        }
        if (outcome->has_failed) {
            print_violation(seed, outcome);
            printf("  repeat: sim --seed %" PRIu64 " --seconds %u%s%c "
                   "--verbose\n",
                   seed, batch->options.seconds,
                   batch->options.node_count != 0 ? " --nodes " : "",
                   batch->options.node_count != 0
                       ? (char)('0' + batch->options.node_count)
                       : ' ');
            fflush(stdout);
        }
    }
}

static void add(struct sim_stats *sum, const struct sim_stats *one)
{
    /* All fields are numbers of one type. */
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)one;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++) {
        to[i] += from[i];
    }
}

static int report(const struct batch *batch, const struct outcome *outcomes)
{
    struct sim_stats sum = {0};
    static struct sim_cover cover;
    uint64_t failed = 0, trace = 0;
    for (uint64_t i = 0; i < batch->seed_count; i++) {
        add(&sum, &outcomes[i].stats);
        sim_cover_add(&cover, &outcomes[i].cover);
        failed += outcomes[i].has_failed ? 1 : 0;
        trace = trace * 31 + outcomes[i].trace;
    }
    printf("seeds %" PRIu64 " hours %.2f entries %" PRIu64
           " operations %" PRIu64 " (asked again %" PRIu64 ") grants %" PRIu64
           " beats %" PRIu64 " reads %" PRIu64 " expired %" PRIu64
           " lost %" PRIu64 " crashes %" PRIu64 " pauses %" PRIu64
           " partitions %" PRIu64 " cuts %" PRIu64 " disk faults %" PRIu64
           " leaders %" PRIu64 " changes %" PRIu64 " snapshots %" PRIu64
           " installs %" PRIu64 " transfers %" PRIu64 " relays %" PRIu64
           " replaced %" PRIu64 " moved %" PRIu64 " taken %" PRIu64
           " raised %" PRIu64 " too old %" PRIu64 " votes taken %" PRIu64
           " rot refused %" PRIu64 " condemned %" PRIu64 " removed %" PRIu64
           " pushes %" PRIu64 " promises %" PRIu64 " events %" PRIu64
           " gaps %" PRIu64 " listings %" PRIu64 " died %" PRIu64
           " crowds %" PRIu64 " drawn %" PRIu64 " durable %" PRIu64
           " full %" PRIu64 " backups %" PRIu64 " restores %" PRIu64
           " administered %" PRIu64 " denials %" PRIu64 " violations %" PRIu64
           " trace %016" PRIx64 "\n",
           batch->seed_count, (double)sum.simulated_ns / 3.6e12, sum.entries,
           sum.operations, sum.unknowns, sum.grants, sum.beats, sum.reads,
           sum.expired, sum.lost, sum.crashes, sum.pauses, sum.partitions,
           sum.cuts, sum.disk_faults, sum.leaders, sum.changes, sum.snapshots,
           sum.installs, sum.transfers, sum.relays, sum.replaced, sum.moved,
           sum.taken, sum.raised, sum.too_old, sum.votes_taken, sum.refused,
           sum.condemned, sum.removed, sum.pushes, sum.promises, sum.events,
           sum.gaps, sum.listings, sum.died, sum.crowds, sum.drawn,
           sum.durables, sum.refused_full, sum.backups, sum.restores,
           sum.administered, sum.denials, failed, trace);
    if (batch->shows_coverage) {
        sim_cover_print(&cover);
    }
    uint32_t wrong = 0;
    if (batch->shows_coverage || batch->pair_least != 0) {
        wrong = sim_pairs_print(&cover, batch->pair_least);
    }
    printf("sim: %" PRIu64 " passed, %" PRIu64 " failed\n",
           batch->seed_count - failed, failed);
    return failed == 0 && (wrong == 0 || batch->pair_least == 0) ? 0 : 1;
}

static int run_batch(const struct batch *batch)
{
    size_t size = sizeof(struct shared) +
                  batch->seed_count * sizeof(struct outcome);
    struct shared *shared = mmap(NULL, size, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    struct outcome *outcomes = shared->outcomes;
    if (batch->seed_count == 1) {
        run_seed(batch, batch->options.seed, &outcomes[0]);
        if (outcomes[0].has_failed) {
            print_violation(batch->options.seed, &outcomes[0]);
        }
        return report(batch, outcomes);
    }
    for (uint32_t job = 1; job < batch->job_count; job++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            run_job(batch, shared);
            _exit(0);
        }
    }
    run_job(batch, shared);
    while (wait(NULL) > 0) {
        continue;
    }
    int result = report(batch, outcomes);
    munmap(shared, size);
    return result;
}

static uint64_t number(const char *text)
{
    uint64_t value = 0;
    if (!bytes_to_u64(bytes_of_text(text), &value)) {
        fprintf(stderr, "sim: not a number: '%s'\n", text);
        exit(64);
    }
    return value;
}

/* "3,7-9": sets the elements with these numbers, from 1 to 'most'. */
static void take_list(const char *text, unsigned long most, bool *is_set)
{
    while (*text != '\0') {
        char *end;
        unsigned long from = strtoul(text, &end, 10);
        unsigned long to = *end == '-' ? strtoul(end + 1, &end, 10) : from;
        if (from == 0 || to < from || to > most ||
            (*end != ',' && *end != '\0')) {
            fprintf(stderr, "sim: not a list of numbers from 1 to %lu: '%s'\n",
                    most, text);
            exit(64);
        }
        for (; from <= to; from++) {
            is_set[from] = true;
        }
        text = *end == ',' ? end + 1 : end;
    }
}

static bool take_option(struct batch *batch, int option)
{
    switch (option) {
    case 's':
        batch->options.seed = number(optarg);
        return true;
    case 'k':
        batch->seed_count = number(optarg);
        return true;
    case 'n':
        batch->options.node_count = (uint32_t)number(optarg);
        return true;
    case 'c':
        batch->options.client_max = (uint32_t)number(optarg);
        return true;
    case 'f':
        take_list(optarg, SIM_SKIP_MAX, batch->options.skips);
        return true;
    case 'w':
        take_list(optarg, ORACLE_END - 1, batch->options.without);
        return true;
    case 't':
        batch->options.seconds = (uint32_t)number(optarg);
        return true;
    case 'j':
        batch->job_count = (uint32_t)number(optarg);
        return true;
    case 'o':
        batch->shows_coverage = true;
        return true;
    case 'm':
        batch->pair_least = (uint32_t)number(optarg);
        return true;
    case 'p':
        batch->options.is_planted = true;
        return true;
    case 'v':
        batch->options.is_verbose = true;
        return true;
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},
        {"seeds", required_argument, NULL, 'k'},
        {"nodes", required_argument, NULL, 'n'},
        {"seconds", required_argument, NULL, 't'},
        {"jobs", required_argument, NULL, 'j'},
        {"clients", required_argument, NULL, 'c'},
        {"skip-faults", required_argument, NULL, 'f'},
        {"without", required_argument, NULL, 'w'},
        {"coverage", no_argument, NULL, 'o'},
        {"pairs", required_argument, NULL, 'm'},
        {"plant", no_argument, NULL, 'p'},
        {"verbose", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    struct batch batch = {
        .options = {.seed = 1, .seconds = 30}, .seed_count = 1, .job_count = 1};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!take_option(&batch, option)) {
            return 64;
        }
    }
    if (batch.seed_count == 0 || batch.job_count == 0 ||
        batch.options.node_count > SIM_ID_MAX - 2) {
        fprintf(stderr, "sim: nothing to do\n");
        return 64;
    }
    return run_batch(&batch);
}
