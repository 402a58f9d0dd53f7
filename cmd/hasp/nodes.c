/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/nodes.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "client/thread.h"

/* How long to wait for nodes with a newer term, since a leader that has
 * answered may have been deposed. */
#define HEDGE_MS 150
/* The named nodes, and the members that they name. */
#define ASK_COUNT_MAX (2 * ENDPOINT_COUNT_MAX)
#define FOREIGN "other cluster"

struct nodes;

/* One node that is asked, on its own thread. */
struct ask {
    struct nodes *nodes;
    struct endpoint endpoint;
    uint64_t
        member; /* Id of the member that it was found as; 0 if it was named. */
    pthread_t thread;
    bool has_thread;
    bool is_done;   /* 'status' is set. */
    bool is_looked; /* The nodes that it names were asked. */
    json_t *status;
};

struct nodes {
    struct shown *shown;
    uint64_t timeout_ms;
    enum nodes_scope scope;
    int stop_fd; /* Readable when no answer is awaited. */
    /* Protects what the threads write: is_done and status. */
    pthread_mutex_t mutex;
    pthread_cond_t done;
    uint32_t count;
    struct ask ask[ASK_COUNT_MAX];
};

/* Asks one node for its own view. */
static json_t *nodes_status_of(struct ask *ask)
{
    struct endpoints one = {.endpoint = &ask->endpoint, .count = 1};
    struct client *client = client_new(&one, ask->nodes->shown);
    struct client_options options = {
        .deadline_ns = client_now_ns() + ask->nodes->timeout_ms * NS_PER_MS,
        .is_once = true};
    json_t *status;
    client_set_interrupt(client, ask->nodes->stop_fd);
    int error = tool_send(client, WORDS("RAFT.STATUS"), &options, &status);
    if (error != 0) {
        /* The client names all its endpoints: "what (each one: why)". Here it
         * has one. */
        const char *why = strchr(client_why(client), '(');
        why = why == NULL ? client_why(client) : why + 1;
        size_t size = strlen(why);
        size -= size > 0 && why[size - 1] == ')';
        /* The reason in place of a status, if the node exists. */
        bool is_there = error != HASP_ECONNECT && error != HASP_ETIMEDOUT;
        status = json_pack("{s:s, s:s%}", "role",
                           is_there ? "refuses" : "unreachable", "error", why,
                           size);
    }
    const struct tls_identity *identity = client_node(client);
    if (error == 0 && identity != NULL) {
        json_object_set_new(
            status, "certificate_days",
            json_integer((json_int_t)tls_days_until(identity->until)));
    }
    json_object_set_new(status, "endpoint", json_string(ask->endpoint.text));
    if (error != 0 && ask->member != 0) {
        json_object_set_new(status, "node",
                            json_integer((json_int_t)ask->member));
    }
    client_free(client);
    return status;
}

static void *nodes_run(void *data)
{
    struct ask *ask = data;
    json_t *status = nodes_status_of(ask);
    pthread_mutex_lock(&ask->nodes->mutex);
    ask->status = status;
    ask->is_done = true;
    pthread_cond_signal(&ask->nodes->done);
    pthread_mutex_unlock(&ask->nodes->mutex);
    return NULL;
}

static void nodes_begin(struct nodes *nodes, const struct endpoint *endpoint,
                        uint64_t member)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (strcmp(nodes->ask[i].endpoint.text, endpoint->text) == 0) {
            return;
        }
    }
    if (nodes->count == ASK_COUNT_MAX) {
        return;
    }
    struct ask *ask = &nodes->ask[nodes->count++];
    ask->nodes = nodes;
    ask->endpoint = *endpoint;
    ask->member = member;
    ask->has_thread = client_thread_start(&ask->thread, nodes_run, ask) == 0;
    if (!ask->has_thread) {
        /* Without a thread the nodes are asked one after the other. */
        ask->status = nodes_status_of(ask);
        ask->is_done = true;
    }
}

static void begin_text(struct nodes *nodes, const char *text, uint64_t member)
{
    struct endpoint endpoint;
    char why[HASP_WHY_SIZE];
    if (text[0] != '\0' &&
        endpoint_parse(text, strlen(text), &endpoint, why) == 0) {
        nodes_begin(nodes, &endpoint, member);
    }
}

/* Asks the nodes that this status names. */
static void nodes_follow(struct nodes *nodes, json_t *status)
{
    json_t *member;
    size_t i;
    if (nodes->scope == NODES_LEADER && !nodes_is_leader(status)) {
        begin_text(nodes, value_text(status, "leader_address"),
                   value_number(status, "leader"));
    }
    if (nodes->scope != NODES_MEMBERS) {
        return;
    }
    json_array_foreach (value_at(status, "members"), i, member) {
        /* Its peer address, a comma, its client address. */
        const char *comma = strchr(value_text(member, "address"), ',');
        uint64_t id = value_number(member, "id");
        if (comma != NULL && id != value_number(status, "node")) {
            begin_text(nodes, comma + 1, id);
        }
    }
}

/* Processes all answers so far; true if a node has yet to answer. */
static bool nodes_look(struct nodes *nodes, bool *ret_leader)
{
    bool is_waiting = false;
    for (uint32_t i = 0; i < nodes->count; i++) {
        struct ask *ask = &nodes->ask[i];
        is_waiting |= !ask->is_done;
        if (ask->is_done && !ask->is_looked) {
            ask->is_looked = true;
            *ret_leader |= nodes_is_leader(ask->status);
            nodes_follow(nodes, ask->status);
        }
    }
    return is_waiting;
}

/* Waits, holding the mutex, for the next answer; false if none comes in time.
 */
static bool wait_until(struct nodes *nodes, uint64_t until_ns)
{
    if (until_ns == UINT64_MAX) {
        pthread_cond_wait(&nodes->done, &nodes->mutex);
        return true;
    }
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                             .tv_nsec = (long)(until_ns % NS_PER_S)};
    return pthread_cond_timedwait(&nodes->done, &nodes->mutex, &until) !=
           ETIMEDOUT;
}

static void wait_for_all(struct nodes *nodes)
{
    bool has_leader = false;
    uint64_t until_ns = UINT64_MAX;
    pthread_mutex_lock(&nodes->mutex);
    while (nodes_look(nodes, &has_leader)) {
        if (nodes->scope == NODES_LEADER && has_leader &&
            until_ns == UINT64_MAX) {
            until_ns = client_now_ns() + HEDGE_MS * NS_PER_MS;
        }
        if (!wait_until(nodes, until_ns)) {
            break;
        }
    }
    pthread_mutex_unlock(&nodes->mutex);
}

static bool has_answered(const struct ask *ask)
{
    return value_text(ask->status, "error")[0] == '\0';
}

/* True if it was found, not named, and another answer replaces it: the same
 * node under another address, or a newer configuration without this member. */
static bool is_superfluous(const struct nodes *nodes, uint32_t at, json_t *best)
{
    const struct ask *ask = &nodes->ask[at];
    uint64_t id = value_number(ask->status, "node");
    if (ask->member == 0) {
        return false;
    }
    for (uint32_t i = 0; i < nodes->count; i++) {
        const struct ask *other = &nodes->ask[i];
        if (i != at && has_answered(other) &&
            value_number(other->status, "node") == id &&
            (i < at || !has_answered(ask))) {
            return true;
        }
    }
    return (!has_answered(ask) || nodes_is_foreign(ask->status)) &&
           best != NULL && nodes_member(best, id) == NULL;
}

/* Id of the member with this client address; 0 if there is none. */
static uint64_t id_at(json_t *status, const char *address)
{
    json_t *member;
    size_t i;
    json_array_foreach (value_at(status, "members"), i, member) {
        const char *comma = strchr(value_text(member, "address"), ',');
        if (comma != NULL && strcmp(comma + 1, address) == 0) {
            return value_number(member, "id");
        }
    }
    return 0;
}

/* Marks nodes of another cluster than the first one's: the endpoints may name
 * two clusters, or the log may contain a stale address. */
static void mark_foreign(const struct nodes *nodes)
{
    const char *cluster = "";
    for (uint32_t i = 0; i < nodes->count; i++) {
        const char *own = value_text(nodes->ask[i].status, "cluster");
        if (cluster[0] == '\0') {
            cluster = own;
        } else if (own[0] != '\0' && strcmp(own, cluster) != 0) {
            json_object_set_new(nodes->ask[i].status, "role",
                                json_string(FOREIGN));
        }
    }
}

static json_t *nodes_gather(const struct nodes *nodes)
{
    json_auto_t *all = json_array();
    json_t *list = json_array();
    mark_foreign(nodes);
    for (uint32_t i = 0; i < nodes->count; i++) {
        json_array_append(all, nodes->ask[i].status);
    }
    json_t *best = nodes_best(all);
    for (uint32_t i = 0; i < nodes->count; i++) {
        const struct ask *ask = &nodes->ask[i];
        uint64_t id = has_answered(ask) ? 0 : id_at(best, ask->endpoint.text);
        if (id != 0) {
            json_object_set_new(ask->status, "node",
                                json_integer((json_int_t)id));
        }
        if (!is_superfluous(nodes, i, best)) {
            json_array_append(list, ask->status);
        }
    }
    return list;
}

static struct nodes *nodes_make(const struct tool *tool, enum nodes_scope scope)
{
    struct nodes *nodes = memory_new(sizeof *nodes);
    pthread_condattr_t monotonic;
    nodes->shown = tool->shown;
    nodes->timeout_ms = u64_min(tool->timeout_ms, NODES_TIMEOUT_MS);
    nodes->scope = scope;
    nodes->stop_fd = eventfd(0, EFD_CLOEXEC);
    CHECK(nodes->stop_fd >= 0);
    CHECK(pthread_condattr_init(&monotonic) == 0);
    CHECK(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&nodes->done, &monotonic) == 0);
    CHECK(pthread_mutex_init(&nodes->mutex, NULL) == 0);
    pthread_condattr_destroy(&monotonic);
    return nodes;
}

/* Gives up on the nodes that have not answered by now. */
static void nodes_stop(struct nodes *nodes)
{
    uint64_t one = 1;
    CHECK(write(nodes->stop_fd, &one, sizeof one) == sizeof one);
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (nodes->ask[i].has_thread) {
            CHECK(pthread_join(nodes->ask[i].thread, NULL) == 0);
        }
    }
}

static void nodes_done(struct nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        json_decref(nodes->ask[i].status);
    }
    pthread_mutex_destroy(&nodes->mutex);
    pthread_cond_destroy(&nodes->done);
    close(nodes->stop_fd);
    free(nodes);
}

json_t *nodes_ask(const struct tool *tool, enum nodes_scope scope)
{
    struct nodes *nodes = nodes_make(tool, scope);
    for (uint32_t i = 0; i < tool->endpoints.count; i++) {
        nodes_begin(nodes, &tool->endpoints.endpoint[i], 0);
    }
    wait_for_all(nodes);
    nodes_stop(nodes);
    json_t *list = nodes_gather(nodes);
    nodes_done(nodes);
    return list;
}

/* The text of a node that has answered, or NULL; '*ret_open' if others can
 * still answer. The caller holds the mutex. */
static const char *find_answer(const struct nodes *nodes, bool *ret_open)
{
    *ret_open = false;
    for (uint32_t i = 0; i < nodes->count; i++) {
        const struct ask *ask = &nodes->ask[i];
        if (ask->is_done && has_answered(ask)) {
            return ask->endpoint.text;
        }
        *ret_open |= !ask->is_done;
    }
    return NULL;
}

uint32_t nodes_first(const struct tool *tool)
{
    const struct endpoints *all = &tool->endpoints;
    struct nodes *nodes = nodes_make(tool, NODES_NAMED);
    const char *found = NULL;
    uint32_t first = 0;
    for (uint32_t i = 0; i < all->count && found == NULL; i++) {
        bool is_last = i + 1 == all->count, is_open;
        uint64_t until_ns = is_last ? UINT64_MAX
                                    : client_now_ns() + HEDGE_MS * NS_PER_MS;
        nodes_begin(nodes, &all->endpoint[i], 0);
        pthread_mutex_lock(&nodes->mutex);
        do {
            found = find_answer(nodes, &is_open);
        } while (found == NULL && is_open && wait_until(nodes, until_ns));
        pthread_mutex_unlock(&nodes->mutex);
    }
    nodes_stop(nodes);
    for (uint32_t i = 0; i < all->count && found != NULL; i++) {
        if (strcmp(all->endpoint[i].text, found) == 0) {
            first = i;
            break;
        }
    }
    nodes_done(nodes);
    return first;
}

bool nodes_is_leader(json_t *status)
{
    return strcmp(value_text(status, "role"), "leader") == 0;
}

bool nodes_is_foreign(json_t *status)
{
    return strcmp(value_text(status, "role"), FOREIGN) == 0;
}

json_t *nodes_newest(json_t *nodes)
{
    json_t *node, *best = NULL;
    size_t i;
    json_array_foreach (nodes, i, node) {
        bool is_leader = nodes_is_leader(node);
        uint64_t term = value_number(node, "term");
        uint64_t best_term = value_number(best, "term");
        if (!nodes_is_foreign(node) &&
            (is_leader || value_number(node, "leader") != 0) &&
            (best == NULL || term > best_term ||
             (term == best_term && is_leader))) {
            best = node;
        }
    }
    return best;
}

json_t *nodes_best(json_t *nodes)
{
    json_t *node, *best = nodes_newest(nodes);
    size_t i;
    if (best != NULL) {
        return best;
    }
    json_array_foreach (nodes, i, node) {
        if (!nodes_is_foreign(node) &&
            json_array_size(value_at(node, "members")) > 0 &&
            (best == NULL ||
             value_number(node, "commit") > value_number(best, "commit"))) {
            best = node;
        }
    }
    return best;
}

json_t *nodes_member(json_t *status, uint64_t id)
{
    json_t *member;
    size_t i;
    json_array_foreach (value_at(status, "members"), i, member) {
        if (value_number(member, "id") == id) {
            return member;
        }
    }
    return NULL;
}

json_t *nodes_sorted(json_t *maps, const char *key)
{
    json_t *sorted = json_array(), *map;
    size_t i;
    json_array_foreach (maps, i, map) {
        uint64_t id = value_number(map, key);
        size_t at = json_array_size(sorted);
        while (at > 0 && id != 0) {
            uint64_t before = value_number(json_array_get(sorted, at - 1), key);
            if (before != 0 && before <= id) {
                break;
            }
            at--;
        }
        json_array_insert(sorted, at, map);
    }
    json_decref(maps);
    return sorted;
}
