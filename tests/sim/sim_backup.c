/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_backup.h"

#include <inttypes.h>

#include "base/check.h"
#include "lockfsm/feature.h"
#include "raft/replica.h"
#include "storage/snapshot.h"
#include "tests/sim/sim_check.h"

void sim_backup_done(struct sim_backup *backup)
{
    buffer_done(&backup->bytes);
    *backup = (struct sim_backup){0};
}

bool sim_state_load(struct sim *sim, struct bytes file,
                    struct sim_state *ret_state)
{
    char why[HASP_WHY_SIZE] = "";
    struct table_txn *txn;
    struct sim_state state = {.fsm = lockfsm_new(),
                              .table = table_new_memory()};
    lockfsm_set_node_level(state.fsm, FEATURE_LEVEL_FIRST + 1);
    CHECK(table_begin_write(state.table, &txn) == 0);
    int error = snapshot_decode(file, txn);
    if (error == 0) {
        CHECK(table_commit(txn) == 0);
        error = lockfsm_load(state.fsm, state.table, why);
    } else {
        table_abort(txn);
    }
    if (error != 0) {
        sim_fail(sim, ORACLE_BACKUPS, "a backup can be loaded: %s: %s",
                 hasp_strerror(error), why);
        sim_state_done(&state);
        return false;
    }
    *ret_state = state;
    return true;
}

void sim_state_done(struct sim_state *state)
{
    lockfsm_free(state->fsm);
    table_close(state->table);
}

static void check_state(struct sim *sim, const char *who,
                        const struct sim_backup *backup)
{
    struct sim_state state;
    uint64_t hash = 0;
    if (!sim_state_load(sim, buffer_bytes(&backup->bytes), &state)) {
        return;
    }
    bool is_known = sim_check_state_at(sim, backup->life, backup->log_index,
                                       backup->term, &hash);
    if (lockfsm_applied_index(state.fsm) != backup->log_index ||
        lockfsm_applied_term(state.fsm) != backup->term ||
        (is_known && lockfsm_hash(state.fsm) != hash)) {
        sim_fail(sim, ORACLE_BACKUPS,
                 "a backup is the state that one entry left: that of %s is not "
                 "what entry %" PRIu64 " of term %" PRIu64 " has left",
                 who, backup->log_index, backup->term);
    }
    sim_state_done(&state);
}

static void check_members(struct sim *sim, const char *who,
                          const struct sim_backup *backup,
                          const struct snapshot_header *header)
{
    struct replica_members members;
    bool is_good = replica_members_decode(header->configuration, &members) ==
                       0 &&
                   header->configuration_index <= backup->log_index;
    if (!is_good ||
        !sim_check_members_at(sim, backup->life, backup->log_index, &members)) {
        sim_fail(sim, ORACLE_BACKUPS,
                 "a backup has the members of its entry: that of %s, of entry "
                 "%" PRIu64 ", has those of entry %" PRIu64,
                 who, backup->log_index, header->configuration_index);
    }
}

void sim_backup_check(struct sim *sim, const char *who,
                      const struct sim_backup *backup)
{
    char why[HASP_WHY_SIZE] = "";
    struct snapshot_header header;
    struct buffer damaged = {0};
    int error = snapshot_check(buffer_bytes(&backup->bytes), &header, why);
    if (error != 0 || header.last_index != backup->log_index ||
        header.last_term != backup->term) {
        sim_fail(sim, ORACLE_BACKUPS,
                 "a backup is complete: that of %s, of entry %" PRIu64
                 " of term %" PRIu64 ": %s",
                 who, backup->log_index, backup->term,
                 error != 0 ? why : "it is of another entry");
        return;
    }
    check_state(sim, who, backup);
    check_members(sim, who, backup, &header);
    buffer_put_bytes(&damaged, buffer_bytes(&backup->bytes));
    sim_backup_damage(sim, &damaged);
    error = snapshot_check(buffer_bytes(&damaged), &header, why);
    buffer_done(&damaged);
    if (error != HASP_ECORRUPT || why[0] == '\0') {
        sim_fail(sim, ORACLE_BACKUPS,
                 "a damaged backup is refused: that of %s is not", who);
    }
    sim->stats.backups++;
}

void sim_backup_damage(struct sim *sim, struct buffer *bytes)
{
    size_t at = prng_below(&sim->prng, bytes->size);
    switch (prng_below(&sim->prng, 4)) {
    case 0:
        bytes->size = at;
        break;
    case 1:
        buffer_put_u8(bytes, 0);
        break;
    default:
        bytes->data[at] ^= (uint8_t)(1 << prng_below(&sim->prng, 8));
        break;
    }
}
