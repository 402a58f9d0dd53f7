/* SPDX-License-Identifier: MIT */

#include "core/members/apart.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/state.h"

#define APART_NS (60 * NS_PER_S)

/* True if the cluster was restored. Nodes from before the restore may still
 * run, and belong to another cluster; they grant nothing without a majority.
 * The tokens of a restored cluster start LIFE_TOKEN_GAP above the date's, which
 * no start of this node reaches for twelve days. */
static bool is_restored(const struct core *core)
{
    return lockfsm_token_base(core->fsm) > core->options.token_base;
}

/* True if this node is the only voter. */
static bool apart_is_alone(const struct core *core)
{
    struct replica_members members;
    uint32_t voters = 0;
    bool is_one = false;
    replica_members(core->replica, &members);
    for (uint32_t i = 0; i < members.count; i++) {
        bool is_voter = members.member[i].role == MEMBER_VOTER;
        voters += is_voter;
        is_one |= is_voter && members.member[i].id == core->options.id;
    }
    return voters == 1 && is_one;
}

bool core_is_apart(const struct core *core, char why[HASP_WHY_SIZE])
{
    const struct apart *apart = &core->apart;
    if (apart->until_ns == 0) {
        return false;
    }
    snprintf(why, HASP_WHY_SIZE,
             "this node is alone in its cluster, and node %" PRIu64
             " (%s) belongs to another cluster, %s: this node serves no "
             "clients. To make it a member there: stop it, empty its "
             "directory, and start it with the 'member' lines of that cluster",
             apart->from, apart->address, apart->cluster);
    return true;
}

void core_another_cluster(struct core *core, uint64_t from, const char *address,
                          const uint8_t cluster_id[CLUSTER_ID_SIZE],
                          uint64_t now_ns)
{
    struct apart *apart = &core->apart;
    char text[CLUSTER_ID_TEXT_SIZE], why[HASP_WHY_SIZE];
    set_now(core, now_ns);
    if (!apart_is_alone(core) || is_restored(core)) {
        return;
    }
    bool is_new = apart->until_ns == 0;
    cluster_id_format(cluster_id, text);
    apart->until_ns = core->now_ns + APART_NS;
    apart->from = from;
    snprintf(apart->address, sizeof apart->address, "%s", address);
    snprintf(apart->cluster, sizeof apart->cluster, "%.8s", text);
    if (!is_new || !core_is_apart(core, why)) {
        return;
    }
    LOG_ERROR("this node serves no clients", "peer=%" PRIu64 " reason=%s", from,
              log_quote(why));
    /* A wait must not be granted here to a client that could be granted the
     * lock there, too. */
    HASH_FOR (struct conn, conn, core->conns.by_id, by_id) {
        conn_close_quietly(core, conn, "this node serves no clients");
    }
}

void apart_turn(struct core *core)
{
    struct apart *apart = &core->apart;
    if (apart->until_ns != 0 &&
        (core->now_ns >= apart->until_ns || !apart_is_alone(core))) {
        apart->until_ns = 0;
        LOG_INFO("this node serves clients again", "peer=%" PRIu64,
                 apart->from);
    }
}

uint64_t apart_next(const struct core *core)
{
    return core->apart.until_ns != 0 ? core->apart.until_ns : UINT64_MAX;
}
