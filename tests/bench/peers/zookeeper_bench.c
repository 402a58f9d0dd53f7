/* SPDX-License-Identifier: MIT */

/* Locks of ZooKeeper by its C client, after the recipe of its documentation: an
 * ephemeral sequential node; the children; the first has the lock, the others
 * watch the one before them; deleting the node releases the lock.
 *
 * All sessions run in one thread, on the client without threads. */

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

#include "tests/bench/peers/measure.h"

#define SESSION_MS 30000
/* Interval of the check of each session's timers. */
#define TEND_NS 500000000u

struct client {
    zhandle_t *zookeeper;
    int fd; /* In the epoll set; -1: none yet. */
    uint32_t number;
    bool is_ready;
    char folder[64];
    char node[128]; /* Its own, with the folder. */
    uint64_t asked_ns;
};

static struct measure measure;
static uint32_t ready_count;

static void acquire(struct client *client);
static void look(struct client *client);

static void must(int status, const char *what)
{
    if (status != ZOK) {
        fprintf(stderr, "zookeeper_bench: %s: %s\n", what, zerror(status));
        exit(1);
    }
}

static void deleted(int status, const void *data)
{
    must(status, "delete");
    acquire((struct client *)data);
}

static void predecessor_gone(zhandle_t *zookeeper, int type, int state,
                             const char *path, void *data)
{
    (void)zookeeper;
    (void)state;
    (void)path;
    if (type == ZOO_DELETED_EVENT) {
        look(data);
    }
}

static void predecessor_looked_at(int status, const struct Stat *stat,
                                  const void *data)
{
    (void)stat;
    if (status == ZNONODE) {
        look((struct client *)data); /* It has disappeared meanwhile. */
    } else {
        must(status, "exists");
    }
}

/* The sequence is what the recipe sorts by: the last ten digits. */
static const char *sequence_of(const char *node)
{
    return node + strlen(node) - 10;
}

static void children_told(int status, const struct String_vector *children,
                          const void *data)
{
    struct client *client = (struct client *)data;
    const char *before = NULL;
    char path[256];
    must(status, "children");
    for (int i = 0; i < children->count; i++) {
        const char *one = children->data[i];
        if (strcmp(sequence_of(one), sequence_of(client->node)) < 0 &&
            (before == NULL ||
             strcmp(sequence_of(one), sequence_of(before)) > 0)) {
            before = one;
        }
    }
    if (before == NULL) {
        measure_acquired(&measure, client->asked_ns);
        must(zoo_adelete(client->zookeeper, client->node, -1, deleted, client),
             "delete");
        return;
    }
    snprintf(path, sizeof path, "%s/%s", client->folder, before);
    must(zoo_awexists(client->zookeeper, path, predecessor_gone, client,
                      predecessor_looked_at, client),
         "exists");
}

static void look(struct client *client)
{
    must(zoo_aget_children(client->zookeeper, client->folder, 0, children_told,
                           client),
         "children");
}

static void created(int status, const char *name, const void *data)
{
    struct client *client = (struct client *)data;
    must(status, "create");
    snprintf(client->node, sizeof client->node, "%s", name);
    look(client);
}

static void acquire(struct client *client)
{
    char path[128];
    client->asked_ns = now_ns();
    snprintf(path, sizeof path, "%s/lock-", client->folder);
    must(zoo_acreate(client->zookeeper, path, "", 0, &ZOO_OPEN_ACL_UNSAFE,
                     ZOO_EPHEMERAL | ZOO_SEQUENCE, created, client),
         "create");
}

static void folder_made(int status, const char *name, const void *data)
{
    struct client *client = (struct client *)data;
    (void)name;
    must(status == ZNODEEXISTS ? ZOK : status, "create");
    client->is_ready = true;
    ready_count++;
}

static void session_changed(zhandle_t *zookeeper, int type, int state,
                            const char *path, void *data)
{
    struct client *client = data;
    (void)path;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE &&
        !client->is_ready) {
        must(zoo_acreate(zookeeper, client->folder, "", 0, &ZOO_OPEN_ACL_UNSAFE,
                         0, folder_made, client),
             "create");
    }
}

/* Lets the client do what is due, and schedules its next wakeup. */
static void tend(int epoll, struct client *client, int events)
{
    struct timeval until;
    int fd, interest;
    if (events != 0) {
        int status = zookeeper_process(client->zookeeper, events);
        must(status == ZNOTHING ? ZOK : status, "process");
    }
    must(zookeeper_interest(client->zookeeper, &fd, &interest, &until),
         "interest");
    struct epoll_event event = {
        .events = (interest & ZOOKEEPER_READ ? EPOLLIN : 0) |
                  (interest & ZOOKEEPER_WRITE ? EPOLLOUT : 0),
        .data.ptr = client};
    if (client->fd != fd) {
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
        client->fd = fd;
    } else {
        epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
    }
}

static void turn(int epoll, struct client *clients)
{
    static uint64_t tended_ns;
    struct epoll_event events[256];
    int count = epoll_wait(epoll, events, 256, 10);
    for (int i = 0; i < count; i++) {
        tend(epoll, events[i].data.ptr,
             (events[i].events & EPOLLIN ? ZOOKEEPER_READ : 0) |
                 (events[i].events & EPOLLOUT ? ZOOKEEPER_WRITE : 0));
    }
    if (now_ns() - tended_ns > TEND_NS) {
        for (uint32_t i = 0; i < measure.clients; i++) {
            tend(epoll, &clients[i], 0);
        }
        tended_ns = now_ns();
    }
}

static struct client *start_clients(void)
{
    struct client *clients = calloc(measure.clients, sizeof *clients);
    char servers[1024] = "";
    for (uint32_t i = 0; i < measure.server_count; i++) {
        snprintf(servers + strlen(servers), sizeof servers - strlen(servers),
                 "%s%s", i > 0 ? "," : "", measure.server[i]);
    }
    for (uint32_t i = 0; i < measure.clients; i++) {
        struct client *client = &clients[i];
        client->number = i;
        client->fd = -1;
        snprintf(client->folder, sizeof client->folder, "/bench-%d-%u",
                 (int)getpid(), measure.is_handover ? 0 : i);
        client->zookeeper = zookeeper_init(servers, session_changed, SESSION_MS,
                                           NULL, client, 0);
        if (client->zookeeper == NULL) {
            perror("zookeeper_bench: init");
            exit(1);
        }
    }
    return clients;
}

int main(int argc, char **argv)
{
    struct rlimit files = {65536, 65536};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    measure = measure_of(argc, argv);
    (void)setrlimit(RLIMIT_NOFILE, &files);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    struct client *clients = start_clients();
    while (ready_count < measure.clients) {
        turn(epoll, clients);
    }
    measure_begin(&measure);
    for (uint32_t i = 0; i < measure.clients; i++) {
        acquire(&clients[i]);
        tend(epoll, &clients[i], 0);
    }
    while (now_ns() < measure.end_ns) {
        turn(epoll, clients);
    }
    measure_report(&measure);
    return 0;
}
