/* SPDX-License-Identifier: MIT */

/* CLUSTER SLOTS, SHARDS, NODES and so on: one shard that has all slots, with
 * the leader as its master. */

#include "core/cluster_slot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/commands/commands.h"
#include "core/forward.h"
#include "core/state.h"

/* Redis nodes are named by 40 hex digits. */
#define NODE_NAME_SIZE 41

/* A member as cluster clients see it. */
struct cluster_shown {
    uint64_t id;
    char name[NODE_NAME_SIZE];
    char host[MEMBER_ADDRESS_SIZE];
    unsigned port;
    bool is_leader;
};

/* Lists the leader first, and omits members without a client address. */
static uint32_t show_members(struct core *core,
                             struct cluster_shown shown[MEMBER_COUNT_MAX])
{
    struct replica_members members;
    uint32_t count = 0;
    replica_members(core->replica, &members);
    CHECK(members.count <= MEMBER_COUNT_MAX);
    for (uint32_t i = 0; i < members.count; i++) {
        struct cluster_shown *one = &shown[count];
        one->id = members.member[i].id;
        one->is_leader = one->id == replica_leader(core->replica);
        snprintf(one->name, sizeof one->name, "%040" PRIx64, one->id);
        forward_client_address(core, one->id, one->host);
        char *colon = strrchr(one->host, ':');
        if (colon == NULL) {
            continue;
        }
        *colon = '\0';
        one->port = (unsigned)strtoul(colon + 1, NULL, 10);
        size_t size = strlen(one->host);
        /* The address was checked when the member was added. */
        CHECK(size > 0);
        if (one->host[0] == '[' && one->host[size - 1] == ']') {
            memmove(one->host, one->host + 1, size - 2);
            one->host[size - 2] = '\0';
        }
        if (one->is_leader) {
            struct cluster_shown leader = *one;
            *one = shown[0];
            shown[0] = leader;
        }
        count++;
    }
    return count;
}

static void put_slots(struct core *core, struct request *request)
{
    struct cluster_shown shown[MEMBER_COUNT_MAX];
    uint32_t count = show_members(core, shown);
    struct resp_writer *writer = request_reply(core, request);
    if (count == 0 || !shown[0].is_leader) {
        resp_array(writer, 0); /* No node serves the slots now. */
        request_done(core, request);
        return;
    }
    resp_array(writer, 1);
    resp_array(writer, 2 + count);
    resp_integer(writer, 0);
    resp_integer(writer, CLUSTER_SLOT_COUNT - 1);
    for (uint32_t i = 0; i < count; i++) {
        resp_array(writer, 3);
        resp_text(writer, shown[i].host);
        resp_integer(writer, shown[i].port);
        resp_text(writer, shown[i].name);
    }
    request_done(core, request);
}

static void put_shards(struct core *core, struct request *request)
{
    struct cluster_shown shown[MEMBER_COUNT_MAX];
    uint32_t count = show_members(core, shown);
    struct resp_writer *writer = request_reply(core, request);
    resp_array(writer, 1);
    resp_map(writer, 2);
    resp_key_array(writer, "slots", 2);
    resp_integer(writer, 0);
    resp_integer(writer, CLUSTER_SLOT_COUNT - 1);
    resp_key_array(writer, "nodes", count);
    for (uint32_t i = 0; i < count; i++) {
        resp_map(writer, 7);
        resp_key_text(writer, "id", shown[i].name);
        resp_key_integer(writer, "port", shown[i].port);
        resp_key_text(writer, "ip", shown[i].host);
        resp_key_text(writer, "endpoint", shown[i].host);
        resp_key_text(writer, "role",
                      shown[i].is_leader ? "master" : "replica");
        resp_key_integer(writer, "replication-offset",
                         (int64_t)replica_commit_index(core->replica));
        resp_key_text(writer, "health", "online");
    }
    request_done(core, request);
}

static void put_nodes(struct core *core, struct request *request)
{
    struct cluster_shown shown[MEMBER_COUNT_MAX];
    uint32_t count = show_members(core, shown);
    struct buffer text = {0};
    for (uint32_t i = 0; i < count; i++) {
        bool is_self = shown[i].id == core->options.id;
        bool has_master = shown[0].is_leader && !shown[i].is_leader;
        buffer_printf(
            &text, "%s %s:%u@%u %s%s %s 0 0 %" PRIu64 " connected%s\n",
            shown[i].name, shown[i].host, shown[i].port, shown[i].port,
            is_self ? "myself," : "", shown[i].is_leader ? "master" : "slave",
            has_master ? shown[0].name : "-", replica_term(core->replica),
            shown[i].is_leader ? " 0-16383" : "");
    }
    resp_bulk(request_reply(core, request), buffer_bytes(&text));
    buffer_done(&text);
    request_done(core, request);
}

static void cluster_put_info(struct core *core, struct request *request)
{
    struct cluster_shown shown[MEMBER_COUNT_MAX];
    uint32_t count = show_members(core, shown);
    bool has_leader = count > 0 && shown[0].is_leader;
    struct buffer text = {0};
    int slots = has_leader ? CLUSTER_SLOT_COUNT : 0;
    buffer_printf(&text,
                  "cluster_enabled:1\r\ncluster_state:%s\r\n"
                  "cluster_slots_assigned:%d\r\ncluster_slots_ok:%d\r\n"
                  "cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\n"
                  "cluster_known_nodes:%u\r\ncluster_size:1\r\n"
                  "cluster_current_epoch:%" PRIu64 "\r\n"
                  "cluster_my_epoch:%" PRIu64 "\r\n",
                  has_leader ? "ok" : "fail", slots, slots, count,
                  replica_term(core->replica), replica_term(core->replica));
    resp_bulk(request_reply(core, request), buffer_bytes(&text));
    buffer_done(&text);
    request_done(core, request);
}

void server_cluster(struct core *core, struct request *request)
{
    const struct call *call = request->call;
    struct bytes what = call->argument[1];
    char name[NODE_NAME_SIZE];
    if (bytes_is_word(what, "SLOTS")) {
        put_slots(core, request);
    } else if (bytes_is_word(what, "SHARDS")) {
        put_shards(core, request);
    } else if (bytes_is_word(what, "NODES")) {
        put_nodes(core, request);
    } else if (bytes_is_word(what, "INFO")) {
        cluster_put_info(core, request);
    } else if (bytes_is_word(what, "MYID")) {
        snprintf(name, sizeof name, "%040" PRIx64, core->options.id);
        resp_text(request_reply(core, request), name);
        request_done(core, request);
    } else if (bytes_is_word(what, "KEYSLOT") && call->count == 3) {
        request_answer_integer(core, request,
                               cluster_key_slot(call->argument[2]));
    } else {
        request_refuse(core, request, WORD_ERR,
                       "unknown subcommand of CLUSTER: try SLOTS, SHARDS, "
                       "NODES, INFO, MYID or KEYSLOT");
    }
}

bool server_cluster_check(struct call *call, struct resp_writer *writer)
{
    return call->count < 3 || call->argument[2].size <= LOCK_NAME_SIZE_MAX ||
           call_fail(call, writer, "a key has at most 511 bytes");
}
