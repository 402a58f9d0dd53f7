/* SPDX-License-Identifier: MIT */

/* Dials the addresses of a new member and asks which node is there. */

#include "node/probe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/memory.h"
#include "net/resp.h"
#include "net/stream.h"
#include "node/node.h"

/* Time for both addresses together. */
#define PROBE_MS 3000
/* Values in an answer to RAFT.STATUS, at most. */
#define VALUE_COUNT_MAX 1024

/* The peer address is dialled first, then the client address. */
enum probe_state {
    PROBE_DIALS_PEER,
    PROBE_REACHED_PEER,
    PROBE_DIALS_CLIENT, /* Connects there, or waits for the answer. */
    PROBE_IDENTIFIED,   /* The node itself has answered. */
    PROBE_REFUSED       /* The answer was wrong. */
};

struct probe {
    struct list node;
    struct hasp_node *owner;
    uint64_t number;
    uint64_t id;
    char peer[MEMBER_ADDRESS_SIZE];
    char client[MEMBER_ADDRESS_SIZE]; /* "" if none was announced. */
    enum probe_state state;
    struct core_directory found;     /* If PROBE_IDENTIFIED. */
    char refusal[HASP_WHY_SIZE / 4]; /* The reason; if PROBE_REFUSED. */
    struct stream stream;
    uv_timer_t timer;
};

static void probe_connected_cb(struct stream *stream)
{
    static const char question[] = "*1\r\n$11\r\nRAFT.STATUS\r\n";
    struct probe *probe = stream->owner;
    if (probe->state == PROBE_DIALS_CLIENT) {
        buffer_put_text(stream_output(stream), question);
    } else {
        CHECK(probe->state == PROBE_DIALS_PEER);
        probe->state = PROBE_REACHED_PEER;
        stream_close(stream, "reached");
    }
}

static void probe_identify(struct probe *probe,
                           const struct core_directory *found)
{
    CHECK(found->incarnation != 0); /* The log names the member by it. */
    probe->found = *found;
    probe->state = PROBE_IDENTIFIED;
}

static void probe_refuse(struct probe *probe, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void probe_refuse(struct probe *probe, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(probe->refusal, sizeof probe->refusal, format, args);
    va_end(args);
    probe->state = PROBE_REFUSED;
}

/* Reads an error reply. A node that waits for the founding of a cluster appends
 * its identity to each error (PROBE_IDENTITY); its log is empty. */
static void read_refusal(struct probe *probe, struct bytes text)
{
    char line[512];
    uint64_t id;
    struct core_directory found = {0};
    size_t size = text.size < sizeof line ? text.size : sizeof line - 1;
    memcpy(line, text.data, size);
    line[size] = '\0';
    const char *end = strstr(line, "; node=");
    if (end != NULL &&
        sscanf(end, "; node=%" SCNu64 " incarnation=%" SCNx64, &id,
               &found.incarnation) == 2 &&
        id == probe->id && found.incarnation != 0) {
        probe_identify(probe, &found);
    } else if (strncmp(line, "ERR ", 4) == 0) {
        /* Another server, Redis say, does not know the command. */
        probe_refuse(probe, "the peer is not a hasp node");
    } else {
        probe_refuse(probe, "it does not report its data directory: %.70s",
                     line);
    }
}

static bool probe_get_hex(const struct resp_reply *reply, const char *key,
                          uint8_t *ret, size_t size)
{
    const struct resp_value *value = resp_find(reply, 0, key);
    return value != NULL && value->bytes.size == 2 * size &&
           hex_get(value->bytes, ret, size);
}

static bool probe_get_number(const struct resp_reply *reply, const char *key,
                             uint64_t *ret)
{
    const struct resp_value *value = resp_find(reply, 0, key);
    if (value == NULL || value->type != RESP_INTEGER || value->integer < 0) {
        return false;
    }
    *ret = (uint64_t)value->integer;
    return true;
}

static bool probe_get_directory(const struct resp_reply *reply,
                                struct core_directory *ret_found)
{
    const struct resp_value *cluster = resp_find(reply, 0, "cluster");
    struct core_directory found = {0};
    uint8_t incarnation[8];
    if (!probe_get_hex(reply, "incarnation", incarnation, sizeof incarnation) ||
        !probe_get_number(reply, "term", &found.term) ||
        !probe_get_number(reply, "last_index", &found.last_index) ||
        cluster == NULL ||
        (cluster->bytes.size != 0 &&
         !probe_get_hex(reply, "cluster", found.cluster_id,
                        sizeof found.cluster_id))) {
        return false;
    }
    found.incarnation = load_u64_be(incarnation);
    *ret_found = found;
    return found.incarnation != 0;
}

static void probe_bytes_cb(struct stream *stream)
{
    struct probe *probe = stream->owner;
    struct resp_reply reply = {0};
    struct core_directory found;
    size_t used;
    int error = resp_parse_reply(stream_input(stream), VALUE_COUNT_MAX, &reply,
                                 &used);
    if (error == HASP_EMORE) {
        resp_reply_done(&reply);
        return;
    }
    const struct resp_value *node = error == 0 ? resp_find(&reply, 0, "node")
                                               : NULL;
    if (error == 0 && reply.value[0].type == RESP_ERROR) {
        read_refusal(probe, reply.value[0].bytes);
    } else if (node == NULL || node->type != RESP_INTEGER) {
        probe_refuse(probe, "the peer is not a hasp node");
    } else if ((uint64_t)node->integer != probe->id) {
        /* A typing error in an address must not add the wrong directory, which
         * would then count in majorities. */
        probe_refuse(probe, "it is the address of node %" PRId64,
                     node->integer);
    } else if (!probe_get_directory(&reply, &found)) {
        probe_refuse(probe, "it does not report its data directory");
    } else {
        probe_identify(probe, &found);
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

static void probe_end(struct probe *probe, int error, const char *address,
                      const char *reason)
{
    struct hasp_node *node = probe->owner;
    char why[HASP_WHY_SIZE];
    snprintf(why, sizeof why, "%s: %s", address, reason);
    if (!turn_is_over(&node->turn)) {
        core_address_probed(node->core, probe->number, error, &probe->found,
                            why, turn_now());
        turn_wake(&node->turn);
    }
    uv_close((uv_handle_t *)&probe->timer, probe_timer_closed_cb);
}

static void probe_dial(struct probe *probe);

static void probe_closed_cb(struct stream *stream, const char *reason)
{
    struct probe *probe = stream->owner;
    switch (probe->state) {
    case PROBE_DIALS_PEER:
        probe_end(probe, HASP_ECONNECT, probe->peer, reason);
        break;
    case PROBE_REACHED_PEER:
        if (probe->client[0] == '\0') {
            probe_end(probe, HASP_EREFUSED, probe->peer,
                      "it has no client address at which to ask for its data "
                      "directory");
            break;
        }
        /* The peer port was reached; only its client port can say which
         * directory the node has. */
        probe->state = PROBE_DIALS_CLIENT;
        probe_dial(probe);
        break;
    case PROBE_DIALS_CLIENT:
        probe_end(probe, HASP_ECONNECT, probe->client, reason);
        break;
    case PROBE_IDENTIFIED:
        probe_end(probe, 0, probe->client, reason);
        break;
    case PROBE_REFUSED:
        probe_end(probe, HASP_EREFUSED, probe->client, probe->refusal);
        break;
    }
}

static const struct stream_events events = {.on_connected = probe_connected_cb,
                                            .on_bytes = probe_bytes_cb,
                                            .on_closed = probe_closed_cb};
static const struct stream_limits limits = {0};

/* Dials the address of the current state. */
static void probe_dial(struct probe *probe)
{
    bool is_client = probe->state == PROBE_DIALS_CLIENT;
    char host[MEMBER_ADDRESS_SIZE];
    uint16_t port;
    const char *address = is_client ? probe->client : probe->peer;
    CHECK(is_client || probe->state == PROBE_DIALS_PEER);
    memset(&probe->stream, 0, sizeof probe->stream);
    /* The core has checked the form of both addresses. */
    CHECK(address_split(address, host, sizeof host, &port) == 0);
    CHECK(stream_connect(&probe->stream, &probe->owner->uv, host, port, &events,
                         &limits, probe) == 0);
    /* A port that also accepts plain connections is dialled without TLS. */
    const struct hasp_node *node = probe->owner;
    const struct certificate_set *set = &node->certificates.now;
    if (is_client && node->options.tls_client == HASP_NODE_TLS_REQUIRE) {
        stream_use_tls(&probe->stream, set->asking, probe->id);
    } else if (!is_client && node->options.tls_peer == HASP_NODE_TLS_REQUIRE) {
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

static void probe_late_cb(uv_timer_t *timer)
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
    CHECK(uv_timer_start(&probe->timer, probe_late_cb, PROBE_MS, 0) == 0);
    probe_dial(probe);
}
