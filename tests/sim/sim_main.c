/* SPDX-License-Identifier: MIT */

/* The simulator: whole nodes and clients in one process on virtual time.
 *
 *     sim [--seed N] [--seeds K] [--nodes 3|5] [--seconds S] [--jobs J]
 *         [--clients N] [--skip-faults LIST] [--coverage] [--plant]
 *         [--verbose]
 *
 * runs K seeds from N on, each S simulated seconds of faults, then a calm in
 * which there must be progress, then an end after which nothing may be left. A
 * run is decided by its seed alone; a failing one prints the rule that was
 * broken and the command that repeats it. With fewer clients, or without some
 * faults ("3,7-9": their numbers are in the trace), the rest of the run is
 * another one. --coverage tells in how many runs which faults, pairs of faults
 * and states were reached (sim_cover.h). --plant puts a bug into the rogues,
 * which trust their sessions for ever then: for tests of what sees it. How it
 * works: tests/sim/README.md.
 *
 * The oracles, each checked all the time:
 *
 *     1. one leader per term
 *     2. all nodes apply the same entries, one after the other, with the same
 *        effects; equal applied index means equal state (lockfsm_hash), also
 *        after a restart and a snapshot; the digest that is kept up is that
 *        of the state; the state on disk is never ahead of the log
 *     3. every state is sound in itself and follows from the one before
 *        (lockfsm_check_basic, lockfsm_delta_check)
 *     4. one owner per exclusive lock; grant and end of a hold alternate;
 *        tokens of a lock grow and are token_base plus log index; effects tell
 *        what happened
 *     5. first come, first served; nobody passes the queue, and who barges
 *        passes no wait for ever
 *     6. nothing is granted to the dead, and a dead session stays dead
 *     7. one believer per exclusive lock, as many as slots for a semaphore, one
 *        per Redis lock, by the clients' own clocks, at every moment of true
 *        time
 *     8. no session expires sooner than T/1.1 after a heartbeat that was
 *        answered OK was sent; the client ends first
 *     9. acknowledged results stay: each answer is that of a committed entry,
 *        later than the question; a numbered request takes effect once
 *    10. who believes in a hold has it
 *    11. reads are linearizable; a fence lets nothing older in, and the newest
 *    12. a refusal is about what is committed; one that says that nothing was
 *        done has no entry, then and ever after; a try fails only if the lock
 *        is not free; what gives back is never refused; errors are those of
 *        the contract
 *    13. no node stops by itself, and each starts from what it left on disk;
 *        who has the state of a cluster knows its id; no entry is on disk
 *        before its term
 *    14. once all is healed every client gets answers, and who died before that
 *        has lost its session 20 s later; in the end every waiter has been
 *        served or told, no session and no lock is left, and all members are
 *        equal
 *    15. when a leader dies and all else is well, another one serves within
 *        5 s and 3 terms, whatever flushes take (up to 500 ms)
 *    16. what is above the cluster's feature level is not proposed, nobody
 *        applies what its version does not understand, and who stops as too old
 *        is
 *    17. silence is logged as it was, each moment once; a dead session and what
 *        takes a time end in their bounds whatever leaders come and go
 *        (sim_silence.h)
 *    18. after a calm nobody leads whose clock is more than 6 % off from those
 *        of most voters, unless it has handed over before
 *    19. no vote is taken away, unless by force, if that leaves voters of whom
 *        the leader has not heard more than half (sim_majority.h); a vote that
 *        is said to be taken, or given back, is (sim_voter.h)
 *    20. an old copy of a follower's disk is noticed and condemned as long as
 *        the leader lives that knows better (sim_loss.h); no other disk is
 *    21. who was away until it needs a snapshot catches up, wherever it dies
 *        meanwhile (sim_behind.h)
 *    22. who watches is told what the log has, in order, nothing twice and
 *        nothing left out, and `gap` if and only if the node cannot know; a
 *        lock's history is that of the log (sim_watcher.h)
 *    23. what LOCK.SHOW, LOCK.LIST, SESSION.SHOW, SESSION.LIST and FENCE.LIST
 *        tell was all so at one moment between question and answer: holders,
 *        queue, note, counts; a page is whole then; ages, leases, delays and
 *        limited holds have run as clocks allow, and do not end sooner than
 *        was told (sim_shown.h, sim_faces.h)
 *    24. what is refused as full is full, and what gives back is not refused
 *        for it; a number is forgotten when 64 gaps have overtaken it
 *        (sim_crowd.h)
 *    25. a session without end does not expire, and a hold of it is broken only
 *        if that was announced, its time is over and nobody has objected
 *        (sim_durable.h, sim_silence.h)
 *    26. a backup, taken from a node that serves or of a directory, is the
 *        state that one entry left, with its members and all that had been
 *        applied when it was asked for; a damaged one is refused
 *        (sim_backup.h, sim_saver.h)
 *    27. a restore keeps what must not be forgotten, and no more; of one that
 *        was cut short nothing starts but a whole one (sim_restore.h)
 *    28. no life that is over goes on: none of its nodes serves, a new one has
 *        an id of its own and tokens above all before, former tokens are not
 *        admitted, former sessions are dead, and in the quarantine, which is
 *        as long as was asked for, nothing is granted (sim_check.c,
 *        sim_silence.h); 7 and 22 look across lives
 *    29. rights are decided once, by the log: what was done was allowed by the
 *        rights at its index, what was refused for want of them was not; nobody
 *        uses, ends or renews what is another's without the right to
 *        (sim_rights.h)
 *    30. a change of rights ends the waits that are no longer allowed, those
 *        alone, by itself or by SWEEP, and until then they are granted nothing;
 *        and it never ends a hold
 *    31. a user has what the log gave him, the same on all nodes; nothing that
 *        was acknowledged passes his quotas, and what gives back is never
 *        refused for them
 *    32. nobody is told of names that he may not read, by answers or events;
 *        NOAUTH and NOPERM are true when they are said (sim_users.h) */

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
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
#include "tests/unit/lockfsm_delta.h"

/* What a worker process tells of a seed. */
struct outcome {
    bool is_over; /* False: the process died. */
    bool has_failed;
    uint64_t trace;
    struct sim_stats stats;
    struct sim_cover cover;
    char why[1024];
};

struct batch {
    struct sim_options options; /* The seed is the first one. */
    uint64_t seed_count;
    uint32_t job_count;
    bool shows_coverage;
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
    outcome->trace = sim.trace;
    outcome->stats = sim.stats;
    outcome->cover = sim.cover;
    memcpy(outcome->why, sim.why, sizeof outcome->why);
    sim_done(&sim);
    outcome->is_over = true;
    fflush(stdout);
}

/* Job 'job' runs each job_count-th seed; a process of its own for each seed, so
 * that one that dies says which it was and the rest goes on. */
static void run_job(const struct batch *batch, uint32_t job,
                    struct outcome *outcomes)
{
    for (uint64_t i = job; i < batch->seed_count; i += batch->job_count) {
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
            snprintf(outcome->why, sizeof outcome->why,
                     "the program does not crash: it ended with status %d",
                     WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                         : WEXITSTATUS(status));
        }
        if (outcome->has_failed) {
            printf("seed %" PRIu64 ": %s\n"
                   "  repeat: sim --seed %" PRIu64 " --seconds %u%s%c "
                   "--verbose\n",
                   seed, outcome->why, seed, batch->options.seconds,
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
           " taken %" PRIu64 " raised %" PRIu64 " too old %" PRIu64
           " votes taken %" PRIu64 " rot refused %" PRIu64 " condemned %" PRIu64
           " removed %" PRIu64 " pushes %" PRIu64 " promises %" PRIu64
           " events %" PRIu64 " gaps %" PRIu64 " listings %" PRIu64
           " crowds %" PRIu64 " durable %" PRIu64 " full %" PRIu64
           " backups %" PRIu64 " restores %" PRIu64 " administered %" PRIu64
           " denials %" PRIu64 " violations %" PRIu64 " trace %016" PRIx64 "\n",
           batch->seed_count, (double)sum.simulated_ns / 3.6e12, sum.entries,
           sum.operations, sum.unknowns, sum.grants, sum.beats, sum.reads,
           sum.expired, sum.lost, sum.crashes, sum.pauses, sum.partitions,
           sum.cuts, sum.disk_faults, sum.leaders, sum.changes, sum.snapshots,
           sum.installs, sum.transfers, sum.relays, sum.taken, sum.raised,
           sum.too_old, sum.votes_taken, sum.refused, sum.condemned,
           sum.removed, sum.pushes, sum.promises, sum.events, sum.gaps,
           sum.listings, sum.crowds, sum.durables, sum.refused_full,
           sum.backups, sum.restores, sum.administered, sum.denials, failed,
           trace);
    if (batch->shows_coverage) {
        sim_cover_print(&cover);
    }
    printf("sim: %" PRIu64 " passed, %" PRIu64 " failed\n",
           batch->seed_count - failed, failed);
    return failed == 0 ? 0 : 1;
}

static int run_batch(const struct batch *batch)
{
    size_t size = batch->seed_count * sizeof(struct outcome);
    struct outcome *outcomes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(outcomes != MAP_FAILED);
    if (batch->seed_count == 1) {
        run_seed(batch, batch->options.seed, &outcomes[0]);
        if (outcomes[0].has_failed) {
            printf("seed %" PRIu64 ": %s\n", batch->options.seed,
                   outcomes[0].why);
        }
        return report(batch, outcomes);
    }
    for (uint32_t job = 1; job < batch->job_count; job++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            run_job(batch, job, outcomes);
            _exit(0);
        }
    }
    run_job(batch, 0, outcomes);
    while (wait(NULL) > 0) {
        continue;
    }
    int result = report(batch, outcomes);
    munmap(outcomes, size);
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

/* "3,7-9" */
static void skip(struct sim_options *options, const char *text)
{
    while (*text != '\0') {
        char *end;
        unsigned long from = strtoul(text, &end, 10);
        unsigned long to = *end == '-' ? strtoul(end + 1, &end, 10) : from;
        if (from == 0 || to < from || to > SIM_SKIP_MAX ||
            (*end != ',' && *end != '\0')) {
            fprintf(stderr, "sim: not a list of faults: '%s'\n", text);
            exit(64);
        }
        for (; from <= to; from++) {
            options->skips[from] = true;
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
        skip(&batch->options, optarg);
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
        {"coverage", no_argument, NULL, 'o'},
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
        batch.options.node_count > SIM_NODE_MAX) {
        fprintf(stderr, "sim: nothing to do\n");
        return 64;
    }
    return run_batch(&batch);
}
