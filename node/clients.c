/* SPDX-License-Identifier: MIT */

/* Connections of clients on net/stream: accepts, parses, holds back and answers
 * them, and closes them if there are too many or they are too slow. */

#include "node/clients.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "lockfsm/user/access.h"
#include "net/admin_socket.h"
#include "net/local.h"
#include "net/resp.h"
#include "net/stream.h"
#include "node/node.h"
#include "node/origin.h"
#include "node/probe.h"
#include "node/process.h"

/* A client with more unsent bytes than this is not read from until it has read
 * them. */
#define UNSENT_MAX (256u << 10)
/* Bytes that are read from a connection that is held back. */
#define HELD_BACK_MAX (64u << 10)
#define GENERATION_MAX (UINT32_C(1) << 29)
/* Unauthenticated connections that are closed at the end of a turn, and with
 * each accepted connection. */
#define REFUSALS_OF_TURN 32
#define REFUSALS_OF_ACCEPT 2
#define AT_LIMIT "-LIMIT connections of this node\r\n"

static const struct stream_limits limits = {
    .input_max = 1 << 20, .output_max = 16 << 20, .idle_max = 16 << 10};

#define WANTS_TLS "-NOTLS this port requires TLS: use --tls or HASP_TLS\r\n"

#define TOO_SLOW "output limit"
#define ALL_TOO_SLOW "output limit of all clients"
#define UNFINISHED "request not finished in time"
#define MALFORMED "protocol error"
#define MADE_ROOM "made room for others"
#define UNKNOWN "not authenticated"
#define UNAUTHENTICATED                                                     \
    "-NOAUTH not authenticated: present a client certificate or use AUTH, " \
    "within 10 s and 16 KiB; at most an eighth of this node's connections " \
    "may be unauthenticated\r\n"

const char *const clients_cut_reason[CLIENTS_CUT_REASONS] = {
    MALFORMED,       UNFINISHED, TOO_SLOW, ALL_TOO_SLOW,
    CORE_TOO_COSTLY, MADE_ROOM,  UNKNOWN};

struct node_client {
    struct stream stream; /* First: the stream is the client. */
    struct clients *clients;
    struct account_claim claim; /* The payer of its work. */
    uint64_t conn;
    struct resp_parser parser;
    struct origin *origin; /* NULL: the connection has ended. */
    struct list in_dirty;
    struct list in_resumed;
    struct list in_unfinished;
    struct list in_fresh;   /* Until it is found to have done something. */
    struct list in_unknown; /* Until it is found to be authenticated. */
    uint64_t came_ns;
    uint64_t heard_size;    /* Bytes while unauthenticated. */
    uint64_t unfinished_ns; /* Start of the unfinished request. */
    size_t unsent_size;     /* As counted in clients->unsent_size. */
    bool is_local;          /* From the admin socket. */
    bool is_ready;
    bool is_known; /* The core knows it. */
    bool is_blocked;
    bool is_slow; /* More than UNSENT_MAX is unsent. */
    bool is_closing;
    bool is_served;     /* Served by the account, one request at a time. */
    bool has_fed;       /* A request was parsed. */
    bool may_have_more; /* While it rests: the kernel may have bytes. */
};

static void answer_too_early(struct node_client *client)
{
    struct hasp_node *node = client->clients->node;
    struct resp_writer writer = {clients_port_output(node, client->conn), 2};
    char missing[128];
    founding_missing(&node->founding, missing, sizeof missing);
    /* A leader that adds this node reads the identity (node/probe.c). */
    resp_error(&writer, "NOLEADER",
               "the cluster is not founded yet: waiting for the first greeting "
               "of %s; " PROBE_IDENTITY,
               missing, node->options.id,
               datadir_identity(node->datadir)->incarnation);
}

/* True if none of its requests is served for now, even if there is input. */
static bool is_held_back(const struct node_client *client)
{
    return client->is_blocked || client->is_slow || client->is_closing;
}

static void note_unfinished(struct node_client *client, uint64_t now_ns)
{
    if (is_held_back(client) || account_rests(&client->claim) ||
        stream_input(&client->stream).size == 0) {
        list_remove(&client->in_unfinished);
    } else if (list_is_empty(&client->in_unfinished)) {
        client->unfinished_ns = now_ns;
        list_push_back(&client->clients->unfinished, &client->in_unfinished);
    }
}

/* --- Unauthenticated connections ------------------------------------------ */

static void clients_know(struct node_client *client)
{
    if (!list_is_empty(&client->in_unknown)) {
        CHECK(client->clients->unknown_count > 0);
        list_remove(&client->in_unknown);
        client->clients->unknown_count--;
    }
}

/* True if the core knows the client, and it is not authenticated. */
static bool is_nobody(const struct node_client *client)
{
    return client->is_known && !client->is_closing &&
           core_client_is_nobody(client->clients->node->core, client->conn);
}

static void refuse_nobody(struct node_client *client)
{
    CHECK(!client->is_closing); /* Otherwise it would get the error twice. */
    clients_know(client);
    client->is_closing = true;
    buffer_put_text(stream_output(&client->stream), UNAUTHENTICATED);
    stream_close_flushed(&client->stream, UNKNOWN);
}

/* Counts the bytes from an unauthenticated client, with those not yet parsed.
 * False if they are too many; then it has been refused. */
static bool has_room_as_nobody(struct node_client *client, size_t size)
{
    if (list_is_empty(&client->in_unknown)) {
        return true;
    }
    client->heard_size += size;
    if (client->heard_size + stream_input(&client->stream).size <=
        CLIENTS_UNKNOWN_SIZE) {
        return true;
    }
    if (!is_nobody(client)) {
        return true; /* Access is open, or it is authenticated. */
    }
    refuse_nobody(client);
    return false;
}

static bool is_access_required(const struct clients *clients)
{
    const struct hasp_node *node = clients->node;
    return node->has_begun && !turn_is_over(&node->turn) &&
           core_users(node->core) != CORE_USERS_OPEN;
}

/* Checks the oldest connections in 'unknown'. Removes authenticated ones from
 * the list, and refuses others that came before 'by_ns' or exceed 'max', but at
 * most 'refusals' of them. False if more are to be refused. */
static bool sift_unknown(struct clients *clients, uint64_t by_ns, uint32_t max,
                         uint32_t refusals)
{
    if (!is_access_required(clients)) {
        return true;
    }
    LIST_FOR_SAFE (struct node_client, client, &clients->unknown, in_unknown) {
        if (client->came_ns >= by_ns && clients->unknown_count <= max) {
            return true;
        }
        if (is_nobody(client)) {
            if (refusals-- == 0) {
                return false;
            }
            refuse_nobody(client);
        } else if (client->is_known || client->is_closing) {
            clients_know(client);
        }
    }
    return true;
}

static void refuse_bytes(struct node_client *client, const char *why)
{
    struct resp_writer writer = {stream_output(&client->stream), 2};
    resp_error(&writer, "ERR", "Protocol error: %s", why);
    client->is_closing = true;
    stream_close_flushed(&client->stream, MALFORMED);
}

static struct account *clients_account_of(const struct node_client *client)
{
    return &client->clients->node->turn.account;
}

static void clients_line_up(struct node_client *client)
{
    account_rest(clients_account_of(client), &client->claim);
    client->may_have_more = true;
    list_remove(&client->in_unfinished);
}

/* Leaves the client's input where it is, for account_serve(). */
static void clients_rest(struct node_client *client)
{
    clients_line_up(client);
    stream_rest(&client->stream);
}

/* Called after each request. False if the rest has to wait: because the account
 * serves one request at a time, or because it is spent. */
static bool may_go_on(struct node_client *client)
{
    struct account *account = clients_account_of(client);
    if (client->is_served) {
        return false;
    }
    account_charge(account, &client->claim);
    if (!account_is_spent(account)) {
        return true;
    }
    if (!is_held_back(client) && stream_input(&client->stream).size > 0) {
        clients_rest(client);
    }
    return false;
}

/* Parses the input and passes requests to the core, until the input ends, the
 * core blocks the connection, or the account is spent. */
static void clients_feed(struct node_client *client, uint64_t now_ns)
{
    struct clients *clients = client->clients;
    struct resp_request request;
    const char *why = NULL;
    size_t used;
    if (!client->is_served) {
        account_start(clients_account_of(client));
    }
    while (!client->is_blocked && !client->is_closing) {
        if (stream_unsent(&client->stream) > UNSENT_MAX) {
            client->is_slow = true;
            stream_pause(&client->stream);
            break;
        }
        int rv = resp_parse(&client->parser, stream_input(&client->stream),
                            &request, &used, &why);
        if (rv == HASP_EMORE) {
            (void)has_room_as_nobody(client, 0);
            break;
        }
        if (rv != 0) {
            refuse_bytes(client, why);
            break;
        }
        if (request.count > 0) {
            clients->request_count++;
            if (client->is_known) {
                core_client_request(clients->node->core, client->conn, &request,
                                    now_ns);
            } else {
                answer_too_early(client);
            }
        }
        CHECK(used > 0); /* Otherwise the loop would not end. */
        client->has_fed = true;
        if (!client->is_closing && !has_room_as_nobody(client, used)) {
            break;
        }
        /* If input is left, it is the start of another request, with its own
         * time limit. */
        list_remove(&client->in_unfinished);
        stream_consume(&client->stream, used);
        resp_parser_trim(&client->parser);
        if (!may_go_on(client)) {
            break;
        }
    }
    note_unfinished(client, now_ns);
}

static void on_bytes(struct stream *stream)
{
    struct node_client *client = stream->owner;
    struct hasp_node *node = client->clients->node;
    if (client->is_closing || turn_is_over(&node->turn)) {
        stream_consume(stream, stream_input(stream).size);
        return;
    }
    clients_feed(client, turn_at_work(&node->turn));
    turn_wake(&node->turn);
}

static bool clients_may_read(struct stream *stream)
{
    struct node_client *client = stream->owner;
    /* A connection that is held back reads at most its input buffer; reading
     * shows when the peer closes it. */
    if (is_held_back(client) || account_is_open(clients_account_of(client))) {
        return true;
    }
    clients_line_up(client); /* net/stream.c makes it rest. */
    return false;
}

/* Serves one request, from the input or from newly read bytes. True if there
 * may be another one. */
static bool clients_serve_one(struct node_client *client)
{
    struct stream *stream = &client->stream;
    client->is_served = true;
    client->has_fed = false;
    if (stream_input(stream).size > 0) {
        clients_feed(client, turn_now());
    }
    if (!client->has_fed && client->may_have_more) {
        client->may_have_more = stream_read(stream);
    }
    client->is_served = false;
    return client->may_have_more ||
           (client->has_fed && stream_input(stream).size > 0);
}

static bool clients_serve(struct account_claim *claim)
{
    struct node_client *client = LIST_ENTRY(claim, struct node_client, claim);
    struct turn *turn = &client->clients->node->turn;
    if (turn_is_over(turn)) {
        return false;
    }
    turn_wake(turn);
    if (!is_held_back(client) && clients_serve_one(client) &&
        !is_held_back(client)) {
        return true;
    }
    account_wake(claim);
    stream_wake(&client->stream);
    note_unfinished(client, turn_now());
    return false;
}

/* Counts the reason. A slow reader is also logged, since that costs a client
 * some megabytes; causes that an anonymous client can produce with a few bytes
 * are only counted. */
static void count_cut(struct node_client *client, const char *reason)
{
    for (int i = 0; i < CLIENTS_CUT_REASONS; i++) {
        client->clients->cut_count[i] += strcmp(reason,
                                                clients_cut_reason[i]) == 0;
    }
    if (strcmp(reason, TOO_SLOW) == 0) {
        LOG_WARN("client reads too slowly", "address=%s unsent_max=%zu",
                 client->stream.address, limits.output_max);
    }
}

static void count_unsent(struct node_client *client, size_t size)
{
    CHECK(client->clients->unsent_size >= client->unsent_size);
    client->clients->unsent_size += size;
    client->clients->unsent_size -= client->unsent_size;
    client->unsent_size = size;
}

static void clients_tell_refused(struct node_client *client, const char *reason)
{
    struct clients *clients = client->clients;
    uint32_t left_out;
    if (log_limit_pass(&clients->tls_failures, turn_now() / NS_PER_MS,
                       &left_out)) {
        LOG_WARN("client refused", "address=%s reason=%s suppressed=%" PRIu32,
                 client->stream.address, log_quote(reason), left_out);
    }
}

/* Stops counting the connection for its host. */
static void leave_origin(struct node_client *client)
{
    if (client->origin != NULL) {
        CHECK(client->origin->count > 0);
        client->origin->count--;
        origin_forget(&client->clients->origins, client->origin);
        client->origin = NULL;
    }
}

static void clients_on_ended(struct stream *stream)
{
    leave_origin(stream->owner);
}

static void clients_on_closed(struct stream *stream, const char *reason)
{
    struct node_client *client = stream->owner;
    struct clients *clients = client->clients;
    struct hasp_node *node = clients->node;
    uint32_t slot = (uint32_t)(client->conn & UINT32_MAX);
    CHECK(slot < clients->slot_count && clients->slot[slot] == client);
    CHECK(clients->count > 0);
    account_start(clients_account_of(client));
    count_cut(client, reason);
    clients->tls_failed_count += stream->has_failed_tls;
    if (stream->has_failed_tls || strcmp(reason, STREAM_PASSED_RIGHTS) == 0) {
        clients_tell_refused(client, reason);
    }
    if (client->is_known && !turn_is_over(&node->turn)) {
        LOG_DEBUG("client gone", "address=%s reason=%s", stream->address,
                  log_quote(reason));
        core_client_closed(node->core, client->conn, turn_at_work(&node->turn));
        turn_wake(&node->turn);
    }
    list_remove(&client->in_dirty);
    list_remove(&client->in_resumed);
    list_remove(&client->in_unfinished);
    list_remove(&client->in_fresh);
    clients_know(client);
    count_unsent(client, 0);
    resp_parser_done(&client->parser);
    clients->slot[slot] = NULL;
    /* Larger numbers belong to other connections (GATEWAY_CONN). */
    clients->generation[slot] = clients->generation[slot] % GENERATION_MAX + 1;
    CHECK(clients->vacant_count < clients->slot_count);
    clients->vacant[clients->vacant_count++] = slot;
    clients->count--;
    account_charge(clients_account_of(client), &client->claim);
    account_leave(clients_account_of(client), &client->claim);
    leave_origin(client);
    free(client);
}

/* The client has read its answers: continue with its requests. */
static void on_drained(struct stream *stream)
{
    struct node_client *client = stream->owner;
    count_unsent(client, stream_unsent(stream));
    if (client->is_slow) {
        client->is_slow = false;
        if (!client->is_blocked && list_is_empty(&client->in_resumed)) {
            list_push_back(&client->clients->resumed, &client->in_resumed);
        }
        turn_wake(&client->clients->node->turn);
    }
}

/* Paid by the client's origin: nobody is authenticated before. */
static void clients_on_handshake(struct stream *stream, bool is_over)
{
    struct node_client *client = stream->owner;
    if (is_over) {
        account_charge(clients_account_of(client), &client->claim);
    } else {
        account_start(clients_account_of(client));
    }
}

static const struct stream_events events = {
    .on_bytes = on_bytes,
    .on_ended = clients_on_ended,
    .on_closed = clients_on_closed,
    .may_read = clients_may_read,
    .on_drained = on_drained,
    .on_handshake = clients_on_handshake};

/* Closes a connection whose peer has closed it, or the oldest one that has done
 * nothing so far, even if its last answer is not sent yet. 'fresh' is a
 * list of candidates; one that has done something is removed and not checked
 * again. */
static bool clients_make_room(struct clients *clients)
{
    if (stream_pace_hurry(&clients->pace)) {
        return true;
    }
    while (!list_is_empty(&clients->fresh)) {
        struct node_client *client = LIST_FIRST(&clients->fresh,
                                                struct node_client, in_fresh);
        CHECK(!client->is_local); /* The admin socket has its own limit. */
        list_remove(&client->in_fresh);
        if (!client->is_closing) {
            if (client->is_known &&
                !core_client_is_fresh(clients->node->core, client->conn)) {
                continue;
            }
            client->is_closing = true;
            buffer_put_text(stream_output(&client->stream), AT_LIMIT);
            stream_flush(&client->stream);
        }
        stream_close(&client->stream, MADE_ROOM);
        return true;
    }
    return false;
}

static uint64_t take_slot(struct clients *clients, struct node_client *client)
{
    if (clients->vacant_count == 0) {
        uint32_t count = clients->slot_count == 0 ? 64 : clients->slot_count;
        uint32_t total = clients->slot_count + count;
        clients->slot = memory_resize(clients->slot,
                                      total * sizeof *clients->slot);
        clients->generation = memory_resize(
            clients->generation, total * sizeof *clients->generation);
        clients->vacant = memory_resize(clients->vacant,
                                        total * sizeof *clients->vacant);
        for (uint32_t i = total; i-- > clients->slot_count;) {
            clients->slot[i] = NULL;
            clients->generation[i] = 1;
            clients->vacant[clients->vacant_count++] = i;
        }
        clients->slot_count = total;
    }
    uint32_t slot = clients->vacant[--clients->vacant_count];
    CHECK(clients->slot[slot] == NULL && clients->generation[slot] != 0);
    clients->slot[slot] = client;
    /* A late answer must not reach the next connection in this slot. */
    return (uint64_t)clients->generation[slot] << 32 | slot;
}

static struct stream *new_client(struct clients *clients, struct origin *origin,
                                 const struct stream_events **ret_events,
                                 const struct stream_limits **ret_limits,
                                 void **ret_owner)
{
    struct node_client *client = memory_new(sizeof *client);
    client->clients = clients;
    client->parser.limits.request_size_max = clients->node->options.limits
                                                 .request_size;
    client->origin = origin;
    origin->count++;
    clients->count++;
    client->conn = take_slot(clients, client);
    account_join(clients_account_of(client), &client->claim,
                 account_key_of_origin(origin->host), clients_serve);
    list_init(&client->in_dirty);
    list_init(&client->in_resumed);
    list_init(&client->in_unfinished);
    list_push_back(&clients->fresh, &client->in_fresh);
    client->came_ns = turn_at_work(&clients->node->turn);
    list_push_back(&clients->unknown, &client->in_unknown);
    clients->unknown_count++;
    *ret_events = &events;
    *ret_limits = &clients->limits;
    *ret_owner = client;
    turn_saw_more(&clients->node->turn);
    return &client->stream;
}

static struct stream *clients_on_accept(void *data, const char *address,
                                        const struct stream_events **ret_events,
                                        const struct stream_limits **ret_limits,
                                        void **ret_owner,
                                        const char **ret_refusal)
{
    struct clients *clients = data;
    struct origin *origin = NULL;
    if ((origin = origin_find(&clients->origins, address))->count >=
        clients->per_origin_max) {
        *ret_refusal = "-LIMIT connections from one address\r\n";
    } else if (clients->count - clients->pace.gone_count >=
                   clients->count_max &&
               !clients_make_room(clients)) {
        *ret_refusal = AT_LIMIT;
        origin_forget(&clients->origins, origin);
    } else {
        /* Unknown clients have a share, or they could use up all. */
        (void)sift_unknown(clients, 0,
                           clients->count_max / CLIENTS_UNKNOWN_PART,
                           REFUSALS_OF_ACCEPT);
        return new_client(clients, origin, ret_events, ret_limits, ret_owner);
    }
    clients->refused_count++;
    return NULL;
}

static struct stream *on_accept_local(void *data, const char *address,
                                      const struct stream_events **ret_events,
                                      const struct stream_limits **ret_limits,
                                      void **ret_owner,
                                      const char **ret_refusal)
{
    struct clients *clients = data;
    struct origin *origin = origin_find(&clients->origins, address);
    /* Exempt from all other limits, so that an operator always gets in. */
    if (origin->count >= ADMIN_SOCKET_CONNECTION_MAX) {
        *ret_refusal = "-LIMIT connections to the admin socket\r\n";
        clients->refused_count++;
        return NULL;
    }
    struct stream *stream = new_client(clients, origin, ret_events, ret_limits,
                                       ret_owner);
    struct node_client *client = *ret_owner;
    client->is_local = true;
    list_remove(&client->in_fresh);
    clients_know(client);
    return stream;
}

/* Derives the client's identity from its certificate and its transport. */
static struct identity identity_of(const struct stream *stream)
{
    const struct tls_identity *who = stream_identity(stream);
    bool is_user = who != NULL && who->name.role == TLS_USER;
    char host[STREAM_ADDRESS_SIZE];
    uint16_t port;
    bool is_here = strcmp(stream->address, LOCAL_ADDRESS) == 0 ||
                   (address_split(stream->address, host, sizeof host, &port) ==
                        0 &&
                    address_is_loopback(host));
    return (struct identity){.way = is_user ? IDENTITY_CERTIFICATE
                                            : IDENTITY_NONE,
                             .user = is_user ? who->name.user : NULL,
                             .fingerprint = is_user ? who->fingerprint : NULL,
                             .ca = is_user ? who->ca : NULL,
                             .is_private = who != NULL || is_here};
}

static void clients_tell_core(struct node_client *client)
{
    struct hasp_node *node = client->clients->node;
    CHECK(node->has_begun && !client->is_known);
    client->is_known = true;
    struct identity identity = identity_of(&client->stream);
    if (client->is_local) {
        identity = (struct identity){.way = IDENTITY_LOCAL, .is_private = true};
        logins_note(&node->logins, turn_now());
    }
    core_client_opened(node->core, client->conn, client->stream.address,
                       &identity, turn_now());
    turn_wake(&node->turn);
}

static void clients_on_ready(void *data, struct stream *stream)
{
    struct clients *clients = data;
    struct node_client *client = stream->owner;
    client->is_ready = true;
    if (clients->node->has_begun && !clients->node->turn.has_failed) {
        clients_tell_core(client);
    }
}

int clients_open(struct clients *clients, struct hasp_node *node,
                 const char *address, char why[HASP_WHY_SIZE])
{
    char host[128];
    uint16_t port;
    *clients = (struct clients){
        .node = node, .limits = limits, .unsent_max = CLIENTS_UNSENT_MAX};
    clients_use_limits(clients, &node->options.limits);
    clients->limits.pace = &clients->pace;
    stream_pace_init(&clients->pace);
    list_init(&clients->dirty);
    list_init(&clients->resumed);
    list_init(&clients->unfinished);
    list_init(&clients->fresh);
    list_init(&clients->unknown);
    int rv = address_split(address, host, sizeof host, &port);
    if (rv != 0) {
        snprintf(why, HASP_WHY_SIZE, "'%s' is not an address", address);
        return rv;
    }
    rv = listener_open(&node->uv, host, port, clients_on_accept,
                       clients_on_ready, clients, &clients->listener, why);
    if (rv == 0) {
        snprintf(node->client_address, sizeof node->client_address,
                 strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                 (unsigned)listener_port(clients->listener));
        LOG_INFO("listening for clients", "address=%s connections=%" PRIu32,
                 node->client_address, clients->count_max);
    }
    return rv;
}

void clients_use_limits(struct clients *clients,
                        const struct hasp_node_limits *of_node)
{
    clients->count_max = process_connections(of_node->connections,
                                             CLIENTS_FILES_LEFT);
    clients->per_origin_max = of_node->connections_per_address;
}

void clients_use_tls(struct clients *clients, enum tls_mode mode,
                     struct tls_context *context)
{
    if (clients->listener != NULL) {
        listener_use_tls(clients->listener, mode, context, WANTS_TLS);
    }
}

int clients_open_door(struct clients *clients, char why[HASP_WHY_SIZE])
{
    struct hasp_node *node = clients->node;
    int fd;
    int rv = admin_socket_bind(node->options.directory, &fd, why);
    if (rv == 0) {
        clients->door = listener_adopt(&node->uv, fd, ADMIN_SOCKET_ADDRESS,
                                       on_accept_local, clients_on_ready,
                                       clients);
    }
    return rv;
}

int clients_open_local(struct clients *clients, const char *path,
                       char why[HASP_WHY_SIZE])
{
    struct hasp_node *node = clients->node;
    int fd;
    int rv = local_bind(path, &fd, why);
    if (rv == 0) {
        clients->local = listener_adopt(&node->uv, fd, LOCAL_ADDRESS,
                                        clients_on_accept, clients_on_ready,
                                        clients);
        LOG_INFO("listening for clients", "path=%s", log_quote(path));
    }
    return rv;
}

void clients_begin(struct clients *clients)
{
    CHECK(clients->node->has_begun);
    for (uint32_t i = 0; i < clients->slot_count; i++) {
        if (clients->slot[i] != NULL && clients->slot[i]->is_ready) {
            clients_tell_core(clients->slot[i]);
        }
    }
}

void clients_refuse(struct clients *clients)
{
    if (clients->listener != NULL) {
        listener_close(clients->listener);
        clients->listener = NULL;
    }
    if (clients->local != NULL) {
        local_remove(clients->node->options.listen_local);
        listener_close(clients->local);
        clients->local = NULL;
    }
    if (clients->door != NULL) {
        admin_socket_remove(clients->node->options.directory);
        listener_close(clients->door);
        clients->door = NULL;
    }
}

void clients_close(struct clients *clients)
{
    if (clients->node == NULL) {
        return; /* The start failed before clients_open(). */
    }
    clients_refuse(clients);
    clients->pace.is_off = true;
    while (stream_pace_hurry(&clients->pace)) {
        /* One per call. */
    }
    for (uint32_t i = 0; i < clients->slot_count; i++) {
        if (clients->slot[i] != NULL) {
            struct stream *stream = &clients->slot[i]->stream;
            clients->slot[i]->is_closing = true;
            if (clients->node->turn.has_failed) {
                stream_close(stream, "node fails");
            } else {
                stream_close_flushed(stream, "node stops");
            }
        }
    }
}

void clients_cut(struct clients *clients)
{
    for (uint32_t i = 0; i < clients->slot_count; i++) {
        if (clients->slot[i] != NULL) {
            stream_close(&clients->slot[i]->stream, "node stops");
        }
    }
}

void clients_done(struct clients *clients)
{
    CHECK(clients->count == 0 && clients->listener == NULL);
    free(clients->slot);
    free(clients->generation);
    free(clients->vacant);
    buffer_done(&clients->nowhere);
    *clients = (struct clients){0};
}

/* Closes connections with more unsent bytes than their share, until the rest
 * fits. Those that are closing already keep their bytes only until then. */
static void close_slowest(struct clients *clients)
{
    uint32_t waiting_count = 0;
    uint32_t closed_count = 0;
    for (uint32_t i = 0; i < clients->slot_count; i++) {
        struct node_client *client = clients->slot[i];
        if (client != NULL) {
            count_unsent(client, stream_unsent(&client->stream));
            waiting_count += client->unsent_size > 0 ? 1 : 0;
        }
    }
    for (uint32_t i = 0;
         i < clients->slot_count && clients->unsent_size > clients->unsent_max;
         i++) {
        struct node_client *client = clients->slot[i];
        if (client != NULL &&
            client->unsent_size > clients->unsent_max / waiting_count) {
            client->is_closing = true;
            list_remove(&client->in_unfinished);
            stream_close_in_slot(&client->stream, ALL_TOO_SLOW);
            count_unsent(client, 0);
            closed_count++;
        }
    }
    if (closed_count > 0) {
        LOG_WARN("clients read too slowly",
                 "closed=%" PRIu32 " unsent=%" PRIu64, closed_count,
                 clients->unsent_size);
    }
}

void clients_flush(struct clients *clients)
{
    /* The output may depend on entries that are not on disk. */
    CHECK(!clients->node->turn.has_failed);
    account_start(&clients->node->turn.account);
    LIST_FOR_SAFE (struct node_client, client, &clients->dirty, in_dirty) {
        list_remove(&client->in_dirty);
        stream_flush(&client->stream);
        account_charge(clients_account_of(client), &client->claim);
        count_unsent(client, stream_unsent(&client->stream));
        if (client->is_slow && stream_unsent(&client->stream) <= UNSENT_MAX) {
            on_drained(&client->stream);
        }
    }
    buffer_clear(&clients->nowhere);
    if (clients->unsent_size > clients->unsent_max) {
        close_slowest(clients);
    }
    if (sift_unknown(clients, clients->sift_by_ns, UINT32_MAX,
                     REFUSALS_OF_TURN)) {
        clients->sift_by_ns = 0;
    } else {
        turn_wake(&clients->node->turn);
    }
}

bool clients_have_resumed(const struct clients *clients)
{
    return !list_is_empty(&clients->resumed);
}

void clients_resume(struct clients *clients)
{
    /* Only connections of this turn: one that its own requests block and
     * unblock again waits for the next turn. Otherwise the loop might not
     * end. */
    struct list now_resumed;
    list_init(&now_resumed);
    while (!list_is_empty(&clients->resumed)) {
        struct list *node = clients->resumed.next;
        list_remove(node);
        list_push_back(&now_resumed, node);
    }
    while (!list_is_empty(&now_resumed)) {
        struct node_client *client = LIST_ENTRY(now_resumed.next,
                                                struct node_client, in_resumed);
        list_remove(&client->in_resumed);
        /* Input that has been read already needs no new iteration of the
         * loop. */
        if (!is_held_back(client) && !account_rests(&client->claim) &&
            stream_input(&client->stream).size > 0) {
            if (account_is_open(clients_account_of(client))) {
                clients_feed(client, turn_now());
            } else {
                clients_rest(client);
            }
            turn_wake(&clients->node->turn);
        }
        if (!is_held_back(client)) {
            stream_resume(&client->stream);
        }
    }
}

void clients_tick(struct clients *clients, uint64_t now_ns)
{
    if (now_ns > CLIENTS_UNKNOWN_NS) {
        clients->sift_by_ns = now_ns - CLIENTS_UNKNOWN_NS;
    }
    while (!list_is_empty(&clients->unfinished)) {
        struct node_client *client = LIST_ENTRY(
            clients->unfinished.next, struct node_client, in_unfinished);
        if (now_ns < client->unfinished_ns + CLIENT_REQUEST_NS) {
            break;
        }
        list_remove(&client->in_unfinished);
        client->is_closing = true;
        stream_close_in_slot(&client->stream, UNFINISHED);
    }
}

static struct node_client *clients_find(struct clients *clients, uint64_t conn)
{
    uint32_t slot = (uint32_t)(conn & UINT32_MAX);
    if (slot >= clients->slot_count || clients->slot[slot] == NULL ||
        clients->slot[slot]->conn != conn) {
        return NULL;
    }
    return clients->slot[slot];
}

struct buffer *clients_port_output(void *data, uint64_t conn)
{
    struct hasp_node *node = data;
    struct clients *clients = &node->clients;
    struct node_client *client = clients_find(clients, conn);
    if (conn == LOGINS_CONN) {
        return &node->logins.answer;
    }
    if (client == NULL) {
        return &clients->nowhere;
    }
    if (list_is_empty(&client->in_dirty)) {
        list_push_back(&clients->dirty, &client->in_dirty);
    }
    return stream_output(&client->stream);
}

void clients_port_close(void *data, uint64_t conn, const char *reason)
{
    struct hasp_node *node = data;
    struct node_client *client = clients_find(&node->clients, conn);
    if (client != NULL && !client->is_closing) {
        client->is_closing = true;
        list_remove(&client->in_unfinished);
        if (node->turn.has_failed) {
            stream_close(&client->stream, reason);
        } else {
            stream_close_flushed(&client->stream, reason);
        }
    }
}

void clients_port_user(void *data, uint64_t conn, uint64_t user)
{
    struct hasp_node *node = data;
    struct node_client *client = clients_find(&node->clients, conn);
    if (client != NULL && client->origin != NULL) {
        account_join(&node->turn.account, &client->claim,
                     user != USER_ANYONE
                         ? account_key_of_user(user)
                         : account_key_of_origin(client->origin->host),
                     clients_serve);
    }
}

void clients_port_block(void *data, uint64_t conn, bool is_blocked)
{
    struct hasp_node *node = data;
    struct clients *clients = &node->clients;
    struct node_client *client = clients_find(clients, conn);
    if (client == NULL || client->is_blocked == is_blocked) {
        return;
    }
    client->is_blocked = is_blocked;
    client->stream.limits.input_max = is_blocked ? HELD_BACK_MAX
                                                 : limits.input_max;
    if (is_blocked) {
        list_remove(&client->in_unfinished);
        stream_pause(&client->stream);
    } else if (list_is_empty(&client->in_resumed)) {
        list_push_back(&clients->resumed, &client->in_resumed);
    }
}
