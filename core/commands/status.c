/* SPDX-License-Identifier: MIT */

/* A node's report about itself: RAFT.STATUS and INFO. */

#include <inttypes.h>
#include <stdio.h>

#include "core/commands/commands.h"
#include "core/forward.h"
#include "core/members/feature.h"
#include "core/state.h"

static const char *const disk_words[] = {[CORE_DISK_OK] = "ok",
                                         [CORE_DISK_FULL] = "full",
                                         [CORE_DISK_SLOW] = "slow"};

static const char *member_role_name(enum member_role role)
{
    switch (role) {
    case MEMBER_VOTER:
        return "voter";
    case MEMBER_STANDBY:
        return "standby";
    case MEMBER_SPARE:
        return "spare";
    }
    return "unknown";
}

static void put_incarnation(struct resp_writer *writer, const char *key,
                            uint64_t incarnation)
{
    char text[17] = "";
    if (incarnation != 0) {
        snprintf(text, sizeof text, "%016" PRIx64, incarnation);
    }
    resp_key_text(writer, key, text);
}

/* The directory at the other end of the link; 0: no link is up. */
static uint64_t link_incarnation(const struct core *core, uint64_t id)
{
    const struct peer *peer = peer_look(core, id);
    if (id == core->options.id) {
        return core->options.incarnation;
    }
    return peer != NULL && peer->is_up ? peer->incarnation : 0;
}

static int64_t round_trip_us(const struct core *core, uint64_t id)
{
    return id != core->options.id && core->port.peer_round_trip_us != NULL
               ? core->port.peer_round_trip_us(core->port.data, id)
               : -1;
}

static void put_member(struct core *core, const struct replica_member *member,
                       struct resp_writer *writer)
{
    uint64_t match, silence_ms, flush_us;
    uint32_t flush_count;
    bool is_known = core_disk_flush(core, member->id, &flush_us, &flush_count);
    core_member(core, member->id, &match, &silence_ms);
    int32_t clock_ppm = 0;
    (void)core_clock_ppm(core, member->id, &clock_ppm);
    resp_map(writer, 11);
    resp_key_number(writer, "id", member->id);
    resp_key_text(writer, "address", member->address);
    resp_key_text(writer, "role", member_role_name(member->role));
    resp_key_number(writer, "match", match);
    resp_key_integer(writer, "last_contact_ms",
                     silence_ms == UINT64_MAX ? -1 : (int64_t)silence_ms);
    resp_key_integer(writer, "level", feature_of_member(core, member->id));
    put_incarnation(writer, "incarnation", member->incarnation);
    put_incarnation(writer, "link", link_incarnation(core, member->id));
    resp_key_integer(writer, "flush_us", is_known ? (int64_t)flush_us : -1);
    resp_key_integer(writer, "round_trip_us", round_trip_us(core, member->id));
    resp_key_integer(writer, "clock_ppm", clock_ppm);
}

static void put_facts(struct resp_writer *writer, const char *key,
                      const struct core_fact *facts, uint32_t count)
{
    resp_bulk(writer, bytes_of_text(key));
    resp_map(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        resp_key_integer(writer, facts[i].name, facts[i].value);
    }
}

/* What the port knows: the process, its disk, its settings. */
static void put_port_facts(struct core *core, struct resp_writer *writer)
{
    struct core_facts facts = {0};
    if (core->port.facts != NULL) {
        core->port.facts(core->port.data, &facts);
    }
    put_facts(writer, "machine", facts.machine, facts.machine_count);
    put_facts(writer, "settings", facts.settings, facts.settings_count);
}

/* Directories that still try to connect although their node id now belongs to
 * another directory, or to none. */
static void put_replaced(struct core *core, struct resp_writer *writer)
{
    uint32_t count = 0;
    for (int i = 0; i < REPLACED_MAX; i++) {
        count += core->members.replaced[i].id != 0;
    }
    resp_key_array(writer, "replaced", count);
    for (int i = 0; i < REPLACED_MAX; i++) {
        const struct replaced *one = &core->members.replaced[i];
        if (one->id == 0) {
            continue;
        }
        resp_map(writer, 3);
        resp_key_number(writer, "id", one->id);
        put_incarnation(writer, "incarnation", one->incarnation);
        resp_key_number(writer, "seen_ms",
                        (core->now_ns - one->seen_ns) / NS_PER_MS);
    }
}

/* Why this node last stepped down, and how long ago. */
static void put_over(const struct core *core, struct resp_writer *writer)
{
    const struct leader *leader = &core->leader;
    char text[LEADERSHIP_OVER_SIZE + 32] = "";
    if (leader->over_ns != 0) {
        snprintf(text, sizeof text, "term %" PRIu64 ": %s", leader->over_term,
                 leader->over);
    }
    resp_key_text(writer, "stepped_down", text);
    resp_key_integer(
        writer, "stepped_down_ms",
        leader->over_ns != 0
            ? (int64_t)((core->now_ns - leader->over_ns) / NS_PER_MS)
            : -1);
}

void raft_status_run(struct core *core, struct request *request)
{
    static const char *const users[] = {[CORE_USERS_OPEN] = "open",
                                        [CORE_USERS_UNENFORCED] = "unenforced",
                                        [CORE_USERS_ENFORCED] = "enforced"};
    struct replica_members members;
    char leader_address[MEMBER_ADDRESS_SIZE], why[HASP_WHY_SIZE];
    char cluster_text[CLUSTER_ID_TEXT_SIZE];
    uint8_t cluster[CLUSTER_ID_SIZE];
    uint64_t leader = replica_leader(core->replica), flush_us;
    struct resp_writer *writer = request_reply(core, request);
    replica_members(core->replica, &members);
    forward_client_address(core, leader, leader_address);
    resp_map(writer, 28);
    resp_key_number(writer, "node", core->options.id);
    put_incarnation(writer, "incarnation", core->options.incarnation);
    lockfsm_cluster_id(core->fsm, cluster);
    /* A founder knows the id before BEGIN sends it to the others. */
    cluster_id_format(cluster_id_is_known(cluster) ? cluster
                                                   : core->options.cluster_id,
                      cluster_text);
    resp_key_text(writer, "cluster", cluster_text);
    resp_key_text(writer, "role",
                  replica_role_name(replica_role(core->replica)));
    resp_key_number(writer, "term", replica_term(core->replica));
    resp_key_number(writer, "leader", leader);
    resp_key_text(writer, "leader_address", leader_address);
    resp_key_number(writer, "commit", replica_commit_index(core->replica));
    resp_key_number(writer, "applied", lockfsm_applied_index(core->fsm));
    resp_key_number(writer, "last_index", replica_last_index(core->replica));
    resp_key_array(writer, "members", members.count);
    for (uint32_t i = 0; i < members.count; i++) {
        put_member(core, &members.member[i], writer);
    }
    resp_key_text(writer, "version", core->options.version);
    resp_key_number(writer, "quarantine_ms", core_quarantine_ms(core));
    resp_key_text(writer, "disk", disk_words[core->run.disk]);
    resp_key_text(writer, "flush",
                  core_disk_is_slow(core, &flush_us) ? "slow" : "ok");
    resp_key_number(writer, "flush_us", flush_us);
    resp_key_integer(writer, "level", core->options.feature_level);
    resp_key_integer(writer, "cluster_level", lockfsm_feature_level(core->fsm));
    resp_key_integer(writer, "finalize_level", feature_possible(core, why));
    resp_key_text(writer, "users", users[core_users(core)]);
    put_replaced(core, writer);
    resp_key_text(writer, "replacement",
                  core_replacement_waits(core, why) ? why : "");
    put_over(core, writer);
    resp_key_text(writer, "elsewhere", core_is_elsewhere(core, why) ? why : "");
    resp_key_text(writer, "apart", core_is_apart(core, why) ? why : "");
    put_port_facts(core, writer);
    request_done(core, request);
}

/* True if the client asked for this section, or for all. */
static bool status_is_asked_for(const struct call *call, const char *section)
{
    if (call->count == 1) {
        return true;
    }
    for (uint32_t i = 1; i < call->count; i++) {
        if (bytes_is_word(call->argument[i], section) ||
            bytes_is_word(call->argument[i], "ALL") ||
            bytes_is_word(call->argument[i], "DEFAULT") ||
            bytes_is_word(call->argument[i], "EVERYTHING")) {
            return true;
        }
    }
    return false;
}

/* Libraries check this version before they send SET with PX, EVALSHA or
 * UNLINK. */
#define REDIS_VERSION "7.0.0"

void server_info(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct buffer text = {0};
    char leader[MEMBER_ADDRESS_SIZE];
    forward_client_address(core, replica_leader(core->replica), leader);
    if (status_is_asked_for(call, "SERVER")) {
        buffer_printf(
            &text,
            "# Server\r\nhasp_version:%s\r\nredis_version:" REDIS_VERSION
            "\r\nredis_mode:%s\r\n"
            "node_id:%" PRIu64 "\r\nuptime_in_seconds:%" PRIu64 "\r\n\r\n",
            core->options.version,
            core->options.redirect == REDIRECT_MOVED ? "cluster" : "standalone",
            core->options.id, (core->now_ns - core->run.started_ns) / NS_PER_S);
    }
    if (status_is_asked_for(call, "CLIENTS")) {
        buffer_printf(&text,
                      "# Clients\r\nconnected_clients:%u\r\n"
                      "blocked_clients:%u\r\n\r\n",
                      core->conns.count,
                      (unsigned)HASH_CNT(by_wait, core->requests.by_wait));
    }
    if (status_is_asked_for(call, "PERSISTENCE")) {
        buffer_put_text(&text, "# Persistence\r\nloading:0\r\n\r\n");
    }
    if (status_is_asked_for(call, "STATS")) {
        buffer_printf(&text,
                      "# Stats\r\ntotal_commands_processed:%" PRIu64 "\r\n"
                      "grants:%" PRIu64 "\r\nsessions_ended:%" PRIu64 "\r\n"
                      "unclean_ends:%" PRIu64 "\r\nrefusals:%" PRIu64
                      "\r\nrequests_in_flight:%u"
                      "\r\nrequest_bytes_in_flight:%" PRIu64 "\r\n\r\n",
                      core->stats.counts.commands, core->stats.counts.grants,
                      core->stats.counts.sessions_ended,
                      core->stats.counts.unclean_ends,
                      core->stats.counts.refusals,
                      core->requests.in_flight.count, core->conns.held_size);
    }
    if (status_is_asked_for(call, "REPLICATION")) {
        buffer_printf(&text,
                      "# Replication\r\nrole:%s\r\nraft_role:%s\r\n"
                      "term:%" PRIu64 "\r\nleader:%" PRIu64
                      "\r\nleader_address:%s\r\ncommit:%" PRIu64
                      "\r\napplied:%" PRIu64 "\r\nconnected_slaves:0\r\n\r\n",
                      takes_writes(core) ? "master" : "slave",
                      replica_role_name(replica_role(core->replica)),
                      replica_term(core->replica),
                      replica_leader(core->replica), leader,
                      replica_commit_index(core->replica),
                      lockfsm_applied_index(core->fsm));
    }
    if (status_is_asked_for(call, "CLUSTER")) {
        /* Every node answers this, follower or not: cluster clients then search
         * for the leader. */
        buffer_put_text(&text, "# Cluster\r\ncluster_enabled:1\r\n\r\n");
    }
    if (status_is_asked_for(call, "LOCKS")) {
        buffer_printf(&text, "# Locks\r\nlocks:%u\r\nsessions:%u\r\n\r\n",
                      (unsigned)HASH_CNT(by_name, lockfsm_locks(core->fsm)),
                      (unsigned)HASH_CNT(by_id, lockfsm_sessions(core->fsm)));
    }
    resp_bulk(request_reply(core, request), buffer_bytes(&text));
    buffer_done(&text);
    request_done(core, request);
}
