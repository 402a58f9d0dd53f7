/* SPDX-License-Identifier: MIT */

/* Start of a node: from its disk, by founding a cluster, or by joining one; and
 * the port of the core, which then runs. */

#include "node/startup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "core/commands/table.h"
#include "node/data_loss_marker.h"
#include "node/node.h"
#include "node/options.h"
#include "node/volume.h"
#include "storage/wal.h"

/* 2025-01-01T00:00:00Z. */
#define EPOCH_2025 INT64_C(1735689600)
/* Time between log lines about missing founders. */
#define WAITING_NS (10 * NS_PER_S)

_Static_assert((int)CORE_EXIT_STORAGE == HASP_NODE_STORAGE &&
                   (int)CORE_EXIT_TOO_OLD == HASP_NODE_TOO_OLD,
               "the core knows how a process ends");

/* Fills 'out' with random bytes from the operating system. */
static void startup_fill_random(void *out, size_t size)
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

/* Seeds the hash tables, once a process and before the first of them. */
static void seed_hashes(void)
{
    uint64_t seed;
    if (hash_seed == 0) {
        startup_fill_random(&seed, sizeof seed);
        hash_seed_set(seed);
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

static uint64_t port_clock_ns(void *data)
{
    (void)data;
    return turn_now();
}

static void port_random(void *data, void *out, size_t size)
{
    (void)data;
    startup_fill_random(out, size);
}

/* The two steps may become durable in either order: a start that finds one
 * without the other completes the installation (node/recovery.h). */
static void port_snapshot_install(void *data, uint64_t next_index)
{
    struct hasp_node *node = data;
    if (!node->turn.has_failed) {
        journal_reset(&node->journal, next_index);
        snapshot_store_install(&node->snapshot_store);
    }
}

/* A mark about lost data that a worker writes into the directory. */
struct verdict {
    const char *folder; /* Borrowed from the options, which outlive it. */
    struct core_accusation accusation;
    char why[HASP_WHY_SIZE];
};

static struct verdict *verdict_new(const struct hasp_node *node,
                                   const char *why)
{
    struct verdict *verdict = memory_new(sizeof *verdict);
    verdict->folder = node->options.directory;
    snprintf(verdict->why, sizeof verdict->why, "%s", why);
    return verdict;
}

static int write_bar(void *data, char why[HASP_WHY_SIZE])
{
    const struct verdict *verdict = data;
    return data_loss_marker_bar(verdict->folder, &verdict->accusation,
                                verdict->why, why);
}

static void port_bar(void *data, const struct core_accusation *accusation,
                     const char *why)
{
    struct hasp_node *node = data;
    struct verdict *verdict = verdict_new(node, why);
    /* Term 0 would mean that there is no accusation. */
    CHECK(accusation->term != 0);
    verdict->accusation = *accusation;
    metadata_writer_add(&node->metadata_writer, write_bar, verdict);
}

static int remove_bar(void *data, char why[HASP_WHY_SIZE])
{
    const struct verdict *verdict = data;
    return data_loss_marker_unbar(verdict->folder, why);
}

static void port_unbar(void *data)
{
    struct hasp_node *node = data;
    metadata_writer_add(&node->metadata_writer, remove_bar,
                        verdict_new(node, ""));
}

/* Condemns the directory. The node then ends with the verdict's reason, even if
 * the mark could not be written. */
static int write_condemnation(void *data, char why[HASP_WHY_SIZE])
{
    const struct verdict *verdict = data;
    if (data_loss_marker_write(verdict->folder, verdict->why, why) != 0) {
        LOG_ERROR("cannot condemn the directory", "why=%s", log_quote(why));
    }
    memcpy(why, verdict->why, HASP_WHY_SIZE);
    return HASP_ECORRUPT;
}

/* The core is no longer called; the loop runs until the verdict is written. */
static void port_data_lost(void *data, const char *why)
{
    struct hasp_node *node = data;
    node->turn.is_over = true;
    metadata_writer_add(&node->metadata_writer, write_condemnation,
                        verdict_new(node, why));
}

static void port_fatal(void *data, int exit_code, const char *why)
{
    turn_fail(&((struct hasp_node *)data)->turn, exit_code, "%s", why);
}

/* Derives the token base from the wall clock, read once, so that a later epoch
 * of a cluster has larger tokens than an earlier one (rule 21). A clock before
 * 2025 gives the smallest base. */
static uint64_t token_base_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t seconds = (int64_t)now.tv_sec - EPOCH_2025;
    uint64_t base = seconds > 0 ? (uint64_t)seconds << 20 : 0;
    return u64_max(base, TOKEN_BASE_MIN);
}

static void port_stage_over(void *data, enum core_stage stage)
{
    static const enum stage loop_profile[] = {
        [CORE_STAGE_PROPOSE] = STAGE_PROPOSE,
        [CORE_STAGE_APPLY] = STAGE_APPLY,
        [CORE_STAGE_TABLE] = STAGE_TABLE,
        [CORE_STAGE_UPKEEP] = STAGE_UPKEEP};
    struct hasp_node *node = data;
    loop_profile_end(&node->turn.loop_profile, loop_profile[stage], turn_now());
}

/* Creates and starts the core from 'start' and the table. */
static int startup_start_core(struct hasp_node *node,
                              const struct replica_start *start,
                              char why[HASP_WHY_SIZE])
{
    static const struct core_port calls = {
        .save_vote = journal_port_save_vote,
        .log_truncate = journal_port_log_truncate,
        .log_append = journal_port_log_append,
        .log_trim = journal_port_log_trim,
        .snapshot_take = snapshot_store_port_take,
        .snapshot_stat = snapshot_store_port_stat,
        .snapshot_read = snapshot_store_port_read,
        .snapshot_room = snapshot_store_port_room,
        .snapshot_write = snapshot_store_port_write,
        .snapshot_adopt = snapshot_store_port_adopt,
        .snapshot_install = port_snapshot_install,
        .peer_is_up = members_port_is_up,
        .peer_output = members_port_output,
        .peers_changed = members_port_changed,
        .peer_drop = members_port_drop,
        .peer_silence_ms = members_port_silence_ms,
        .peer_round_trip_us = members_port_round_trip_us,
        .peer_is_proven = members_port_is_proven,
        .probe_address = probe_port_address,
        .client_output = web_port_output,
        .client_close = web_port_close,
        .client_block = web_port_block,
        .client_user = web_port_user,
        .random = port_random,
        .facts = facts_port,
        .setting = settings_port_setting,
        .set_setting = settings_port_set,
        .wall_ms = port_wall_ms,
        .clock_ns = port_clock_ns,
        .cluster_known = members_port_cluster_known,
        .access_changed = members_port_access_changed,
        .bar = port_bar,
        .unbar = port_unbar,
        .data_lost = port_data_lost,
        .stage_over = port_stage_over,
        .fatal = port_fatal};
    const struct datadir_identity *identity = datadir_identity(node->datadir);
    struct core_port port = calls;
    struct core_options options;
    struct core_start core_start = {.replica = *start};

    options_for_core(&node->options, &options);
    options.incarnation = identity->incarnation;
    options.token_base = token_base_now();
    options.account = &node->turn.account;
    options.accused = node->accused;
    options.is_marked = node->is_marked;
    options.founders_level = members_lowest_level(&node->members);
    /* The incarnation and the cluster id of the directory identify this node; a
     * wiped directory has others (node/founding.h). */
    memcpy(options.cluster_id, identity->cluster_id, CLUSTER_ID_SIZE);
    startup_fill_random(&options.seed, sizeof options.seed);
    port.data = node;
    int rv = table_new_deferred(node->table, &core_start.table);
    if (rv != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot start a thread for the table");
        return rv;
    }
    node->table = core_start.table;
    uint64_t used;
    table_size(node->table, &used, &node->loop.logged_room);
    node->core = core_new(&options, &port, &core_commands);
    return core_begin(node->core, &core_start, turn_now(), why);
}

static int open_lmdb(void *data, const char *path, struct table **ret_table,
                     char why[HASP_WHY_SIZE])
{
    const struct hasp_node *node = data;
    return table_open_lmdb(path, node->options.limits.table_size, ret_table,
                           why);
}

static struct recovery_disk disk_of(struct hasp_node *node)
{
    return (struct recovery_disk){
        .datadir = node->datadir,
        .wal_options = {.segment_size = node->options.limits.wal_segment_size},
        .open_table = open_lmdb,
        .data = node,
        .wal = node->journal.durable.wal,
        .table = node->table};
}

static int startup_recover(struct hasp_node *node, struct recovery *recovery,
                           char why[HASP_WHY_SIZE])
{
    struct recovery_disk disk = disk_of(node);
    int rv = recovery_run(recovery, &disk, why);
    node->journal.durable.wal = disk.wal;
    node->table = disk.table;
    if (rv == 0 && recovery->has_snapshot) {
        const struct snapshot_header *header = &recovery->snapshot.header;
        snapshot_store_set_newest(&node->snapshot_store, header->last_index,
                                  header->last_term,
                                  recovery->snapshot.stream.size);
    }
    return rv;
}

static int replace_table(struct hasp_node *node, struct recovery *recovery,
                         char why[HASP_WHY_SIZE])
{
    struct recovery_disk disk = disk_of(node);
    int rv = recovery_replace_table(recovery, &disk, why);
    node->table = disk.table;
    return rv;
}

/* True if the table is damaged, which explains why the core could not start. */
static bool is_table_damaged(struct hasp_node *node)
{
    char why[HASP_WHY_SIZE];
    struct lockfsm *fsm = lockfsm_new();
    bool is_damaged = lockfsm_load(fsm, node->table, why) == HASP_ECORRUPT;
    lockfsm_free(fsm);
    return is_damaged;
}

/* Starts the core. 'recovery' is the source of 'start'; NULL if the directory
 * was empty. */
static void startup_begin(struct hasp_node *node,
                          const struct replica_start *start,
                          struct recovery *recovery)
{
    char why[HASP_WHY_SIZE] = "";
    CHECK(node->core == NULL && !node->has_begun); /* A node starts once. */
    journal_begin(&node->journal);
    if (node->turn.has_failed) {
        return;
    }
    int rv = startup_start_core(node, start, why);
    if (rv == HASP_ECORRUPT && recovery != NULL && is_table_damaged(node)) {
        core_free(node->core);
        node->core = NULL;
        rv = replace_table(node, recovery, why);
        rv = rv ?: startup_start_core(node, &recovery->start, why);
    }
    if (rv == 0 && recovery != NULL) {
        /* The table has been read: it can be trusted. */
        rv = datadir_table_opened(node->datadir);
    }
    if (rv != 0) {
        turn_fail(&node->turn,
                  rv == HASP_ETOOOLD ? HASP_NODE_TOO_OLD : HASP_NODE_STORAGE,
                  "cannot start from '%.200s': %s", node->options.directory,
                  why[0] != '\0' ? why : hasp_strerror(rv));
    }
    if (node->turn.has_failed) {
        return;
    }
    node->has_begun = true;
    members_tell_core(&node->members, turn_now());
    clients_begin(&node->clients);
    turn_wake(&node->turn);
}

/* The order matters: after a crash behind any step, the next start completes
 * the founding with the same founders. */
static int write_beginning(struct hasp_node *node,
                           const struct replica_entry *first,
                           uint64_t *ret_term, char why[HASP_WHY_SIZE])
{
    struct founding *founding = &node->founding;
    uint64_t term, voted_for;
    int rv = founding_save(founding, node->options.directory, why);
    rv = rv ?: datadir_load_vote(node->datadir, &term, &voted_for, why);
    if (rv != 0) {
        return rv;
    }
    /* recovery.c refuses an empty directory that has voted. */
    CHECK(voted_for == 0);
    term = term == 0 ? 1 : term;
    rv = datadir_save_vote(node->datadir, term, 0);
    rv = rv ?: journal_write_now(&node->journal, first, 1);
    rv = rv ?: datadir_set_cluster(node->datadir, founding->seen_id);
    if (rv != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot found the cluster in '%.300s': %s",
                 node->options.directory, hasp_strerror(rv));
        return rv;
    }
    *ret_term = term;
    return 0;
}

static void found_cluster(struct hasp_node *node)
{
    struct founding *founding = &node->founding;
    char why[HASP_WHY_SIZE];
    AUTO(buffer_done) struct buffer configuration = {0};
    founding_first_entry(founding, &configuration);
    struct replica_entry first = {.term = 1,
                                  .log_index = 1,
                                  .type = ENTRY_CHANGE,
                                  .body = buffer_bytes(&configuration)};
    struct replica_start start = {.entries = &first, .entry_count = 1};
    founding_found(founding);
    if (write_beginning(node, &first, &start.term, why) != 0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE, "%s", why);
        return;
    }
    LOG_INFO("cluster founded", "members=%" PRIu32, founding->count);
    /* Earlier greetings did not contain the cluster id. They are exchanged
     * again, so that founders that computed different ids notice it. */
    members_set_cluster(&node->members, founding->seen_id, true);
    startup_begin(node, &start, NULL);
}

static void join_cluster(struct hasp_node *node)
{
    struct replica_start start = {0};
    char why[HASP_WHY_SIZE];
    /* The directory has nothing that joining could overwrite. */
    CHECK(wal_last(node->journal.durable.wal) == 0);
    if (datadir_load_vote(node->datadir, &start.term, &start.voted_for, why) !=
        0) {
        turn_fail(&node->turn, HASP_NODE_STORAGE, "%s", why);
        return;
    }
    node->members.is_joining = true;
    if (node->founding.saw_cluster) {
        LOG_WARN("joining a cluster that exists",
                 "hint=\"if this node lost its directory, or if the [cluster] "
                 "sections differ, the others refuse this node: remove it and "
                 "add it again\"");
    } else {
        LOG_INFO("waiting to be added to a cluster",
                 "id=%" PRIu64 " peer=%s client=%s hint=\"hasp member add\"",
                 node->options.id, node->options.listen_peer,
                 node->options.listen_client);
    }
    startup_begin(node, &start, NULL);
}

int startup_open_disk(struct hasp_node *node, struct recovery *recovery,
                      char why[HASP_WHY_SIZE])
{
    uint64_t incarnation;
    bool is_new;
    seed_hashes();
    startup_fill_random(&incarnation, sizeof incarnation);
    int rv = datadir_open(node->options.directory, node->options.id,
                          incarnation | 1, &node->datadir, &is_new, why);
    rv = rv ?: data_loss_marker_check(node->options.directory, why);
    rv = rv
             ?: data_loss_marker_load_bar(node->options.directory,
                                          &node->accused, why);
    if (rv != 0) {
        return rv;
    }
    node->is_marked = volume_is_marked(node->options.directory);
    if (node->options.replace_empty_ms != 0 && !node->is_marked) {
        LOG_WARN("this node's directory would not be replaced",
                 "hint=\"cluster.replace_empty needs a file '" REPLACE_MARKER
                 "' beside the data directory and in the same file system\"");
    }
    if (node->accused.term != 0) {
        LOG_ERROR("this node is barred", "why=%s", log_quote(why));
    }
    const struct datadir_identity *identity = datadir_identity(node->datadir);
    struct core_options options;
    options_for_core(&node->options, &options);
    /* After the marks of lost data were checked: such a directory must not
     * found a cluster either. */
    founding_init(&node->founding, node->options.id, identity->incarnation,
                  node->options.cluster_name, &node->configured,
                  &options.limits.founding);
    node->founding.is_access_required = options.founds_access_required;
    LOG_INFO(is_new ? "data directory made" : "data directory opened",
             "dir=%s incarnation=%016" PRIx64 " version=%s",
             log_quote(node->options.directory), identity->incarnation,
             HASP_VERSION);
    last_exit_open(&node->last_exit, node->options.directory);
    return startup_recover(node, recovery, why);
}

/* Continues from the directory: starts from its state, completes an interrupted
 * founding, or starts to greet the other members. */
void startup_from_disk(struct hasp_node *node, struct recovery *recovery)
{
    struct founding *founding = &node->founding;
    char why[HASP_WHY_SIZE];
    int rv = founding_load(founding, node->options.directory, why);
    if (rv != 0 && rv != HASP_ENOENT) {
        turn_fail(&node->turn, HASP_NODE_STORAGE, "%s", why);
    } else if (!recovery->is_empty) {
        /* With entries in the log the founding is complete, whatever the record
         * of it says. */
        startup_begin(node, &recovery->start, recovery);
    } else if (rv == HASP_ENOENT) {
        startup_when_due(node, turn_now());
    } else {
        /* The cluster's id is derived from the founders: with other ones this
         * node would complete another cluster than the rest. */
        if (!founding_is_same(founding)) {
            turn_fail(&node->turn, HASP_NODE_CONFIG,
                      "cluster.member or cluster.name was changed while the "
                      "cluster was being founded: restore the old settings, "
                      "or start again with empty directories on all members");
            return;
        }
        found_cluster(node);
    }
}

/* True if cluster.alone is set, or if all ports are bound to loopback, so that
 * no other machine can reach this node. */
static bool may_found_alone(const struct hasp_node *node)
{
    return node->options.founds_alone ||
           (listener_is_loopback(node->clients.listener) &&
            peers_is_loopback(node->members.peers) &&
            web_is_loopback(&node->web));
}

static void refuse_alone(struct hasp_node *node)
{
    turn_fail(&node->turn, HASP_NODE_CONFIG,
              "node %" PRIu64 " has an empty directory and names no other "
              "member, so it would found a cluster of its own, which other "
              "machines can reach at %.100s: add the 'member' lines of the "
              "cluster to [cluster], or 'alone = yes' if it is the only node",
              node->options.id, node->options.listen_client);
}

void startup_when_due(struct hasp_node *node, uint64_t now_ns)
{
    char missing[128];
    CHECK(!node->has_begun);
    switch (founding_decide(&node->founding, now_ns)) {
    case FOUNDING_FOUND:
        /* A lone founder that others can reach is most often a mistake, and
         * would grant locks that another cluster grants, too. */
        if (node->founding.count == 1 && !may_found_alone(node)) {
            refuse_alone(node);
        } else {
            found_cluster(node);
        }
        break;
    case FOUNDING_JOIN:
        join_cluster(node);
        break;
    case FOUNDING_WAIT:
        if (now_ns < node->waiting_logged_ns + WAITING_NS &&
            node->waiting_logged_ns != 0) {
            break;
        }
        node->waiting_logged_ns = now_ns;
        founding_missing(&node->founding, missing, sizeof missing);
        LOG_INFO("waiting to found the cluster", "missing=\"%s\"", missing);
        break;
    }
}
