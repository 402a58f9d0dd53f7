/* SPDX-License-Identifier: MIT */

#include "node/node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "lockfsm/lockfsm.h"
#include "node/condemned.h"
#include "node/options.h"
#include "node/recovery.h"
#include "storage/wal.h"

/* 2025-01-01T00:00:00Z. */
#define EPOCH_2025 INT64_C(1735689600)
/* A node that stops waits so long at most for its connections to close. */
#define SETTLE_NS (3 * NS_PER_S)
#define SETTLE_STEP_MS 20
/* So long a client has to take its last answers. */
#define GOODBYE_NS (300 * NS_PER_MS)
/* How often the log tells whom a founding waits for. */
#define WAITING_NS (10 * NS_PER_S)

_Static_assert((int)CORE_EXIT_STORAGE == HASP_NODE_STORAGE &&
                   (int)CORE_EXIT_TOO_OLD == HASP_NODE_TOO_OLD,
               "the core knows how a process ends");

static void fill_random(void *out, size_t size);
static int open_disk(struct hasp_node *node, struct recovery *recovery,
                     char why[HASP_WHY_SIZE]);
static void begin_from_disk(struct hasp_node *node,
                            const struct recovery *recovery);
static void found_cluster(struct hasp_node *node);
static int write_beginning(struct hasp_node *node,
                           const struct replica_entry *first,
                           uint64_t *ret_term, char why[HASP_WHY_SIZE]);
static void join_cluster(struct hasp_node *node);
static void begin(struct hasp_node *node, const struct replica_start *start);
static void settle(struct hasp_node *node);
static void on_settle(uv_timer_t *timer);
static void stop_cleanly(struct hasp_node *node);
static uint64_t port_wall_ms(void *data);
static void port_random(void *data, void *out, size_t size);
static void port_bar(void *data, const struct core_accusation *accusation,
                     const char *why);
static void port_unbar(void *data);
static void port_data_lost(void *data, const char *why);
static void port_fatal(void *data, int exit_code, const char *why);
static void log_to_host(void *data, enum log_level level, const char *event,
                        const char *fields);
static uint64_t token_base_now(void);

int hasp_node_open(const struct hasp_node_options *options,
                   struct hasp_node **ret_node, char why[HASP_NODE_WHY_SIZE])
{
    struct recovery recovery = {0};
    int status = hasp_node_options_check(options, why);
    if (status != 0) {
        return status;
    }
    struct hasp_node *node = memory_new(sizeof *node);
    options_copy(&node->options, options);
    options_members(&node->options, &node->configured);
    if (node->options.log != NULL) {
        log_set_sink(log_to_host, node);
        log_set_level((enum log_level)node->options.log_level);
    }
    if (hash_seed == 0) {
        uint64_t seed;
        fill_random(&seed, sizeof seed);
        hash_seed_set(seed);
    }
    CHECK(uv_loop_init(&node->uv) == 0);
    node->journal.node = node;
    snapshots_init(&node->snapshots, node);
    probes_open(&node->probes);
    loop_open(node);

    if (open_disk(node, &recovery, why) != 0) {
        status = HASP_NODE_STORAGE;
    } else if (members_open(&node->members, node, node->options.listen_peer,
                            why) != 0 ||
               clients_open(&node->clients, node, node->options.listen_client,
                            why) != 0 ||
               (node->options.listen_http != NULL &&
                health_open(&node->health, node, node->options.listen_http,
                            why) != 0)) {
        status = HASP_NODE_UNAVAILABLE;
    } else {
        journal_watch(&node->journal);
        if (!node->has_failed) {
            begin_from_disk(node, &recovery);
        }
        if (node->has_failed) {
            status = node->exit_status;
            memcpy(why, node->why, HASP_NODE_WHY_SIZE);
        }
    }
    recovery_done(&recovery);
    if (status != 0) {
        hasp_node_close(node);
        return status;
    }
    *ret_node = node;
    return 0;
}

int hasp_node_run(struct hasp_node *node)
{
    CHECK(!node->loop.is_over);
    loop_run(node);
    node->loop.is_over = true; /* The core is not called any more. */
    if (!node->has_failed) {
        stop_cleanly(node);
    } else {
        /* At once: a process whose disk hangs may take long to end, and nobody
         * should wait for it meanwhile. */
        clients_close(&node->clients);
        members_close(&node->members);
    }
    return node->exit_status;
}

void hasp_node_stop(struct hasp_node *node)
{
    uv_async_send(&node->loop.stop);
}

void hasp_node_close(struct hasp_node *node)
{
    if (node == NULL) {
        return;
    }
    node->loop.is_over = true;
    clients_close(&node->clients);
    members_close(&node->members);
    probes_close(&node->probes);
    health_close(&node->health);
    settle(node);
    journal_unwatch(&node->journal);
    loop_close(node);
    uv_run(&node->uv, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&node->uv) == 0);
    if (node->core != NULL) {
        core_free(node->core);
    }
    clients_done(&node->clients);
    snapshots_done(&node->snapshots);
    journal_done(&node->journal);
    wal_close(node->journal.wal);
    table_close(node->table);
    if (node->datadir != NULL) {
        datadir_close(node->datadir);
    }
    founding_done(&node->founding);
    if (node->options.log != NULL) {
        log_set_sink(NULL, NULL);
    }
    options_done(&node->options);
    free(node);
}

const char *hasp_node_client_address(const struct hasp_node *node)
{
    return node->client_address;
}

const char *hasp_node_why(const struct hasp_node *node)
{
    return node->why;
}

void node_fail(struct hasp_node *node, int status, const char *format, ...)
{
    va_list args;
    if (node->has_failed) {
        return;
    }
    node->has_failed = true;
    node->exit_status = status;
    va_start(args, format);
    vsnprintf(node->why, sizeof node->why, format, args);
    va_end(args);
    LOG_ERROR("node fails", "exit=%d why=%s", status,
              log_quote(node->why, strlen(node->why)));
    uv_stop(&node->uv);
}

void node_found(struct hasp_node *node, uint64_t now_ns)
{
    char missing[128];
    switch (founding_decide(&node->founding, now_ns)) {
    case FOUNDING_FOUND:
        found_cluster(node);
        break;
    case FOUNDING_JOIN:
        join_cluster(node);
        break;
    case FOUNDING_WAIT:
        if (now_ns < node->told_waiting_ns + WAITING_NS &&
            node->told_waiting_ns != 0) {
            break;
        }
        node->told_waiting_ns = now_ns;
        founding_missing(&node->founding, missing, sizeof missing);
        LOG_INFO("waiting to found the cluster", "missing=\"%s\"", missing);
        break;
    }
}

void node_status(struct hasp_node *node)
{
    char text[sizeof node->status_text];
    if (node->loop.is_stopping) {
        snprintf(text, sizeof text, "stopping");
    } else if (!node->has_begun) {
        char missing[64];
        founding_missing(&node->founding, missing, sizeof missing);
        snprintf(text, sizeof text, "waiting for members %s to found a cluster",
                 missing);
    } else if (core_is_barred(node->core)) {
        snprintf(text, sizeof text,
                 "barred: another member says that this one has lost data");
    } else {
        const struct replica *replica = core_replica(node->core);
        uint64_t leader = replica_leader(replica);
        if (replica_role(replica) == REPLICA_LEADER) {
            snprintf(text, sizeof text, "leader, term %" PRIu64 "%s",
                     replica_term(replica),
                     core_is_serving(node->core) ? "" : ", not serving yet");
        } else if (leader != 0) {
            snprintf(text, sizeof text,
                     "follower of %" PRIu64 ", term %" PRIu64, leader,
                     replica_term(replica));
        } else {
            snprintf(text, sizeof text, "no leader, term %" PRIu64,
                     replica_term(replica));
        }
    }
    if (strcmp(text, node->status_text) != 0) {
        memcpy(node->status_text, text, sizeof text);
        if (node->options.on_status != NULL) {
            node->options.on_status(node->options.status_data, text);
        }
    }
}

/* From the operating system. */
static void fill_random(void *out, size_t size)
{
    uint8_t *at = out;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        CHECK(got > 0 || (got < 0 && errno == EINTR));
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        }
    }
}

static int open_disk(struct hasp_node *node, struct recovery *recovery,
                     char why[HASP_WHY_SIZE])
{
    uint64_t incarnation;
    bool is_new;
    fill_random(&incarnation, sizeof incarnation);
    int rv = datadir_open(node->options.directory, node->options.id,
                          incarnation | 1, &node->datadir, &is_new, why);
    if (rv == 0) {
        rv = condemned_check(node->options.directory, why);
    }
    if (rv == 0) {
        rv = condemned_load_bar(node->options.directory, &node->accused, why);
    }
    if (rv != 0) {
        return rv;
    }
    if (node->accused.term != 0) {
        LOG_ERROR("this node is barred", "why=%s", log_quote(why, strlen(why)));
    }
    const struct datadir_identity *identity = datadir_identity(node->datadir);
    founding_init(&node->founding, node->options.id, identity->incarnation,
                  node->options.cluster_name, &node->configured);
    LOG_INFO(
        is_new ? "data directory made" : "data directory opened",
        "dir=%s incarnation=%016" PRIx64,
        log_quote(node->options.directory, strlen(node->options.directory)),
        identity->incarnation);
    return recovery_run(recovery, node, why);
}

/* What the directory says: go on, finish a founding that was interrupted, or
 * begin to greet the others. */
static void begin_from_disk(struct hasp_node *node,
                            const struct recovery *recovery)
{
    struct founding *founding = &node->founding;
    char why[HASP_WHY_SIZE];
    int rv = founding_load(founding, node->options.directory, why);
    if (rv != 0 && rv != HASP_ENOENT) {
        node_fail(node, HASP_NODE_STORAGE, "%s", why);
    } else if (!recovery->is_empty) {
        begin(node, &recovery->start);
    } else if (rv == HASP_ENOENT) {
        node_found(node, node_now());
    } else {
        uint8_t id[CLUSTER_ID_SIZE];
        founding_cluster_id(founding, id);
        if (memcmp(id, founding->seen_id, sizeof id) != 0) {
            node_fail(node, HASP_NODE_CONFIG,
                      "the members or the cluster's name were changed while "
                      "the cluster was being founded: give back the old ones, "
                      "or begin anew with empty directories on all members");
            return;
        }
        found_cluster(node);
    }
}

static void found_cluster(struct hasp_node *node)
{
    struct founding *founding = &node->founding;
    char why[HASP_WHY_SIZE];
    struct replica_entry first = {
        .term = 1,
        .log_index = 1,
        .type = ENTRY_CHANGE,
        .body = buffer_bytes(&founding->configuration)};
    struct replica_start start = {.entries = &first, .entry_count = 1};
    founding_found(founding);
    if (write_beginning(node, &first, &start.term, why) != 0) {
        node_fail(node, HASP_NODE_STORAGE, "%s", why);
        return;
    }
    LOG_INFO("cluster founded", "members=%" PRIu32, founding->count);
    /* Greetings from before did not show the id: they are exchanged again, so
     * that founders who would not agree find out. */
    members_set_cluster(&node->members, founding->seen_id, true);
    begin(node, &start);
}

/* In this order, so that each step, if it is the last, leads to the next start
 * doing the rest. */
static int write_beginning(struct hasp_node *node,
                           const struct replica_entry *first,
                           uint64_t *ret_term, char why[HASP_WHY_SIZE])
{
    struct founding *founding = &node->founding;
    uint64_t term, voted_for;
    int rv = founding_save(founding, node->options.directory, why);
    if (rv == 0) {
        rv = datadir_load_vote(node->datadir, &term, &voted_for, why);
    }
    if (rv != 0) {
        return rv;
    }
    CHECK(voted_for == 0); /* recovery.c has refused anything else. */
    term = term == 0 ? 1 : term;
    rv = datadir_save_vote(node->datadir, term, 0);
    if (rv == 0) {
        rv = journal_write_now(&node->journal, first, 1);
    }
    if (rv == 0) {
        rv = datadir_set_cluster(node->datadir, founding->seen_id);
    }
    if (rv != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot found the cluster in '%.300s': %s",
                 node->options.directory, hasp_strerror(rv));
        return rv;
    }
    *ret_term = term;
    return 0;
}

static void join_cluster(struct hasp_node *node)
{
    struct replica_start start = {0};
    char why[HASP_WHY_SIZE];
    if (datadir_load_vote(node->datadir, &start.term, &start.voted_for, why) !=
        0) {
        node_fail(node, HASP_NODE_STORAGE, "%s", why);
        return;
    }
    node->members.is_joining = true;
    if (node->founding.saw_cluster) {
        LOG_WARN("joining a cluster that exists",
                 "hint=\"if this node lost its directory, or if the [cluster] "
                 "sections differ, the others refuse it: remove it and add it "
                 "again\"");
    } else {
        LOG_INFO("waiting to be added to a cluster", "id=%" PRIu64,
                 node->options.id);
    }
    begin(node, &start);
}

static void begin(struct hasp_node *node, const struct replica_start *start)
{
    static const struct core_port calls = {
        .save_vote = journal_port_save_vote,
        .log_truncate = journal_port_log_truncate,
        .log_append = journal_port_log_append,
        .log_trim = journal_port_log_trim,
        .log_reset = journal_port_log_reset,
        .snapshot_take = snapshots_port_take,
        .snapshot_stat = snapshots_port_stat,
        .snapshot_read = snapshots_port_read,
        .snapshot_room = snapshots_port_room,
        .snapshot_write = snapshots_port_write,
        .snapshot_adopt = snapshots_port_adopt,
        .snapshot_load = snapshots_port_load,
        .peer_is_up = members_port_is_up,
        .peer_output = members_port_output,
        .peers_changed = members_port_changed,
        .peer_silence_ms = members_port_silence_ms,
        .probe_address = probe_port_address,
        .client_output = clients_port_output,
        .client_close = clients_port_close,
        .client_block = clients_port_block,
        .random = port_random,
        .wall_ms = port_wall_ms,
        .cluster_known = members_port_cluster_known,
        .bar = port_bar,
        .unbar = port_unbar,
        .data_lost = port_data_lost,
        .fatal = port_fatal};
    const struct datadir_identity *identity = datadir_identity(node->datadir);
    struct core_port port = calls;
    struct core_options options;
    struct core_start core_start = {.replica = *start};
    char why[HASP_WHY_SIZE] = "";

    options_for_core(&node->options, &options);
    options.incarnation = identity->incarnation;
    options.token_base = token_base_now();
    options.accused = node->accused;
    memcpy(options.cluster_id, identity->cluster_id, CLUSTER_ID_SIZE);
    fill_random(&options.seed, sizeof options.seed);
    port.data = node;
    journal_begin(&node->journal);
    if (!node->has_failed &&
        table_new_deferred(node->table, &core_start.table) != 0) {
        node_fail(node, HASP_NODE_STORAGE,
                  "cannot start a thread for the table");
    }
    if (node->has_failed) {
        return;
    }
    node->table = core_start.table;
    uint64_t now = node_now();
    node->core = core_new(&options, &port);
    int rv = core_begin(node->core, &core_start, now, why);
    if (rv != 0) {
        node_fail(node,
                  rv == HASP_ETOOOLD ? HASP_NODE_TOO_OLD : HASP_NODE_STORAGE,
                  "cannot start from '%.200s': %s", node->options.directory,
                  why[0] != '\0' ? why : hasp_strerror(rv));
    }
    if (node->has_failed) {
        return;
    }
    node->has_begun = true;
    loop_begin(node);
    members_tell_core(&node->members, now);
    clients_begin(&node->clients);
    loop_wake(node);
}

/* Runs the loop until connections and workers have ended. */
static void settle(struct hasp_node *node)
{
    uint64_t began = node_now();
    uint64_t by = began + SETTLE_NS;
    uv_prepare_stop(&node->loop.prepare);
    uv_check_stop(&node->loop.check);
    uv_idle_stop(&node->loop.idle);
    CHECK(uv_timer_start(&node->loop.timer, on_settle, SETTLE_STEP_MS,
                         SETTLE_STEP_MS) == 0);
    /* Workers read the table and the directory: they are waited for. */
    while (snapshots_are_busy(&node->snapshots) ||
           (node_now() < by &&
            (node->clients.count > 0 || !node->members.is_closed ||
             !probes_are_closed(&node->probes) ||
             (node->journal.wal != NULL && !node->has_failed &&
              wal_is_busy(node->journal.wal))))) {
        uv_run(&node->uv, UV_RUN_ONCE);
        if (node_now() >= began + GOODBYE_NS) {
            clients_cut(&node->clients);
        }
    }
    CHECK(uv_timer_stop(&node->loop.timer) == 0);
}

static void on_settle(uv_timer_t *timer)
{
    (void)timer; /* It only turns the loop. */
}

/* What is answered goes out, the state goes to its table, and the table to the
 * disk: then any boot may trust it. */
static void stop_cleanly(struct hasp_node *node)
{
    clients_close(&node->clients);
    members_close(&node->members);
    probes_close(&node->probes);
    health_close(&node->health);
    settle(node);
    if (node->has_failed || !node->has_begun) {
        return;
    }
    int rv = core_flush(node->core);
    if (rv == 0) {
        rv = table_sync(node->table);
    }
    if (rv == 0) {
        core_free(node->core);
        node->core = NULL;
        table_close(node->table);
        node->table = NULL;
        rv = datadir_table_closed(node->datadir);
    }
    if (rv != 0) {
        node_fail(node, HASP_NODE_STORAGE, "cannot close the table in '%s': %s",
                  node->options.directory, hasp_strerror(rv));
    }
}

static uint64_t port_wall_ms(void *data)
{
    struct timespec now;
    (void)data;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > 0
               ? (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000
               : 0;
}

static void port_random(void *data, void *out, size_t size)
{
    (void)data;
    fill_random(out, size);
}

static void port_bar(void *data, const struct core_accusation *accusation,
                     const char *why)
{
    struct hasp_node *node = data;
    char error[HASP_WHY_SIZE];
    if (condemned_bar(node->options.directory, accusation, why, error) != 0) {
        node_fail(node, HASP_NODE_STORAGE, "%s", error);
    }
}

static void port_unbar(void *data)
{
    struct hasp_node *node = data;
    char error[HASP_WHY_SIZE];
    if (condemned_unbar(node->options.directory, error) != 0) {
        node_fail(node, HASP_NODE_STORAGE, "%s", error);
    }
}

static void port_data_lost(void *data, const char *why)
{
    struct hasp_node *node = data;
    char ignored[HASP_WHY_SIZE];
    if (condemned_write(node->options.directory, why, ignored) != 0) {
        LOG_ERROR("cannot condemn the directory", "why=%s",
                  log_quote(ignored, strlen(ignored)));
    }
    node_fail(node, HASP_NODE_STORAGE, "%s", why);
}

static void port_fatal(void *data, int exit_code, const char *why)
{
    node_fail(data, exit_code, "%s", why);
}

static void log_to_host(void *data, enum log_level level, const char *event,
                        const char *fields)
{
    struct hasp_node *node = data;
    node->options.log(node->options.log_data, (enum hasp_node_log_level)level,
                      event, fields);
}

/* Wall clock, once: a later life of a cluster starts above an earlier one
 * (rule 21). A clock that stands before 2025 gives the least there is. */
static uint64_t token_base_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t seconds = (int64_t)now.tv_sec - EPOCH_2025;
    uint64_t base = seconds > 0 ? (uint64_t)seconds << 20 : 0;
    return base > TOKEN_BASE_MIN ? base : TOKEN_BASE_MIN;
}
