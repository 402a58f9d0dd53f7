/* SPDX-License-Identifier: MIT */

/* Links with members, connected to the core: which nodes may greet, which are
 * up, and their frames. */

#include "node/members.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "lockfsm/feature.h"
#include "net/stream.h"
#include "node/node.h"

/* Time between log lines about the same refusal by the same node. */
#define REFUSED_LOG_NS (60 * NS_PER_S)

static struct member_link *members_find(struct members *members, uint64_t id)
{
    for (uint32_t i = 0; i < members->count; i++) {
        if (members->link[i].id == id) {
            return &members->link[i];
        }
    }
    return NULL;
}

static struct member_link *members_add(struct members *members, uint64_t id)
{
    CHECK(members->count < MEMBER_LINK_MAX);
    CHECK(id != members->node->options.id && members_find(members, id) == NULL);
    struct member_link *link = &members->link[members->count++];
    *link = (struct member_link){.id = id};
    return link;
}

static void on_up(void *data, uint64_t id, const struct frame_hello *hello)
{
    struct members *members = data;
    struct hasp_node *node = members->node;
    struct member_link *link = members_find(members, id);
    uint64_t now = turn_now();
    CHECK(hello->from == id);
    if (turn_is_over(&node->turn)) {
        return;
    }
    if (link == NULL) {
        LOG_INFO("unlisted member admitted",
                 "node=%" PRIu64 " members_index=%" PRIu64
                 " hint=\"it was added while this node was away\"",
                 id, hello->members_index);
        link = members_add(members, id);
        link->is_guest = true;
    }
    link->is_up = true;
    /* Stored for members_tell_core(), if the core has not started yet. */
    link->hello = *hello;
    if (node->has_begun) {
        link->is_reported = true;
        core_peer_up(node->core, hello, now);
    } else {
        founding_heard(&node->founding, id, hello->incarnation,
                       hello->cluster_id, now);
    }
    turn_wake(&node->turn);
}

static void on_down(void *data, uint64_t id, bool was_closed_by_peer)
{
    struct members *members = data;
    struct hasp_node *node = members->node;
    struct member_link *link = members_find(members, id);
    /* A guest's link is removed below, so what the core has to know is read
     * before. */
    bool was_reported = link != NULL && link->is_reported;
    if (link != NULL) {
        link->is_up = false;
        link->is_reported = false;
        if (link->is_guest) {
            *link = members->link[--members->count];
        }
    }
    if (members->peers == NULL || turn_is_over(&node->turn)) {
        return;
    }
    if (was_reported && node->has_begun) {
        core_peer_down(node->core, id, was_closed_by_peer, turn_now());
    }
    turn_wake(&node->turn);
}

static int on_frame(void *data, uint64_t id, enum frame_type type,
                    struct bytes body, char why[HASP_WHY_SIZE])
{
    struct members *members = data;
    struct hasp_node *node = members->node;
    if (!node->has_begun || turn_is_over(&node->turn)) {
        return 0; /* Raft repeats lost messages. */
    }
    turn_wake(&node->turn);
    /* The core charges a FORWARD to its user. */
    account_start(&node->turn.account);
    return core_peer_frame(node->core, id, type, body,
                           turn_at_work(&node->turn), why);
}

/* A joining node has no cluster id yet, but may have seen the cluster's id in a
 * greeting. */
static bool members_may_be_guest(const struct members *members,
                                 const struct frame_hello *hello)
{
    const struct hasp_node *node = members->node;
    const struct datadir_identity *identity = datadir_identity(node->datadir);
    const uint8_t *own = identity->cluster_id;
    if (!cluster_id_is_known(own) && node->founding.saw_cluster) {
        own = node->founding.seen_id;
    }
    return node->has_begun && members->count < MEMBER_LINK_MAX &&
           cluster_id_equal(hello->cluster_id, own);
}

static int members_check(void *data, const struct frame_hello *hello,
                         bool is_wanted, char why[HASP_WHY_SIZE])
{
    struct members *members = data;
    struct hasp_node *node = members->node;
    if (!is_wanted && !members_may_be_guest(members, hello)) {
        snprintf(why, HASP_WHY_SIZE, "node %" PRIu64 " is not a member%s",
                 hello->from,
                 node->has_begun ? "" : ", nor named in the [cluster] section");
        return HASP_ENOENT;
    }
    return node->has_begun ? core_check_peer(node->core, hello, why)
                           : founding_compare(&node->founding, hello->from,
                                              &hello->terms, why);
}

static bool members_goes_before(void *data, const struct frame_hello *hello)
{
    const struct hasp_node *node = ((const struct members *)data)->node;
    return node->has_begun && core_goes_before(node->core, hello);
}

static bool names_other(void *data, uint64_t id, uint64_t incarnation)
{
    const struct hasp_node *node = ((const struct members *)data)->node;
    if (!node->has_begun) {
        return false;
    }
    const struct replica_member *member = replica_members_find(
        replica_configuration(core_replica(node->core)), id);
    return member != NULL && member->incarnation != incarnation;
}

/* Before the core has started, no revoked certificate is known. */
static bool is_revoked(void *data,
                       const uint8_t fingerprint[TLS_FINGERPRINT_SIZE])
{
    const struct hasp_node *node = ((const struct members *)data)->node;
    _Static_assert(TLS_FINGERPRINT_SIZE == FINGERPRINT_SIZE, "the same");
    return node->has_begun &&
           core_certificate_is_revoked(node->core, fingerprint);
}

static bool was_removed(void *data, const struct frame_hello *hello,
                        char why[HASP_WHY_SIZE])
{
    const struct members *members = data;
    const struct hasp_node *node = members->node;
    return node->has_begun && core_was_removed(node->core, hello, why);
}

/* Called at each attempt to connect: logs a new refusal at once, and the same
 * one again after a while. */
static void members_log_refusal(struct member_link *link,
                                enum frame_refusal refusal, const char *why,
                                bool is_joining)
{
    uint64_t now = turn_now();
    if (refusal == REFUSAL_CROSSED) {
        LOG_INFO("the peer dials this node", "peer=%" PRIu64, link->id);
        return;
    }
    if (strcmp(link->refusal, why) == 0 &&
        now - link->refused_ns < REFUSED_LOG_NS) {
        return;
    }
    snprintf(link->refusal, sizeof link->refusal, "%s", why);
    link->refused_ns = now;
    if (refusal == REFUSAL_STRANGER && is_joining) {
        LOG_INFO("not added yet", "peer=%" PRIu64, link->id);
    } else {
        LOG_ERROR("this node is refused", "peer=%" PRIu64 " reason=%s",
                  link->id, log_quote(why));
    }
}

static void on_refused(void *data, uint64_t id, enum frame_refusal refusal,
                       const char *why, bool was_dialled)
{
    struct members *members = data;
    struct hasp_node *node = members->node;
    struct member_link *link = members_find(members, id);
    if (turn_is_over(&node->turn) || link == NULL) {
        return;
    }
    bool is_new = !node->has_begun ||
                  replica_last_index(core_replica(node->core)) == 0;
    members_log_refusal(link, refusal, why, is_new);
    if (refusal == REFUSAL_REMOVED && was_dialled && node->has_begun) {
        core_removed_by(node->core, id, why, turn_now());
        turn_wake(&node->turn);
    }
}

/* True if a member line of this node's configuration names another node at that
 * host. Only numeric addresses are compared; names are not resolved. */
static bool is_in_file(const struct hasp_node_options *options,
                       const char *address)
{
    char host[128], named[128];
    uint16_t port;
    if (address_split(address, host, sizeof host, &port) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < options->member_count; i++) {
        const struct hasp_node_member *member = &options->members[i];
        if (member->id != options->id &&
            address_split(member->peer_address, named, sizeof named, &port) ==
                0 &&
            strcmp(host, named) == 0) {
            return true;
        }
    }
    return false;
}

static void on_another_cluster(void *data, const struct frame_hello *hello,
                               const char *address, bool is_proven)
{
    const struct members *members = data;
    struct hasp_node *node = members->node;
    if (node->has_begun && !turn_is_over(&node->turn) &&
        hello->to == node->options.id &&
        (is_proven || is_in_file(&node->options, address))) {
        core_another_cluster(node->core, hello->from, address,
                             hello->cluster_id, turn_now());
        turn_wake(&node->turn);
    }
}

static void on_too_old(void *data, const struct frame_hello *hello)
{
    struct members *members = data;
    turn_fail(&members->node->turn, HASP_NODE_TOO_OLD,
              "this node is too old: member %" PRIu64
              " reports feature level %" PRIu32 " of the cluster, and this "
              "version supports %d; upgrade this node to the version of the "
              "others, its data can stay",
              hello->from, hello->cluster_level, FEATURE_LEVEL);
}

/* Before the core has started, the greeting has the terms of the founding
 * instead of the log's state. */
static void fill_hello(void *data, struct frame_hello *hello)
{
    const struct members *members = data;
    if (members->node->has_begun) {
        core_fill_hello(members->node->core, hello);
    } else {
        founding_show(&members->node->founding, &hello->terms);
        hello->is_marked = members->node->is_marked;
    }
}

/* A member's address is "peer,client". */
static void peer_part(const char *address, char out[MEMBER_ADDRESS_SIZE])
{
    size_t size = strcspn(address, ",");
    CHECK(size < MEMBER_ADDRESS_SIZE);
    memcpy(out, address, size);
    out[size] = '\0';
}

static void members_want(struct members *members,
                         const struct replica_member *member)
{
    struct member_link *link = members_find(members, member->id);
    char address[MEMBER_ADDRESS_SIZE];
    CHECK(member->id != 0);
    if (member->id == members->node->options.id) {
        return;
    }
    if (link == NULL) {
        link = members_add(members, member->id);
    } else if (strcmp(link->address, member->address) == 0) {
        return;
    }
    link->is_guest = false;
    memcpy(link->address, member->address, sizeof link->address);
    peer_part(member->address, address);
    peers_add(members->peers, member->id, address);
}

uint32_t members_lowest_level(const struct members *members)
{
    uint32_t lowest = FEATURE_LEVEL;
    for (uint32_t i = 0; i < members->count; i++) {
        uint32_t level = members->link[i].hello.feature_level;
        lowest = level < lowest ? level : lowest;
    }
    return lowest;
}

int members_open(struct members *members, struct hasp_node *node,
                 const char *address, char why[HASP_WHY_SIZE])
{
    const struct datadir_identity *identity = datadir_identity(node->datadir);
    char host[128];
    struct peers_options options = {.id = node->options.id,
                                    .incarnation = identity->incarnation,
                                    .feature_level = FEATURE_LEVEL};
    struct peers_events events = {.data = members,
                                  .on_up = on_up,
                                  .on_down = on_down,
                                  .on_frame = on_frame,
                                  .check = members_check,
                                  .goes_before = members_goes_before,
                                  .names_other = names_other,
                                  .is_revoked = is_revoked,
                                  .was_removed = was_removed,
                                  .on_refused = on_refused,
                                  .on_another_cluster = on_another_cluster,
                                  .on_too_old = on_too_old,
                                  .fill_hello = fill_hello};
    *members = (struct members){.node = node};
    memcpy(options.cluster_id, identity->cluster_id, CLUSTER_ID_SIZE);
    options.host = host;
    int rv = address_split(address, host, sizeof host, &options.port);
    if (rv != 0) {
        snprintf(why, HASP_WHY_SIZE, "'%s' is not an address", address);
        return rv;
    }
    rv = peers_open(&node->uv, &options, &events, &members->peers, why);
    if (rv != 0) {
        return rv;
    }
    for (uint32_t i = 0; i < node->configured.count; i++) {
        members_want(members, &node->configured.member[i]);
    }
    return 0;
}

static void members_on_closed(void *data)
{
    struct members *members = data;
    members->is_closed = true;
}

void members_close(struct members *members)
{
    if (members->peers == NULL) {
        members->is_closed = true;
        return;
    }
    struct peers *peers = members->peers;
    members->peers = NULL;
    peers_close(peers, members_on_closed, members);
}

void members_set_cluster(struct members *members,
                         const uint8_t cluster_id[CLUSTER_ID_SIZE],
                         bool greet_again)
{
    /* A greeting without an id would mean that the node belongs to no
     * cluster. */
    CHECK(cluster_id_is_known(cluster_id));
    peers_set_cluster(members->peers, cluster_id);
    for (uint32_t i = 0; greet_again && i < members->count; i++) {
        struct member_link *link = &members->link[i];
        char address[MEMBER_ADDRESS_SIZE];
        peer_part(link->address, address);
        peers_remove(members->peers, link->id);
        link->is_up = false;
        peers_add(members->peers, link->id, address);
    }
}

void members_tell_core(struct members *members, uint64_t now_ns)
{
    CHECK(members->node->has_begun);
    for (uint32_t i = 0; i < members->count; i++) {
        struct member_link *link = &members->link[i];
        if (link->is_up && !link->is_reported) {
            link->is_reported = true;
            core_peer_up(members->node->core, &link->hello, now_ns);
        }
    }
}

bool members_port_is_up(void *data, uint64_t id)
{
    struct hasp_node *node = data;
    return node->members.peers != NULL && peers_is_up(node->members.peers, id);
}

struct buffer *members_port_output(void *data, uint64_t id,
                                   enum frame_type type)
{
    struct hasp_node *node = data;
    return node->members.peers == NULL
               ? NULL
               : peers_output(node->members.peers, id, type);
}

static bool members_is_named(const struct replica_members *named, uint64_t id)
{
    for (uint32_t i = 0; i < named->count; i++) {
        if (named->member[i].id == id) {
            return true;
        }
    }
    return false;
}

void members_port_changed(void *data, const struct replica_members *named)
{
    struct hasp_node *node = data;
    struct members *members = &node->members;
    /* There is room for a link to each member. */
    CHECK(named->count <= MEMBER_COUNT_MAX);
    if (named->count == 0 || members->peers == NULL) {
        /* The log has no members yet; keep the configured ones. */
        return;
    }
    for (uint32_t i = 0; i < members->count;) {
        struct member_link *link = &members->link[i];
        uint64_t id = link->id;
        if (members_is_named(named, id) || link->is_guest ||
            (members->is_joining && !link->was_named)) {
            i++;
            continue;
        }
        LOG_INFO("member removed", "member=%" PRIu64, id);
        peers_remove(members->peers, id);
        *link = members->link[--members->count];
    }
    for (uint32_t i = 0; i < named->count; i++) {
        members_want(members, &named->member[i]);
        struct member_link *link = members_find(members, named->member[i].id);
        if (link != NULL) {
            link->was_named = true;
        }
    }
}

void members_port_drop(void *data, uint64_t id)
{
    struct hasp_node *node = data;
    struct members *members = &node->members;
    struct member_link *link = members_find(members, id);
    if (members->peers == NULL || link == NULL) {
        return;
    }
    link->is_reported = false; /* The core dropped the link itself. */
    if (link->is_guest) {
        peers_remove(members->peers, id); /* on_down() removes the link. */
    } else {
        peers_drop(members->peers, id);
    }
}

bool members_port_is_proven(void *data, uint64_t id)
{
    const struct hasp_node *node = data;
    return node->members.peers != NULL &&
           peers_is_secure(node->members.peers, id);
}

void members_port_access_changed(void *data)
{
    struct hasp_node *node = data;
    if (node->members.peers != NULL) {
        peers_drop_revoked(node->members.peers);
    }
}

uint64_t members_port_silence_ms(void *data, uint64_t id)
{
    struct hasp_node *node = data;
    return node->members.peers == NULL
               ? UINT64_MAX
               : peers_silence_ms(node->members.peers, id);
}

int64_t members_port_round_trip_us(void *data, uint64_t id)
{
    const struct hasp_node *node = data;
    return node->members.peers == NULL
               ? -1
               : peers_round_trip_us(node->members.peers, id);
}

struct identity_note {
    struct datadir *datadir;
    struct datadir_identity identity;
};

/* Saves the identity. If the process ends before that, the next start learns it
 * from the log again. */
static int members_save_identity(void *data, char why[HASP_WHY_SIZE])
{
    const struct identity_note *note = data;
    return datadir_save_identity(note->datadir, &note->identity, why);
}

void members_port_cluster_known(void *data,
                                const uint8_t cluster_id[CLUSTER_ID_SIZE])
{
    struct hasp_node *node = data;
    const struct datadir_identity *identity = datadir_identity(node->datadir);
    CHECK(cluster_id_is_known(cluster_id));
    if (!cluster_id_equal(identity->cluster_id, cluster_id)) {
        struct identity_note *note = memory_new(sizeof *note);
        datadir_know_cluster(node->datadir, cluster_id);
        note->datadir = node->datadir;
        note->identity = *identity;
        metadata_writer_add(&node->metadata_writer, members_save_identity,
                            note);
    }
    if (node->members.peers != NULL) {
        peers_set_cluster(node->members.peers, cluster_id);
    }
}
