/* SPDX-License-Identifier: MIT */

/* Links: which sessions share one, and how long it lives. */

#include "client/hasp_link.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "client/hasp_session.h"

/* --- The registry --------------------------------------------------------- */

/* The known cluster of all links to the same endpoints. It is kept until the
 * process ends, so that later sessions use the same cluster. */
struct shared_known {
    struct known_cluster known;
    pthread_mutex_t mutex;
    struct list in_knowns;
    struct endpoints endpoints;
};

static struct {
    pthread_once_t once;
    pthread_mutex_t mutex;
    struct list links;
    struct list knowns; /* struct shared_known */
    bool is_shared;     /* A child of fork() gets an empty list with this. */
} registry = {.once = PTHREAD_ONCE_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER};

/* Forgets the links in a child: they are the parent's, and the thread that held
 * the lock is not here. */
static void forget_links(void)
{
    pthread_mutex_init(&registry.mutex, NULL);
    list_init(&registry.links);
    LIST_FOR (struct shared_known, shared, &registry.knowns, in_knowns) {
        pthread_mutex_init(&shared->mutex, NULL);
    }
}

static void link_init_registry(void)
{
    list_init(&registry.links);
    list_init(&registry.knowns);
    registry.is_shared = pthread_atfork(NULL, NULL, forget_links) == 0;
}

static bool are_endpoints_equal(const struct endpoints *a,
                                const struct endpoints *b)
{
    bool is_equal = a->count == b->count;
    for (uint32_t i = 0; is_equal && i < a->count; i++) {
        is_equal = strcmp(a->endpoint[i].host, b->endpoint[i].host) == 0 &&
                   strcmp(a->endpoint[i].port, b->endpoint[i].port) == 0;
    }
    return is_equal;
}

static int copy_endpoints(const struct endpoints *from,
                          struct endpoints *ret_copy)
{
    size_t size = from->count * sizeof *from->endpoint;
    *ret_copy = (struct endpoints){.endpoint = malloc(size),
                                   .count = from->count};
    if (ret_copy->endpoint == NULL) {
        return HASP_ENOMEM;
    }
    memcpy(ret_copy->endpoint, from->endpoint, size);
    return 0;
}

static void guard_known(struct known_cluster *known, bool enters)
{
    struct shared_known *shared = LIST_ENTRY(known, struct shared_known, known);
    if (enters) {
        pthread_mutex_lock(&shared->mutex);
    } else {
        pthread_mutex_unlock(&shared->mutex);
    }
}

/* Finds or makes the known cluster of these endpoints. NULL: no memory. */
static struct known_cluster *find_known(const struct endpoints *endpoints)
{
    LIST_FOR (struct shared_known, shared, &registry.knowns, in_knowns) {
        if (are_endpoints_equal(&shared->endpoints, endpoints)) {
            return &shared->known;
        }
    }
    struct shared_known *shared = calloc(1, sizeof *shared);
    if (shared == NULL || copy_endpoints(endpoints, &shared->endpoints) != 0) {
        free(shared);
        return NULL;
    }
    if (known_cluster_init(&shared->known, endpoints->count) != 0) {
        endpoints_done(&shared->endpoints);
        free(shared);
        return NULL;
    }
    pthread_mutex_init(&shared->mutex, NULL);
    shared->known.guard = guard_known;
    list_push_back(&registry.knowns, &shared->in_knowns);
    return &shared->known;
}

static bool is_fitting(const struct link *link, const struct link_key *key)
{
    return link->use_count < LINK_SESSION_MAX && link->key.loop == key->loop &&
           link->key.ttl_ms == key->ttl_ms &&
           link->key.linger_ms == key->linger_ms &&
           link->key.shown == key->shown &&
           are_endpoints_equal(&link->key.endpoints, &key->endpoints);
}

static struct link *link_find_link(const struct link_key *key)
{
    LIST_FOR (struct link, link, &registry.links, in_links) {
        if (is_fitting(link, key)) {
            return link;
        }
    }
    return NULL;
}

/* --- Links ---------------------------------------------------------------- */

/* A random first endpoint, so that programs that start together do not all
 * connect to the first node. */
static uint64_t any_seed(void)
{
    uint64_t seed = client_now_ns() ^ (uint64_t)getpid() << 20;
    return seed * UINT64_C(0x9e3779b97f4a7c15);
}

static int link_init(struct link *link, const struct link_key *key)
{
    uint64_t seed = any_seed();
    struct known_cluster *known = find_known(&key->endpoints);
    link->key = *key;
    if (known == NULL ||
        copy_endpoints(&key->endpoints, &link->key.endpoints) != 0) {
        return HASP_ENOMEM;
    }
    int error = cluster_conn_init(&link->conn, &key->endpoints, seed);
    if (error != 0) {
        endpoints_done(&link->key.endpoints);
        return error;
    }
    link->conn.known = known;
    /* Each process starts at another endpoint, or all would choose the first of
     * the same list. */
    cluster_conn_begin_at(&link->conn, (uint32_t)(seed >> 33));
    transport_init(&link->transport, &link->conn, key->shown);
    list_init(&link->in_links);
    list_init(&link->sessions);
    list_init(&link->interrupts);
    pthread_mutex_init(&link->mutex, NULL);
    link->timer_fd = -1;
    return 0;
}

/* Frees all parts but the mutex. */
static void link_free_parts(struct link *link)
{
    transport_done(&link->transport);
    cluster_conn_done(&link->conn);
    endpoints_done(&link->key.endpoints);
}

void link_free(struct link *link)
{
    link_free_parts(link);
    pthread_mutex_destroy(&link->mutex);
    free(link);
}

static int make_link(const struct link_key *key,
                     const struct link_driver *driver, struct link **ret_link)
{
    struct link *link = calloc(1, driver->size);
    if (link == NULL || link_init(link, key) != 0) {
        free(link);
        return why_set(HASP_ENOMEM, "out of memory");
    }
    link->driver = driver;
    int error = driver->start(link);
    if (error != 0) {
        link_free(link);
        return error;
    }
    /* Only a link that has started is found by others. */
    if (!key->is_own && registry.is_shared) {
        list_push_back(&registry.links, &link->in_links);
    }
    *ret_link = link;
    return 0;
}

int link_join(const struct link_key *key, const struct link_driver *driver,
              struct link **ret_link)
{
    int error = 0;
    pthread_once(&registry.once, link_init_registry);
    pthread_mutex_lock(&registry.mutex);
    struct link *link = key->is_own ? NULL : link_find_link(key);
    if (link == NULL) {
        error = make_link(key, driver, &link);
    }
    if (error == 0) {
        link->use_count++;
        *ret_link = link;
    }
    pthread_mutex_unlock(&registry.mutex);
    return error;
}

bool link_fill(struct link *link)
{
    pthread_mutex_lock(&registry.mutex);
    list_remove(&link->in_links);
    bool has_others = link->use_count > 1;
    pthread_mutex_unlock(&registry.mutex);
    return has_others;
}

/* Gives up the link 'count' times; true if no user is left. */
static bool link_give_up(struct link *link, uint32_t count)
{
    CHECK(link->use_count >= count);
    link->use_count -= count;
    if (link->use_count == 0) {
        list_remove(&link->in_links);
    }
    return link->use_count == 0;
}

bool link_forget(struct link *link, uint32_t count)
{
    pthread_mutex_lock(&registry.mutex);
    bool is_last = link_give_up(link, count);
    pthread_mutex_unlock(&registry.mutex);
    return is_last;
}

void link_leave(struct link *link)
{
    if (link_forget(link, 1)) {
        link->driver->stop(link);
    }
}

void link_abandon(struct link *link, bool is_whole)
{
    /* The neighbours in the list are the parent's. */
    list_init(&link->in_links);
    link->use_count -= is_whole ? session_free_orphans(link, true)
                                : link->orphan_count;
    link->orphan_count = 0;
    if (!link_give_up(link, 1)) {
        return;
    }
    if (link->timer_fd >= 0) {
        close(link->timer_fd);
    }
    if (is_whole) {
        link_free_parts(link);
        free(link);
    } else if (link->transport.fd >= 0) {
        close(link->transport.fd);
    }
}

void link_turn(struct link *link, struct lease_clock now)
{
    if (atomic_exchange(&link->has_interrupted, false)) {
        LIST_FOR (struct hasp_session, session, &link->sessions, in_link) {
            session_interrupt(session, now);
        }
    }
    cluster_conn_turn(&link->conn, now);
}
