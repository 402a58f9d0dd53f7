/* SPDX-License-Identifier: MIT */

/* Dials the addresses of a new member and asks who is there. */

#include "node/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/memory.h"
#include "net/resp.h"
#include "net/stream.h"
#include "node/node.h"

/* The time for both addresses together. */
#define PROBE_MS 3000
/* The most values in an answer to RAFT.STATUS. */
#define VALUE_COUNT_MAX 1024

struct probe {
    struct list node;
    struct hasp_node *owner;
    uint64_t number;
    uint64_t id;
    char peer[MEMBER_ADDRESS_SIZE];
    char client[MEMBER_ADDRESS_SIZE]; /* "" if none was announced. */
    bool is_client;       /* 'client' is being dialled, not 'peer'. */
    bool is_there;        /* The node answers at the present address. */
    uint64_t incarnation; /* Of its data directory; 0: not told yet. */
    /* What else answers there; "" if nothing does. */
    char other[HASP_WHY_SIZE / 4];
    struct stream stream;
    uv_timer_t timer;
};

static void probe_connected_cb(struct stream *stream)
{
    static const char question[] = "*1\r\n$11\r\nRAFT.STATUS\r\n";
    struct probe *probe = stream->owner;
    if (probe->is_client) {
        buffer_put_text(stream_output(stream), question);
    } else {
        probe->is_there = true;
        stream_close(stream, "reached");
    }
}

/* True if the answer has the id of this node's cluster. */
static bool is_of_ours(const struct probe *probe, struct bytes cluster)
{
    char own[CLUSTER_ID_TEXT_SIZE];
    cluster_id_format(datadir_identity(probe->owner->datadir)->cluster_id, own);
    return bytes_equal(cluster, bytes_of_text(own));
}

/* The node understands the command, but cannot answer it now: while it has not
 * begun it says at the end who it is. */
static void read_refusal(struct probe *probe, struct bytes text)
{
    char line[512];
    uint64_t id;
    size_t size = text.size < sizeof line ? text.size : sizeof line - 1;
    memcpy(line, text.data, size);
    line[size] = '\0';
    const char *end = strstr(line, "; node=");
    if (end != NULL &&
        sscanf(end, "; node=%" SCNu64 " incarnation=%" SCNx64, &id,
               &probe->incarnation) == 2 &&
        id == probe->id && probe->incarnation != 0) {
        probe->is_there = true;
    } else if (strncmp(line, "ERR ", 4) == 0) {
        snprintf(probe->other, sizeof probe->other, "no node of hasp answers");
    } else {
        probe->incarnation = 0;
        snprintf(probe->other, sizeof probe->other,
                 "it does not say which data directory it has: %.70s", line);
    }
}

static bool probe_read_incarnation(const struct resp_reply *reply,
                                   uint64_t *ret_incarnation)
{
    const struct resp_value *value = resp_find(reply, 0, "incarnation");
    uint8_t bytes[8];
    if (value == NULL || value->bytes.size != 2 * sizeof bytes ||
        !hex_get(value->bytes, bytes, sizeof bytes)) {
        return false;
    }
    *ret_incarnation = load_u64_be(bytes);
    return *ret_incarnation != 0;
}

static void probe_bytes_cb(struct stream *stream)
{
    struct probe *probe = stream->owner;
    struct resp_reply reply = {0};
    size_t used;
    int error = resp_parse_reply(stream_input(stream), VALUE_COUNT_MAX, &reply,
                                 &used);
    if (error == HASP_EMORE) {
        resp_reply_done(&reply);
        return;
    }
    const struct resp_value *node = error == 0 ? resp_find(&reply, 0, "node")
                                               : NULL;
    const struct resp_value *cluster = error == 0
                                           ? resp_find(&reply, 0, "cluster")
                                           : NULL;
    if (error == 0 && reply.value[0].type == RESP_ERROR) {
        read_refusal(probe, reply.value[0].bytes);
    } else if (node == NULL || node->type != RESP_INTEGER) {
        snprintf(probe->other, sizeof probe->other, "no node of hasp answers");
    } else if ((uint64_t)node->integer != probe->id) {
        snprintf(probe->other, sizeof probe->other,
                 "it is the address of node %" PRId64, node->integer);
    } else if (cluster != NULL && cluster->bytes.size > 0 &&
               !is_of_ours(probe, cluster->bytes)) {
        snprintf(probe->other, sizeof probe->other,
                 "that node belongs to another cluster; give it an empty "
                 "directory, and this cluster's members in its configuration");
    } else if (!probe_read_incarnation(&reply, &probe->incarnation)) {
        snprintf(probe->other, sizeof probe->other,
                 "it does not say which data directory it has");
    } else {
        probe->is_there = true;
    }
    resp_reply_done(&reply);
    stream_close(stream, "answered");
}

static void probe_timer_closed_cb(uv_handle_t *handle)
{
    struct probe *probe = handle->data;
    list_remove(&probe->node);
    free(probe);
}

static void probe_end(struct probe *probe, int error, const char *why)
{
    struct hasp_node *node = probe->owner;
    if (!turn_is_over(&node->turn)) {
        core_address_probed(node->core, probe->number, error,
                            probe->incarnation, why, turn_now());
        turn_wake(&node->turn);
    }
    uv_close((uv_handle_t *)&probe->timer, probe_timer_closed_cb);
}

static void probe_dial(struct probe *probe);

static void probe_closed_cb(struct stream *stream, const char *reason)
{
    struct probe *probe = stream->owner;
    char why[HASP_WHY_SIZE];
    if (probe->is_there && !probe->is_client && probe->client[0] != '\0') {
        probe->is_client = true;
        probe_dial(probe);
        return;
    }
    if (probe->is_there && probe->incarnation == 0) {
        snprintf(probe->other, sizeof probe->other,
                 "without a client address it cannot be asked which data "
                 "directory it has");
    }
    snprintf(why, sizeof why, "%s: %s",
             probe->is_client ? probe->client : probe->peer,
             probe->other[0] != '\0' ? probe->other : reason);
    probe_end(probe,
              probe->incarnation != 0   ? 0
              : probe->other[0] == '\0' ? HASP_ECONNECT
                                        : HASP_EREFUSED,
              why);
}

static const struct stream_events events = {.on_connected = probe_connected_cb,
                                            .on_bytes = probe_bytes_cb,
                                            .on_closed = probe_closed_cb};
static const struct stream_limits limits = {0};

/* Dials the present address. */
static void probe_dial(struct probe *probe)
{
    char host[MEMBER_ADDRESS_SIZE];
    uint16_t port;
    const char *address = probe->is_client ? probe->client : probe->peer;
    memset(&probe->stream, 0, sizeof probe->stream);
    probe->is_there = false;
    /* The core has checked the form of both addresses. */
    CHECK(address_split(address, host, sizeof host, &port) == 0);
    CHECK(stream_connect(&probe->stream, &probe->owner->uv, host, port, &events,
                         &limits, probe) == 0);
    /* A port that also takes plain connections is dialled in plain. */
    const struct hasp_node *node = probe->owner;
    const struct certificate_set *set = &node->certificates.now;
    if (probe->is_client && node->options.tls_client == HASP_NODE_TLS_REQUIRE) {
        stream_use_tls(&probe->stream, set->asking, probe->id);
    } else if (!probe->is_client &&
               node->options.tls_peer == HASP_NODE_TLS_REQUIRE) {
        stream_use_tls(&probe->stream, set->peers, probe->id);
    }
}

void probes_open(struct probes *probes)
{
    list_init(&probes->probes);
}

void probes_close(struct probes *probes)
{
    LIST_EACH_SAFE (node, &probes->probes) {
        struct probe *probe = LIST_ENTRY(node, struct probe, node);
        stream_close(&probe->stream, "this node closes");
    }
}

bool probes_are_closed(const struct probes *probes)
{
    return list_is_empty(&probes->probes);
}

static void late_cb(uv_timer_t *timer)
{
    struct probe *probe = timer->data;
    stream_close(&probe->stream, "no answer");
}

void probe_port_address(void *data, uint64_t number, uint64_t id,
                        const char *address)
{
    struct hasp_node *node = data;
    struct probe *probe = memory_new(sizeof *probe);
    size_t size = strcspn(address, ",");
    probe->owner = node;
    probe->number = number;
    probe->id = id;
    snprintf(probe->peer, sizeof probe->peer, "%.*s", (int)size, address);
    snprintf(probe->client, sizeof probe->client, "%s",
             address[size] == ',' ? address + size + 1 : "");
    list_push_back(&node->probes.probes, &probe->node);
    CHECK(uv_timer_init(&node->uv, &probe->timer) == 0);
    probe->timer.data = probe;
    CHECK(uv_timer_start(&probe->timer, late_cb, PROBE_MS, 0) == 0);
    probe_dial(probe);
}
