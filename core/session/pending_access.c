/* SPDX-License-Identifier: MIT */

/* Changes of users and access between the state and the end of the log. */

#include "core/session/pending_access.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/state.h"

static void add_revoked(struct pending_access *pending,
                        const uint8_t fingerprint[FINGERPRINT_SIZE])
{
    ROOM(pending->revoked, pending->revoked_capacity,
         pending->revoked_count + 1);
    memcpy(pending->revoked[pending->revoked_count++], fingerprint,
           FINGERPRINT_SIZE);
}

/* False if the command changes neither users nor access. */
static bool read_change(struct pending_access *pending,
                        const struct entry *command, bool has_users)
{
    switch (command->op) {
    case OP_BEGIN:
        /* The first entry of a cluster creates its users; later ones do not. */
        pending->requires_access |= !has_users &&
                                    command->begin->is_access_required;
        return !has_users;
    case OP_ACCESS_SET:
        pending->requires_access |= command->access_set->is_required;
        return true;
    case OP_USER_SET:
    case OP_USER_REMOVE:
    case OP_SECRET_REMOVE:
    case OP_ROLE_SET:
    case OP_ROLE_REMOVE:
        pending->takes_rights = true;
        return true;
    case OP_CERT_REVOKE:
        add_revoked(pending, command->cert_revoke->fingerprint);
        return true;
    default:
        return false;
    }
}

void pending_access_begin(struct core *core, const struct replica_start *start)
{
    struct pending_access *pending = &core->pending_access;
    struct arena arena = {0};
    uint64_t applied = lockfsm_applied_index(core->fsm);
    uint8_t cluster_id[CLUSTER_ID_SIZE];
    lockfsm_cluster_id(core->fsm, cluster_id);
    bool has_users = cluster_id_is_known(cluster_id) ||
                     lockfsm_user_named(core->fsm, BYTES_LITERAL(ROLE_ADMIN)) !=
                         NULL;
    CHECK(pending->until_index == 0 && pending->revoked == NULL);
    for (uint32_t i = 0; i < start->entry_count; i++) {
        const struct replica_entry *entry = &start->entries[i];
        struct entry command;
        struct codec_level level;
        /* Up to the applied index the state knows better. */
        if (entry->type != ENTRY_COMMAND || entry->log_index <= applied) {
            continue;
        }
        arena_reset(&arena);
        if (entry_get(entry->body, &arena, &command, &level) &&
            command.op != OP_NONE &&
            read_change(pending, &command, has_users)) {
            pending->until_index = entry->log_index;
            has_users = true;
        }
    }
    arena_done(&arena);
}

void pending_access_truncated(struct core *core, uint64_t from_index)
{
    struct pending_access *pending = &core->pending_access;
    CHECK(from_index > 0);
    /* Changes that are left before the index count until they are applied. */
    pending->until_index = u64_min(pending->until_index, from_index - 1);
}

void pending_access_done(struct pending_access *pending)
{
    free(pending->revoked);
    *pending = (struct pending_access){0};
}

static bool pending_access_is_behind(const struct core *core)
{
    return lockfsm_applied_index(core->fsm) < core->pending_access.until_index;
}

bool pending_access_requires(const struct core *core)
{
    return core->pending_access.requires_access &&
           pending_access_is_behind(core);
}

bool pending_access_takes(const struct core *core)
{
    return core->pending_access.takes_rights && pending_access_is_behind(core);
}

bool pending_access_revokes(const struct core *core,
                            const uint8_t fingerprint[FINGERPRINT_SIZE])
{
    const struct pending_access *pending = &core->pending_access;
    for (uint32_t i = 0;
         i < pending->revoked_count && pending_access_is_behind(core); i++) {
        if (memcmp(pending->revoked[i], fingerprint, FINGERPRINT_SIZE) == 0) {
            return true;
        }
    }
    return false;
}
