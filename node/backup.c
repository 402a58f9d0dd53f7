/* SPDX-License-Identifier: MIT */

/* Backups outside of a running node: inspect one, make one from a directory,
 * start a new epoch from one (include/hasp/node.h has the contracts).
 *
 * All of them load a state into a table in memory. The state of a directory is
 * its newest snapshot and the log after it; the LMDB table is only a checkpoint
 * of that and is not read. */

#include "node/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/address.h"
#include "base/check.h"
#include "base/digest.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "core/apply.h"
#include "lockfsm/feature.h"
#include "lockfsm/lockfsm.h"
#include "lockfsm/user/access.h"
#include "lockfsm/user/audit.h"
#include "node/options.h"
#include "raft/replica.h"
#include "storage/datadir.h"
#include "storage/port.h"
#include "storage/snapshot.h"
#include "storage/wal.h"
#include "storage/wal_load.h"

_Static_assert(HASP_NODE_MEMBER_MAX == MEMBER_COUNT_MAX, "one number");
_Static_assert(sizeof(((struct hasp_node_snapshot *)0)->cluster_id) ==
                   CLUSTER_ID_SIZE,
               "one size of ids");
_Static_assert(sizeof(((struct hasp_node_snapshot *)0)->checksum) ==
                   DIGEST_SIZE,
               "one size of checksums");

/* A state at one index, with its table in memory. */
struct backup_run {
    struct lockfsm *fsm;
    struct table *table; /* In memory. */
    uint64_t configuration_index;
    struct replica_members members;
};

static uint32_t level = FEATURE_LEVEL;
static uint32_t slice = SLICE_DEFAULT;

void backup_set_level(uint32_t feature_level)
{
    level = feature_level;
}

void backup_set_slice(uint32_t entry_slice)
{
    slice = entry_slice;
}

static void backup_fill_random(void *out, size_t size)
{
    ssize_t got;
    do {
        got = getrandom(out, size, 0);
    } while (got < 0 && errno == EINTR);
    /* getrandom(2) never returns fewer bytes for sizes up to 256. */
    CHECK(got == (ssize_t)size);
}

static void backup_new(struct backup_run *backup)
{
    if (hash_seed == 0) {
        uint64_t seed;
        backup_fill_random(&seed, sizeof seed);
        hash_seed_set(seed);
    }
    *backup = (struct backup_run){.fsm = lockfsm_new(),
                                  .table = table_new_memory()};
    lockfsm_set_node_level(backup->fsm, level);
    lockfsm_set_slice(backup->fsm, slice);
}

static void backup_done(struct backup_run *backup)
{
    lockfsm_free(backup->fsm);
    table_close(backup->table);
}

static int load_file(struct backup_run *backup,
                     const struct snapshot_file *file, char why[HASP_WHY_SIZE])
{
    struct table_txn *txn;
    char reason[HASP_WHY_SIZE] = "its records contradict each other";
    CHECK(table_begin_write(backup->table, &txn) == 0);
    int error = snapshot_decode(file->stream, txn);
    if (error != 0) {
        table_abort(txn);
    } else {
        CHECK(table_commit(txn) == 0);
        /* The checksum shows only that the file is what was written; loading
         * checks the invariants of the state. */
        error = lockfsm_load(backup->fsm, backup->table, reason);
    }
    if (error == 0 && (file->header.last_index == 0 ||
                       replica_members_decode(file->header.configuration,
                                              &backup->members) != 0)) {
        snprintf(reason, sizeof reason, "its list of members is invalid");
        error = HASP_ECORRUPT;
    }
    if (error == HASP_ETOOOLD) {
        snprintf(why, HASP_WHY_SIZE, "%s", reason);
        return error;
    }
    if (error != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "the checksum matches, but the content is not a state: %.400s",
                 reason);
        return HASP_ECORRUPT;
    }
    backup->configuration_index = file->header.configuration_index;
    return 0;
}

/* As lockfsm_new_life() decides. */
static bool session_is_kept(const struct session *session)
{
    return session->is_durable && session->end == SESSION_LIVES;
}

/* Counts a durable hold, and adds it to the digest: the lock, the owner, its
 * token. */
static void describe_hold(const struct lock *lock, const struct hold *hold,
                          struct hasp_node_snapshot *snapshot)
{
    if (!session_is_kept(hold->session)) {
        return;
    }
    uint64_t sum = digest_short(hold->token, lock->name);
    snapshot->durable_holds++;
    snapshot->kept_digest += digest_short(sum, hold->owner);
}

static void describe_locks(const struct lockfsm *fsm,
                           struct hasp_node_snapshot *snapshot)
{
    uint64_t longest_ms = 0;
    HASH_FOR (const struct lock, lock, lockfsm_locks(fsm), by_name) {
        snapshot->locks++;
        snapshot->holds += lock->hold_count;
        snapshot->waits += lock->wait_count;
        longest_ms = u64_max(lock->delay_ms, longest_ms);
        LIST_FOR (const struct hold, hold, &lock->holds, in_lock) {
            longest_ms = u64_max(hold->delay_ms, longest_ms);
            describe_hold(lock, hold, snapshot);
        }
    }
    snapshot->longest_delay_ms = longest_ms;
}

static int add_record(void *data, struct bytes key, struct bytes value)
{
    *(uint64_t *)data += digest_short(digest_short(0, key), value);
    return 0;
}

/* Adds the records that a restore takes over as they are. A sum, because no
 * order is needed. */
static void describe_kept(struct table *table,
                          struct hasp_node_snapshot *snapshot)
{
    static const enum table_map maps[] = {TABLE_FENCES, TABLE_USERS,
                                          TABLE_ROLES, TABLE_REVOKED};
    struct table_txn *txn;
    CHECK(table_begin_read(table, &txn) == 0);
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        CHECK(table_walk(txn, maps[i], (struct bytes){0}, add_record,
                         &snapshot->kept_digest) == 0);
    }
    table_abort(txn);
}

static bool is_about_users(struct bytes command)
{
    static const char *const groups[] = {"USER.", "SECRET.", "ROLE.", "ACCESS.",
                                         "CERT."};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        size_t size = strlen(groups[i]);
        if (command.size > size && memcmp(command.data, groups[i], size) == 0) {
            return true;
        }
    }
    return false;
}

static void describe_users(const struct lockfsm *fsm,
                           struct hasp_node_snapshot *snapshot)
{
    struct user_counts counts = lockfsm_user_counts(fsm);
    snapshot->users = counts.users;
    snapshot->secrets = counts.secrets;
    snapshot->is_access_required = lockfsm_access_is_required(fsm);
    LIST_FOR (const struct act, act, lockfsm_acts(fsm), in_order) {
        if (act->code == RESULT_OK && is_about_users(act->command)) {
            snapshot->users_changed_ms = act->wall_ms;
            snprintf(snapshot->users_change, sizeof snapshot->users_change,
                     "%.*s %.*s", (int)act->command.size,
                     (const char *)act->command.data, (int)act->what.size,
                     (const char *)act->what.data);
        }
    }
}

static void backup_describe(const struct backup_run *backup,
                            struct hasp_node_snapshot *ret_snapshot)
{
    const struct lockfsm *fsm = backup->fsm;
    struct hasp_node_snapshot snapshot = {
        .log_index = lockfsm_applied_index(fsm),
        .term = lockfsm_applied_term(fsm),
        .token_base = lockfsm_token_base(fsm),
        .newest_token = lockfsm_newest_token(fsm),
        .fences = lockfsm_fence_count(fsm),
        .member_count = backup->members.count};
    lockfsm_cluster_id(fsm, snapshot.cluster_id);
    lockfsm_quarantine(fsm, &snapshot.quarantine_ms);
    describe_locks(fsm, &snapshot);
    describe_users(fsm, &snapshot);
    describe_kept(backup->table, &snapshot);
    HASH_FOR (const struct session, session, lockfsm_sessions(fsm), by_id) {
        snapshot.sessions++;
        snapshot.durable_sessions += session_is_kept(session);
        snapshot.longest_ttl_ms = u64_max(session->ttl_ms,
                                          snapshot.longest_ttl_ms);
    }
    LIST_EACH (node, lockfsm_blacklist(fsm)) {
        snapshot.blacklist++;
    }
    for (uint32_t i = 0; i < backup->members.count; i++) {
        const struct replica_member *from = &backup->members.member[i];
        struct hasp_node_snapshot_member *to = &snapshot.member[i];
        to->id = from->id;
        to->is_voter = from->role == MEMBER_VOTER;
        snprintf(to->addresses, sizeof to->addresses, "%s", from->address);
    }
    *ret_snapshot = snapshot;
}

static int backup_status_of(int error)
{
    if (error == 0) {
        return 0;
    }
    if (error == HASP_ETOOOLD) {
        return HASP_NODE_TOO_OLD;
    }
    return error == HASP_ECORRUPT || error == HASP_ENOENT ? HASP_NODE_DATA
                                                          : HASP_NODE_STORAGE;
}

int hasp_node_inspect(const char *path, struct hasp_node_snapshot *ret_snapshot,
                      char why[HASP_NODE_WHY_SIZE])
{
    struct snapshot_file file;
    struct backup_run backup;
    int error = snapshot_file_map(path, &file, why);
    if (error != 0) {
        return backup_status_of(error);
    }
    backup_new(&backup);
    error = load_file(&backup, &file, why);
    /* The same checks as for a restore, so that what passes here can be
     * restored. */
    if (error == 0) {
        backup_describe(&backup, ret_snapshot);
        ret_snapshot->size = file.stream.size;
        snapshot_checksum(file.stream, ret_snapshot->checksum);
    }
    backup_done(&backup);
    snapshot_file_unmap(&file);
    return backup_status_of(error);
}

/* Applies the entries of the log that follow the state. */
static int apply_log(struct backup_run *backup, const struct wal_image *log,
                     char why[HASP_WHY_SIZE])
{
    struct effects effects = {0};
    uint64_t applied = lockfsm_applied_index(backup->fsm);
    int error = 0;
    for (size_t i = 0; i < log->entry_count && error == 0; i++) {
        const struct wal_entry *entry = &log->entries[i];
        if (entry->log_index <= applied) {
            continue;
        }
        struct replica_entry replicated = {
            .term = entry->term,
            .log_index = entry->log_index,
            .type = (enum replica_entry_type)entry->type,
            .body = entry->body};
        /* The effects are dropped: no client waits for the results of a
         * backup. */
        error = apply_to_state(backup->fsm, &replicated, &effects);
        effects_clear(&effects);
        if (error == 0 && entry->type == ENTRY_CHANGE) {
            error = replica_members_decode(entry->body, &backup->members);
            backup->configuration_index = entry->log_index;
        }
        if (error != 0) {
            snprintf(why, HASP_WHY_SIZE,
                     "cannot apply entry %" PRIu64 " of the log: %s%s",
                     entry->log_index, hasp_strerror(error),
                     error == HASP_ETOOOLD
                         ? "; use the version of hasp that wrote it"
                         : "");
        }
    }
    effects_done(&effects);
    return error;
}

/* True if the log continues the snapshot. False after an interrupted
 * installation, which leaves an old log: then the snapshot is the whole
 * state. */
static bool goes_on(const struct backup_run *backup,
                    const struct wal_image *log)
{
    uint64_t at = lockfsm_applied_index(backup->fsm);
    if (at < log->first) {
        /* The log begins after the snapshot; load_log() reports a gap. */
        return true;
    }
    return at < log->next && log->entries[at - log->first].term ==
                                 lockfsm_applied_term(backup->fsm);
}

static int load_log(struct backup_run *backup, const char *path,
                    char why[HASP_WHY_SIZE])
{
    struct wal_image log;
    int folder_fd = storage_port->openat(AT_FDCWD, path,
                                         O_RDONLY | O_DIRECTORY);
    if (folder_fd < 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot open '%.300s': %s", path,
                 strerror(errno));
        return HASP_EIO;
    }
    int error = wal_load(folder_fd, path, 0, &log, why);
    storage_port->close(folder_fd);
    /* A log that does not continue the snapshot is that of an interrupted
     * installation, and is ignored. */
    if (error == 0 && goes_on(backup, &log)) {
        if (log.first > lockfsm_applied_index(backup->fsm) + 1) {
            snprintf(why, HASP_WHY_SIZE,
                     "'%.200s' is incomplete: the log begins after the newest "
                     "good snapshot ends; use the newest file in the folder "
                     "'snapshot' beside it as the backup",
                     path);
            error = HASP_ECORRUPT;
        } else {
            error = apply_log(backup, &log, why);
        }
    }
    wal_image_done(&log);
    return error;
}

static int load_directory(struct backup_run *backup, struct datadir *datadir,
                          char why[HASP_WHY_SIZE])
{
    struct snapshot_file file;
    const char *folder = datadir_snapshot_path(datadir);
    int error = snapshot_file_newest(folder, &file, why);
    if (error == 0) {
        error = load_file(backup, &file, why);
        snapshot_file_unmap(&file);
    } else if (error == HASP_ENOENT) {
        /* Without a snapshot the log must be complete; load_log() checks
         * that. */
        error = 0;
    }
    error = error ?: load_log(backup, datadir_wal_path(datadir), why);
    if (error == 0 && (lockfsm_applied_index(backup->fsm) == 0 ||
                       backup->members.count == 0)) {
        snprintf(
            why, HASP_WHY_SIZE,
            "the directory has no state: this node has never been a member "
            "of a cluster");
        error = HASP_ECORRUPT;
    }
    return error;
}

int hasp_node_export(const char *directory, const char *path, bool may_replace,
                     struct hasp_node_snapshot *ret_snapshot,
                     char why[HASP_NODE_WHY_SIZE])
{
    struct datadir *datadir;
    struct backup_run backup;
    struct table_txn *txn;
    AUTO(buffer_done) struct buffer members = {0};
    uint64_t size;
    if (!may_replace && storage_port->exists(AT_FDCWD, path) == 0) {
        snprintf(why, HASP_NODE_WHY_SIZE, "'%.300s' exists already", path);
        return HASP_NODE_EXISTS;
    }
    int error = datadir_open_existing(directory, &datadir, why);
    if (error != 0) {
        return error == HASP_ENOENT ? HASP_NODE_CONFIG : HASP_NODE_STORAGE;
    }
    backup_new(&backup);
    error = load_directory(&backup, datadir, why);
    datadir_close(datadir);
    if (error == 0) {
        replica_members_encode(&backup.members, &members);
        struct snapshot_header header = {
            .last_index = lockfsm_applied_index(backup.fsm),
            .last_term = lockfsm_applied_term(backup.fsm),
            .configuration_index = backup.configuration_index,
            .configuration = buffer_bytes(&members)};
        error = lockfsm_flush(backup.fsm, backup.table);
        CHECK(error == 0 && table_begin_read(backup.table, &txn) == 0);
        error = snapshot_file_save(path, &header, txn, &size, why);
        table_abort(txn);
    }
    backup_done(&backup);
    /* Reads the file back, which also checks it. */
    if (error == 0) {
        return hasp_node_inspect(path, ret_snapshot, why);
    }
    return error == HASP_ETOOOLD ? HASP_NODE_TOO_OLD : HASP_NODE_STORAGE;
}

/* The order matters: from datadir_set_cluster() on haspd refuses the directory,
 * because it names a cluster but has no log, and the last step makes the log.
 * So the directory of an interrupted restore does not start. */
static int write_directory(struct backup_run *backup,
                           const struct hasp_node_options *options,
                           const struct backup_chance *chance,
                           uint64_t *ret_size, char why[HASP_WHY_SIZE])
{
    struct wal_options wal_options = {
        .segment_size = options->limits.wal_segment_size,
        .log_id = chance->log_id};
    struct snapshot_header header = {
        .last_index = lockfsm_applied_index(backup->fsm),
        .last_term = lockfsm_applied_term(backup->fsm),
        .configuration_index = backup->configuration_index};
    struct datadir *datadir;
    struct table_txn *txn;
    struct wal *wal = NULL;
    bool is_new;
    CHECK(chance->incarnation != 0 && cluster_id_is_known(chance->cluster_id));
    int error = datadir_open(options->directory, options->id,
                             chance->incarnation, &datadir, &is_new, why);
    if (error != 0) {
        return error;
    }
    /* check_empty() has refused a directory with content. */
    CHECK(is_new);
    error = datadir_set_cluster(datadir, chance->cluster_id);
    error = error ?: datadir_save_vote(datadir, header.last_term, 0);
    if (error != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot write to '%.300s': %s",
                 options->directory, hasp_strerror(error));
    } else {
        AUTO(buffer_done) struct buffer members = {0};
        backup->members.member[0].incarnation = chance->incarnation;
        replica_members_encode(&backup->members, &members);
        header.configuration = buffer_bytes(&members);
        CHECK(table_begin_read(backup->table, &txn) == 0);
        error = snapshot_file_write(datadir_snapshot_path(datadir), &header,
                                    txn, ret_size, why);
        table_abort(txn);
    }
    if (error == 0) {
        error = wal_open(datadir_wal_path(datadir), &wal_options, NULL, NULL,
                         &wal, why);
    }
    if (error == 0) {
        error = wal_reset(wal, header.last_index + 1);
        if (error != 0) {
            snprintf(why, HASP_WHY_SIZE, "%.400s", wal_why(wal));
        }
    }
    wal_close(wal);
    datadir_close(datadir);
    return error;
}

/* True if the port of an address is 0, which means any free one. */
static bool has_no_port(const char *address)
{
    char host[MEMBER_ADDRESS_SIZE];
    uint16_t port;
    /* hasp_node_options_check() has accepted the address. */
    CHECK(address_split(address, host, sizeof host, &port) == 0);
    return port == 0;
}

/* Makes the node of the options the only member, with its addresses from the
 * list of members or, if it was added later and is not in the list, with those
 * at which it listens. */
static int choose_member(const struct hasp_node_options *options,
                         struct replica_members *ret_members,
                         char why[HASP_WHY_SIZE])
{
    struct hasp_node_options alone = *options;
    alone.member_count = 0;
    for (uint32_t i = 0; i < options->member_count; i++) {
        if (options->members[i].id == options->id) {
            alone.members = &options->members[i];
            alone.member_count = 1;
        }
    }
    if (alone.member_count == 0 && options_are_hidden(options)) {
        snprintf(why, HASP_WHY_SIZE,
                 "node %" PRIu64 " has no member line and listens on loopback, "
                 "where no other node can reach it: set listen.peer and "
                 "listen.client, or add a member line",
                 options->id);
        return HASP_NODE_CONFIG;
    }
    options_members(&alone, ret_members);
    const struct hasp_node_member *own = alone.member_count > 0 ? alone.members
                                                                : NULL;
    const char *peer = own != NULL ? own->peer_address : alone.listen_peer;
    const char *client = own != NULL ? own->client_address
                                     : alone.listen_client;
    /* The addresses go into the log, from which others dial them: port 0 is no
     * address there. */
    if (has_no_port(peer) || has_no_port(client)) {
        snprintf(why, HASP_WHY_SIZE,
                 "'%.200s,%.200s': the other nodes and the clients must know "
                 "the ports: use a port other than 0",
                 peer, client);
        return HASP_NODE_CONFIG;
    }
    return 0;
}

static bool backup_is_found(void *data, const char *name)
{
    (void)name;
    *(bool *)data = true;
    return true;
}

static int check_empty(const char *directory, char why[HASP_WHY_SIZE])
{
    bool is_full = false;
    int folder_fd = storage_port->openat(AT_FDCWD, directory,
                                         O_RDONLY | O_DIRECTORY);
    if (folder_fd < 0 && errno == ENOENT) {
        return 0; /* It will be created. */
    }
    int error = folder_fd < 0 || storage_port->list(folder_fd, backup_is_found,
                                                    &is_full) != 0
                    ? errno
                    : 0;
    if (folder_fd >= 0) {
        storage_port->close(folder_fd);
    }
    if (error != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot read the folder '%.300s': %s",
                 directory, strerror(error));
        return HASP_NODE_STORAGE;
    }
    if (is_full) {
        snprintf(why, HASP_WHY_SIZE,
                 "'%.300s' is not empty; a restore needs a new directory: use "
                 "another one, or move this one away",
                 directory);
        return HASP_NODE_EXISTS;
    }
    return 0;
}

int backup_new_life(const struct hasp_node_options *options, const char *path,
                    uint64_t quarantine_ms, bool suspends_users,
                    const struct backup_chance *chance,
                    struct hasp_node_snapshot *ret_snapshot,
                    char why[HASP_NODE_WHY_SIZE])
{
    struct snapshot_file file;
    struct backup_run backup;
    struct replica_members members;
    struct hasp_node_snapshot snapshot;
    int status = hasp_node_options_check(options, why);
    status = status ?: choose_member(options, &members, why);
    status = status ?: check_empty(options->directory, why);
    if (status != 0) {
        return status;
    }
    int error = snapshot_file_map(path, &file, why);
    if (error != 0) {
        return backup_status_of(error);
    }
    backup_new(&backup);
    error = load_file(&backup, &file, why);
    snapshot_file_unmap(&file);
    status = backup_status_of(error);
    if (error == 0) {
        backup_describe(&backup, &snapshot);
        if (quarantine_ms == HASP_NODE_QUARANTINE_FULL) {
            /* Rule 21: no grants for as long as any client of the old state can
             * believe in its lease, or a lock delay protects its work. */
            quarantine_ms = lockfsm_lease_max(backup.fsm) +
                            snapshot.longest_delay_ms;
        }
        if (suspends_users) {
            lockfsm_suspend_users(backup.fsm);
        }
        lockfsm_new_life(backup.fsm, u64_min(quarantine_ms, TIME_MS_MAX));
        backup.members = members;
        backup.configuration_index = lockfsm_applied_index(backup.fsm);
        error = lockfsm_flush(backup.fsm, backup.table);
        CHECK(error == 0);
        backup_describe(&backup, &snapshot);
        error = write_directory(&backup, options, chance, &snapshot.size, why);
        status = error == 0 ? 0 : HASP_NODE_STORAGE;
    }
    if (status == 0) {
        *ret_snapshot = snapshot;
    }
    backup_done(&backup);
    return status;
}

int hasp_node_restore(const struct hasp_node_options *options, const char *path,
                      uint64_t quarantine_ms, bool suspends_users,
                      struct hasp_node_snapshot *ret_snapshot,
                      char why[HASP_NODE_WHY_SIZE])
{
    struct backup_chance chance;
    backup_fill_random(&chance, sizeof chance);
    chance.incarnation |= 1;
    chance.log_id |= 1;
    return backup_new_life(options, path, quarantine_ms, suspends_users,
                           &chance, ret_snapshot, why);
}
