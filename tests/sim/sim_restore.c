/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_restore.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "lockfsm/feature.h"
#include "lockfsm/user/access.h"
#include "node/backup.h"
#include "raft/replica.h"
#include "storage/disk.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_rights.h"
#include "tests/sim/sim_worker.h"

/* By tenths of all runs. */
#define RESTORED 2
#define SAVED 5
/* Clients trust no lease for longer (sim_rogue.c, sim_program.c). */
#define TTL_MAX_MS 8000
/* Calls on files of a restore. */
#define CALLS_MAX 120
#define STARTS_MAX 100

struct sim_restore {
    struct sim *sim;
    struct sim_event due;
    struct sim_backup kept; /* The newest. */
    uint32_t target;        /* Number of members wanted; 0: as it is. */
    uint64_t forgotten_until_ns;
    uint64_t late_token;
};

/* What is to be restored, and how. */
struct plan {
    struct sim_node *node;
    struct sim_node *forgotten; /* Or NULL. */
    struct sim_backup backup;
    char path[64];
    uint64_t quarantine_ms;
    bool suspends_users;
};

static void fall_due(struct sim *sim, struct sim_event *event);

static uint64_t dice_of(const struct sim *sim)
{
    return (sim->options.seed * UINT64_C(0x9e3779b97f4a7c15) >> 40) % 10;
}

struct sim_restore *sim_restore_new(struct sim *sim)
{
    struct sim_restore *restore = memory_new(sizeof *restore);
    restore->sim = sim;
    restore->due.run = fall_due;
    backup_set_level(FEATURE_LEVEL_FIRST + 1);
    backup_set_slice(sim_node_slice(sim));
    return restore;
}

void sim_restore_begin(struct sim_restore *restore)
{
    struct sim *sim = restore->sim;
    if (sim_restore_is_planned(sim)) {
        sim_at(sim, &restore->due, sim_between(sim, 7000, 15000) * SIM_MS);
    }
}

void sim_restore_free(struct sim_restore *restore)
{
    sim_backup_done(&restore->kept);
    free(restore);
}

bool sim_restore_is_planned(const struct sim *sim)
{
    return dice_of(sim) < RESTORED;
}

bool sim_restore_is_saved(const struct sim *sim)
{
    return dice_of(sim) < SAVED;
}

static void copy_backup(struct sim_backup *to, const struct sim_backup *from)
{
    sim_backup_done(to);
    *to = *from;
    to->bytes = (struct buffer){0};
    buffer_put_bytes(&to->bytes, buffer_bytes(&from->bytes));
}

/* A backup of a former life is no longer usable. */
void sim_restore_keep(struct sim *sim, const struct sim_backup *backup)
{
    if (backup->life == sim->life) {
        copy_backup(&sim->restore->kept, backup);
    }
}

uint64_t sim_restore_late_token(const struct sim *sim)
{
    return sim->restore->late_token;
}

/* --- Nodes that are added ------------------------------------------------- */

bool sim_restore_has_forgotten(const struct sim *sim,
                               const struct sim_node *node)
{
    return sim_node_is_former(node) &&
           sim->now_ns < sim->restore->forgotten_until_ns;
}

bool sim_restore_wants_member(struct sim *sim, struct sim_node **ret_node)
{
    struct replica_members members;
    if (sim->life == 0 || !sim_members(sim, &members) ||
        members.count >= sim->restore->target) {
        return false;
    }
    *ret_node = NULL;
    for (uint64_t id = 1; id <= sim->id_count && *ret_node == NULL; id++) {
        if (replica_members_find(&members, id) == NULL) {
            *ret_node = sim_admin_prepare(sim, id, &members);
        }
    }
    return *ret_node != NULL;
}

/* --- Files ---------------------------------------------------------------- */

/* A separate process works on the machine's files. */
static struct files_machine *enter(struct sim_node *node)
{
    struct sim_disk *disk = sim_node_disk(node);
    CHECK(sim_node_core(node) == NULL);
    files_start(disk->files);
    files_die_within(disk->files, 0);
    files_fail_within(disk->files, 0);
    files_set_room(disk->files, UINT64_MAX);
    tasks_enter(&disk->tasks);
    return disk->files;
}

static void write_file(const char *path, struct bytes bytes)
{
    int fd = storage_port->openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC);
    CHECK(fd >= 0);
    CHECK(disk_write_cached(fd, bytes, 0) == 0 && storage_port->fsync(fd) == 0);
    storage_port->close(fd);
}

static void read_file(const char *path, struct buffer *out)
{
    size_t done = 0;
    int fd = storage_port->openat(AT_FDCWD, path, O_RDONLY);
    CHECK(fd >= 0);
    size_t size = (size_t)storage_port->size(fd);
    buffer_clear(out);
    CHECK(disk_read(fd, buffer_reserve(out, size), size, 0, &done) == 0);
    out->size += done;
    storage_port->close(fd);
}

/* --- A backup of a directory ---------------------------------------------- */

/* From a stopped node: the end of its log need not be committed. */
static bool export_directory(struct sim *sim, struct sim_node *node,
                             uint64_t applied, struct sim_backup *ret_backup)
{
    char path[64], why[HASP_NODE_WHY_SIZE] = "";
    struct hasp_node_snapshot snapshot;
    const char *name = sim_node_host(node)->name;
    struct files_machine *files = enter(node);
    snprintf(path, sizeof path, "/%s/last.snap", name);
    files_die_within(files, sim_chance(sim, 0.3)
                                ? (uint32_t)sim_between(sim, 1, CALLS_MAX)
                                : 0);
    int status = hasp_node_export(sim_node_disk(node)->path, path, true,
                                  &snapshot, why);
    if (files_is_dead(files)) {
        enter(node);
        status = hasp_node_export(sim_node_disk(node)->path, path, true,
                                  &snapshot, why);
    }
    files_die_within(files, 0);
    sim_note(sim, sim_node_host(node), "is exported", (uint64_t)status,
             status == 0 ? snapshot.log_index : 0, 0);
    if (status == 0) {
        ret_backup->life = sim_node_life(node);
        ret_backup->log_index = snapshot.log_index;
        ret_backup->term = snapshot.term;
        read_file(path, &ret_backup->bytes);
        sim_backup_check(sim, name, ret_backup);
        if (ret_backup->log_index < applied) {
            sim_fail(sim, ORACLE_BACKUPS,
                     "a saved directory has everything applied: %s had %" PRIu64
                     ", and saved is %" PRIu64,
                     name, applied, ret_backup->log_index);
        }
    } else {
        sim_fail(sim, ORACLE_BACKUPS,
                 "a directory that starts can be saved: %s: %s", name, why);
    }
    files_die(files);
    return status == 0;
}

/* --- What a restore keeps ------------------------------------------------- */

static void fail_kept(struct sim *sim, const char *what)
{
    sim_fail(sim, ORACLE_RESTORES,
             "a restore keeps what must not be forgotten, and nothing else: %s",
             what);
}

static void check_fences(struct sim *sim, const struct sim_state *before,
                         const struct lockfsm *after)
{
    struct bytes none = {NULL, 0};
    bool is_same = lockfsm_fence_count(before->fsm) ==
                   lockfsm_fence_count(after);
    struct treap *order = lockfsm_fence_order(before->fsm);
    struct treap_node *at = treap_from(order, none, 0);
    while (at != NULL) {
        const struct fence *fence = LIST_ENTRY(at, struct fence, in_order);
        const struct fence *kept = lockfsm_fence(after, fence->resource);
        is_same = is_same && kept != NULL && kept->token == fence->token;
        at = treap_from(order, at->key, at->number + 1);
    }
    if (!is_same) {
        fail_kept(sim, "the fences are others");
    }
}

static bool is_held_by_durable(const struct lockfsm *fsm,
                               const struct hold *hold)
{
    const struct lock *lock = lockfsm_lock(fsm, hold->lock->name);
    const struct hold *same = lock == NULL
                                  ? NULL
                                  : lockfsm_hold(fsm, lock, hold->session->id,
                                                 hold->owner);
    return hold->session->is_durable && same != NULL &&
           same->token == hold->token;
}

static void check_holds(struct sim *sim, const struct sim_state *before,
                        const struct lockfsm *after)
{
    uint64_t durable = 0, kept = 0, sessions = 0;
    for (const struct session *session = lockfsm_sessions(before->fsm);
         session != NULL; session = session->by_id.next) {
        LIST_FOR (const struct hold, hold, &session->holds, in_session) {
            durable += session->is_durable;
            kept += is_held_by_durable(after, hold);
        }
        sessions += lockfsm_session(after, session->id) != NULL;
    }
    const struct session *first = lockfsm_sessions(after);
    if (durable != kept || lockfsm_hold_count(after) != durable) {
        fail_kept(sim, "the holds are not those of durable sessions");
    } else if ((first != NULL ? HASH_CNT(by_id, first) : 0) != sessions ||
               lockfsm_wait_count(after) != 0) {
        fail_kept(sim, "the sessions are not the durable ones, or some wait");
    }
}

static uint64_t count_patterns(const struct lockfsm *fsm)
{
    uint64_t count = 0;
    LIST_FOR (const struct blacklisting, listed, lockfsm_blacklist(fsm),
              in_order) {
        count += listed->session == 0;
    }
    return count;
}

/* Unchanged, or all disabled. */
static bool are_users_kept(const struct plan *plan,
                           const struct lockfsm *before,
                           const struct lockfsm *after)
{
    struct rights old = {0}, new = {0};
    rights_load(before, &old);
    rights_load(after, &new);
    for (int i = 0; plan->suspends_users && i < RIGHT_USER_MAX; i++) {
        old.user[i].is_disabled = old.user[i].number != 0;
    }
    return rights_are_same(&old, &new);
}

static void check_rest(struct sim *sim, const struct plan *plan,
                       const struct sim_state *before,
                       const struct lockfsm *after)
{
    uint64_t quarantine_ms = 0;
    (void)lockfsm_quarantine(after, &quarantine_ms);
    if (count_patterns(before->fsm) != count_patterns(after)) {
        fail_kept(sim, "the blacklist is another one");
    } else if (lockfsm_feature_level(before->fsm) !=
               lockfsm_feature_level(after)) {
        fail_kept(sim, "the feature level is another one");
    } else if (!are_users_kept(plan, before->fsm, after)) {
        fail_kept(sim, "users, roles, access or revoked certificates are "
                       "others");
    } else if (quarantine_ms < plan->quarantine_ms &&
               plan->quarantine_ms != HASP_NODE_QUARANTINE_FULL) {
        fail_kept(sim, "the quarantine is shorter than was asked for");
    } else if (quarantine_ms < lockfsm_lease_max(before->fsm) &&
               plan->quarantine_ms == HASP_NODE_QUARANTINE_FULL) {
        fail_kept(sim, "the quarantine is shorter than the longest lease");
    }
    for (int key = 0; key < LIMIT_COUNT; key++) {
        if (lockfsm_limit(before->fsm, (enum limit_key)key) !=
            lockfsm_limit(after, (enum limit_key)key)) {
            fail_kept(sim, "a limit is another one");
        }
    }
}

static void check_kept(struct sim *sim, const struct plan *plan,
                       const struct lockfsm *after)
{
    struct sim_state before;
    if (!sim_state_load(sim, buffer_bytes(&plan->backup.bytes), &before)) {
        return;
    }
    if (lockfsm_applied_index(after) != plan->backup.log_index ||
        lockfsm_applied_term(after) != plan->backup.term) {
        fail_kept(sim, "it begins after another entry");
    }
    check_fences(sim, &before, after);
    check_holds(sim, &before, after);
    check_rest(sim, plan, &before, after);
    sim_state_done(&before);
}

/* --- The restore ---------------------------------------------------------- */

static void fill(struct sim *sim, void *out, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)out)[i] = (uint8_t)prng_next(&sim->prng);
    }
}

static int run(struct sim *sim, const struct plan *plan,
               char why[HASP_NODE_WHY_SIZE])
{
    struct backup_chance chance;
    struct hasp_node_snapshot snapshot;
    struct hasp_node_options options;
    uint64_t id = sim_node_id(plan->node);
    char client[32], peer[32];
    uint32_t last = sim_node_host(plan->node)->number + 1;
    snprintf(peer, sizeof peer, "10.0.0.%" PRIu32 ":7421", last);
    snprintf(client, sizeof client, "10.0.0.%" PRIu32 ":7420", last);
    struct hasp_node_member member = {id, peer, client};
    hasp_node_options_init(&options);
    options.id = id;
    options.directory = sim_node_disk(plan->node)->path;
    options.listen_client = client;
    options.listen_peer = peer;
    options.is_insecure = true;
    options.members = &member;
    options.member_count = 1;
    fill(sim, &chance, sizeof chance);
    chance.incarnation |= 1;
    chance.log_id |= 1;
    return backup_new_life(&options, plan->path, plan->quarantine_ms,
                           plan->suspends_users, &chance, &snapshot, why);
}

/* The node has an empty disk, and the file next to it. */
static void empty(const struct plan *plan,
                  const struct replica_members *members)
{
    sim_node_wipe(plan->node, members);
    enter(plan->node);
    write_file(plan->path, buffer_bytes(&plan->backup.bytes));
}

/* A damaged file is refused, and the directory does not change. */
static void try_damaged(struct sim *sim, const struct plan *plan)
{
    char why[HASP_NODE_WHY_SIZE] = "";
    struct buffer damaged = {0};
    buffer_put_bytes(&damaged, buffer_bytes(&plan->backup.bytes));
    sim_backup_damage(sim, &damaged);
    write_file(plan->path, buffer_bytes(&damaged));
    buffer_done(&damaged);
    int status = run(sim, plan, why);
    if (status != HASP_NODE_DATA || why[0] == '\0') {
        sim_fail(sim, ORACLE_BACKUPS,
                 "a damaged backup is refused: a restore ends with %d: %s",
                 status, why);
    }
    write_file(plan->path, buffer_bytes(&plan->backup.bytes));
}

/* It is interrupted; then a node starts there only from a complete restore, or
 * if the restore has not begun. */
static void try_cut_short(struct sim *sim, const struct plan *plan,
                          const struct replica_members *members)
{
    char why[HASP_NODE_WHY_SIZE] = "";
    struct sim_disk *disk = sim_node_disk(plan->node);
    struct replica_start start = {0};
    struct bytes none = {NULL, 0};
    files_die_within(disk->files, (uint32_t)sim_between(sim, 1, CALLS_MAX));
    int status = run(sim, plan, why);
    bool is_cut = files_is_dead(disk->files);
    sim_note(sim, sim_node_host(plan->node), "restore cut short", is_cut,
             (uint64_t)status, 0);
    if (status != 0 && !is_cut) {
        sim_fail(sim, ORACLE_RESTORES, "a good backup can be restored: %s",
                 why);
    }
    files_die(disk->files);
    if (sim_chance(sim, 0.5)) {
        files_lose_power(disk->files);
    }
    int error = sim_disk_open(disk, none, &start, why);
    bool is_whole = start.snapshot_index == plan->backup.log_index &&
                    start.entry_count == 0;
    if (error == 0 && !is_whole && !disk->recovery.is_empty) {
        sim_fail(
            sim, ORACLE_RESTORES,
            "nothing starts from an interrupted restore: %s begins at %" PRIu64
            " of %" PRIu64,
            sim_node_host(plan->node)->name, start.snapshot_index,
            plan->backup.log_index);
    } else if ((error != 0 || !is_whole) && status == 0 && !is_cut) {
        sim_fail(sim, ORACLE_RESTORES, "a restored directory starts: %s: %s",
                 sim_node_host(plan->node)->name, why);
    }
    sim_disk_close(disk, false);
    empty(plan, members);
}

/* The node may be of a version that is too old for the state. */
static void start_node(struct sim *sim, const struct plan *plan)
{
    struct sim_node *node = plan->node;
    for (int i = 0;
         i < STARTS_MAX && sim_node_core(node) == NULL && !sim->has_failed;
         i++) {
        sim_node_start(node);
    }
    if (sim_node_core(node) == NULL) {
        sim_fail(sim, ORACLE_RESTORES,
                 "a restored directory starts: %s does not",
                 sim_node_host(node)->name);
        return;
    }
    struct replica_members members;
    const struct lockfsm *fsm = core_state(sim_node_core(node));
    replica_members(core_replica(sim_node_core(node)), &members);
    check_kept(sim, plan, fsm);
    sim_check_first_state(sim, fsm, &members);
}

static void begin_life(struct sim *sim, const struct plan *plan)
{
    char why[HASP_NODE_WHY_SIZE] = "";
    struct sim_restore *restore = sim->restore;
    struct replica_members members = {.count = 1};
    members.member[0].id = sim_node_id(plan->node);
    members.member[0].role = MEMBER_VOTER;
    sim_node_address(plan->node, members.member[0].address);
    restore->late_token = sim_check_token_base(sim) + sim_check_newest(sim) + 1;
    struct sim_state before;
    if (!sim_state_load(sim, buffer_bytes(&plan->backup.bytes), &before)) {
        return;
    }
    sim_check_begin_life(sim, plan->backup.log_index,
                         lockfsm_feature_level(before.fsm));
    sim_state_done(&before);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct sim_node *node = sim->node[i];
        if (node != plan->forgotten && node != plan->node &&
            i >= sim->id_count) {
            sim_node_unsettle(node);
        } else if (node != plan->forgotten && node != plan->node) {
            sim_node_wipe(node, &members);
        }
    }
    empty(plan, &members);
    if (sim_chance(sim, 0.5)) {
        try_damaged(sim, plan);
    }
    if (sim_chance(sim, 0.5)) {
        try_cut_short(sim, plan, &members);
    }
    int status = sim->has_failed ? 0 : run(sim, plan, why);
    if (status != 0) {
        sim_fail(sim, ORACLE_RESTORES, "a good backup can be restored: %s",
                 why);
    }
    files_die(sim_node_disk(plan->node)->files);
    if (!sim->has_failed && sim_chance(sim, 0.3)) {
        files_lose_power(sim_node_disk(plan->node)->files);
    }
    start_node(sim, plan);
}

/* --- Before it ------------------------------------------------------------ */

/* True if it cannot win an election alone. */
static bool may_be_forgotten(const struct sim *sim, struct sim_node *node)
{
    struct replica_members members;
    struct core *core = sim_node_core(node);
    uint32_t voters = 0;
    if (core == NULL || sim_node_is_former(node) || sim_node_leads(node) ||
        lockfsm_applied_index(core_state(core)) == 0 ||
        sim_node_disk(node)->is_full) {
        return false;
    }
    (void)sim;
    replica_members(core_replica(core), &members);
    for (uint32_t i = 0; i < members.count; i++) {
        voters += members.member[i].role == MEMBER_VOTER;
    }
    return voters >= 2;
}

/* It continues to run, or restarts by itself. */
static struct sim_node *choose_forgotten(struct sim *sim)
{
    struct sim_node *node = sim->node[prng_below(&sim->prng, sim->node_count)];
    if (sim_chance(sim, 0.5) || !may_be_forgotten(sim, node)) {
        return NULL;
    }
    sim_note(sim, sim_node_host(node), "is forgotten", 0, 0, 0);
    if (sim_chance(sim, 0.5)) {
        sim_node_kill(node, sim_chance(sim, 0.5));
    }
    return node;
}

/* The node that has applied most, as operators are advised; NULL: none. */
static struct sim_node *choose_exported(struct sim *sim)
{
    struct sim_node *best = NULL;
    uint64_t most = 0;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct core *core = sim_node_core(sim->node[i]);
        uint64_t applied = core == NULL
                               ? 0
                               : lockfsm_applied_index(core_state(core));
        if (applied > most && !sim_node_is_former(sim->node[i])) {
            most = applied;
            best = sim->node[i];
        }
    }
    return best;
}

static uint64_t choose_quarantine(struct sim *sim)
{
    if (sim_chance(sim, 0.05)) {
        return HASP_NODE_QUARANTINE_FULL;
    }
    return TTL_MAX_MS + (sim_chance(sim, 0.5) ? sim_between(sim, 0, 4000) : 0);
}

static uint32_t choose_target(struct sim *sim)
{
    static const uint32_t targets[] = {1, 3, 3, 3, 5};
    uint32_t target = targets[prng_below(&sim->prng, 5)];
    return target < sim->id_count ? target : sim->id_count;
}

static bool make_plan(struct sim *sim, struct plan *plan)
{
    struct sim_restore *restore = sim->restore;
    struct sim_node *exported = choose_exported(sim);
    bool is_exported = exported != NULL &&
                       (restore->kept.log_index == 0 || sim_chance(sim, 0.3));
    *plan = (struct plan){.quarantine_ms = choose_quarantine(sim)};
    plan->suspends_users = sim_users_are_there(sim) && sim_chance(sim, 0.4);
    if (exported == NULL && restore->kept.log_index == 0) {
        return false;
    }
    if (is_exported) {
        uint64_t applied = lockfsm_applied_index(
            core_state(sim_node_core(exported)));
        sim_node_kill(exported, sim_chance(sim, 0.5));
        is_exported = export_directory(sim, exported, applied, &plan->backup);
    } else {
        copy_backup(&plan->backup, &restore->kept);
    }
    if (sim->has_failed) {
        return false;
    }
    plan->forgotten = choose_forgotten(sim);
    do {
        plan->node = sim->node[prng_below(&sim->prng, sim->node_count)];
    } while (plan->node == plan->forgotten || sim_node_id(plan->node) == 0 ||
             sim_node_is_old(plan->node));
    snprintf(plan->path, sizeof plan->path, "/%s/monday.snap",
             sim_node_host(plan->node)->name);
    return true;
}

static void fall_due(struct sim *sim, struct sim_event *event)
{
    struct sim_restore *restore = sim->restore;
    struct plan plan;
    if (sim->phase != SIM_CHAOS) {
        return;
    }
    if (sim_check_token_base(sim) == 0 || !make_plan(sim, &plan)) {
        sim_at(sim, event, sim->now_ns + 500 * SIM_MS);
        return;
    }
    sim_note(sim, sim_node_host(plan.node), "is restored",
             plan.backup.log_index, plan.backup.term, plan.quarantine_ms);
    sim->stats.restores++;
    restore->target = choose_target(sim);
    sim->member_count = restore->target;
    restore->forgotten_until_ns = sim->now_ns +
                                  sim_between(sim, 500, 15000) * SIM_MS;
    sim_backup_done(&restore->kept);
    begin_life(sim, &plan);
    sim_backup_done(&plan.backup);
    if (sim_chance(sim, 0.2)) {
        sim_at(sim, event,
               sim->now_ns + sim_between(sim, 3000, 12000) * SIM_MS);
    }
}
