/* SPDX-License-Identifier: MIT */

/* The other members, seen from this machine: do their names have addresses,
 * does each of their ports accept a connection, and after how long. */

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/check.h"
#include "cmd/haspd/machine.h"

/* Limit for the name server, and for all connections together. */
#define NAMES_S 3
#define CONNECT_MS 2000
/* Two ports of each member. */
#define DIAL_MAX (2 * HASP_NODE_MEMBER_MAX)
#define ROUND_TRIPS_PER_ELECTION 10

/* --- Names ---------------------------------------------------------------- */

/* One name, looked up by a thread of its own, since a name server that does not
 * answer can take half a minute. It outlives the check if it is late. */
struct name_lookup {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    bool is_done;
    int error; /* The result of getaddrinfo(). */
    struct sockaddr_storage address;
    socklen_t address_size;
    char host[256];
    char service[8];
};

static void *name_look_up(void *data)
{
    struct name_lookup *lookup = data;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int error = getaddrinfo(lookup->host, lookup->service, &hints, &list);
    pthread_mutex_lock(&lookup->mutex);
    lookup->is_done = true;
    lookup->error = error;
    if (error == 0 && list->ai_addrlen <= sizeof lookup->address) {
        memcpy(&lookup->address, list->ai_addr, list->ai_addrlen);
        lookup->address_size = list->ai_addrlen;
    }
    pthread_cond_signal(&lookup->done);
    pthread_mutex_unlock(&lookup->mutex);
    if (list != NULL) {
        freeaddrinfo(list);
    }
    return NULL;
}

/* The first address of "host:port"; NULL, or why there is none. */
static const char *machine_resolve(const char *text,
                                   struct sockaddr_storage *ret,
                                   socklen_t *ret_size)
{
    uint16_t port;
    pthread_t thread;
    struct timespec until;
    /* Left alone if it is late: the thread still writes to it. */
    struct name_lookup *lookup = calloc(1, sizeof *lookup);
    CHECK(lookup != NULL);
    if (address_split(text, lookup->host, sizeof lookup->host, &port) != 0) {
        free(lookup);
        return "invalid address";
    }
    snprintf(lookup->service, sizeof lookup->service, "%u", port);
    pthread_mutex_init(&lookup->mutex, NULL);
    pthread_cond_init(&lookup->done, NULL);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += NAMES_S;
    if (pthread_create(&thread, NULL, name_look_up, lookup) != 0) {
        free(lookup);
        return "cannot start a thread";
    }
    pthread_detach(thread);
    pthread_mutex_lock(&lookup->mutex);
    int late = 0;
    while (!lookup->is_done && late == 0) {
        late = pthread_cond_timedwait(&lookup->done, &lookup->mutex, &until);
    }
    bool is_done = lookup->is_done;
    const char *why = !is_done             ? "the name server does not answer"
                      : lookup->error != 0 ? gai_strerror(lookup->error)
                                           : NULL;
    *ret = lookup->address;
    *ret_size = lookup->address_size;
    pthread_mutex_unlock(&lookup->mutex);
    return why;
}

static const struct hasp_node_member *
other_member(const struct machine_checks *machine, uint32_t i)
{
    const struct hasp_node_member *member = &machine->options->members[i];
    return member->id != machine->options->id ? member : NULL;
}

static void check_name(struct machine_checks *machine, uint64_t id,
                       const char *address)
{
    struct sockaddr_storage found;
    socklen_t size;
    const char *why = machine_resolve(address, &found, &size);
    if (why != NULL) {
        machine_report(machine, MACHINE_FAIL,
                       "correct the member line, /etc/hosts or the name server "
                       "(getent hosts NAME)",
                       "node %llu: %s: %s", (unsigned long long)id, address,
                       why);
    }
}

void machine_names(struct machine_checks *machine)
{
    for (uint32_t i = 0; i < machine->options->member_count; i++) {
        const struct hasp_node_member *member = &machine->options->members[i];
        check_name(machine, member->id, member->peer_address);
        if (machine->worst_of_check == MACHINE_OK) {
            check_name(machine, member->id, member->client_address);
        }
    }
}

/* --- Ports ---------------------------------------------------------------- */

struct dial {
    uint64_t id;
    const char *address;
    const char *port; /* "peer" or "client". */
    int fd;           /* -1: over. */
    int error;        /* ETIMEDOUT until it is over. */
    double began_ms, took_ms;
};

static void dial_end(struct dial *dial, int error)
{
    dial->error = error;
    dial->took_ms = machine_now_ms() - dial->began_ms;
    close(dial->fd);
    dial->fd = -1;
}

static bool dial_begin(struct dial *dial)
{
    struct sockaddr_storage to;
    socklen_t size;
    dial->fd = -1;
    if (machine_resolve(dial->address, &to, &size) != NULL) {
        return false; /* The check of names reports it. */
    }
    dial->error = ETIMEDOUT;
    dial->fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                      0);
    dial->began_ms = machine_now_ms();
    if (dial->fd < 0) {
        dial->error = errno;
    } else if (connect(dial->fd, (struct sockaddr *)&to, size) == 0) {
        dial_end(dial, 0);
    } else if (errno != EINPROGRESS) {
        dial_end(dial, errno);
    }
    return true;
}

/* Waits for all of them together. */
static void dial_all(struct dial *dials, size_t count)
{
    double end_ms = machine_now_ms() + CONNECT_MS;
    for (;;) {
        struct pollfd wait[DIAL_MAX];
        size_t waiting = 0;
        double left_ms = end_ms - machine_now_ms();
        for (size_t i = 0; i < count; i++) {
            wait[i] = (struct pollfd){.fd = dials[i].fd, .events = POLLOUT};
            waiting += dials[i].fd >= 0;
        }
        if (waiting == 0 || left_ms <= 0 ||
            poll(wait, count, (int)left_ms + 1) < 0) {
            break;
        }
        for (size_t i = 0; i < count; i++) {
            int error = 0;
            socklen_t size = sizeof error;
            if (dials[i].fd >= 0 && wait[i].revents != 0) {
                (void)getsockopt(dials[i].fd, SOL_SOCKET, SO_ERROR, &error,
                                 &size);
                dial_end(&dials[i], error);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (dials[i].fd >= 0) {
            dial_end(&dials[i], ETIMEDOUT);
        }
    }
}

void machine_ports(struct machine_checks *machine)
{
    struct dial dials[DIAL_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < machine->options->member_count; i++) {
        const struct hasp_node_member *member = other_member(machine, i);
        if (member == NULL) {
            continue;
        }
        const char *addresses[] = {member->peer_address,
                                   member->client_address};
        for (size_t port = 0; port < 2 && count < DIAL_MAX; port++) {
            dials[count] = (struct dial){.id = member->id,
                                         .address = addresses[port],
                                         .port = port == 0 ? "peer" : "client"};
            count += dial_begin(&dials[count]);
        }
    }
    dial_all(dials, count);
    for (size_t i = 0; i < count; i++) {
        if (dials[i].error != 0) {
            machine_report(
                machine, MACHINE_WARN,
                "start haspd there, or open this port in the "
                "firewalls of both machines",
                "the %s port of node %llu, %s, cannot be reached from "
                "here: %s",
                dials[i].port, (unsigned long long)dials[i].id,
                dials[i].address, strerror(dials[i].error));
        } else if (dials[i].took_ms > machine->round_trip_max_ms) {
            machine->round_trip_max_ms = dials[i].took_ms;
        }
    }
}

void machine_election(struct machine_checks *machine)
{
    double worst_ms = machine->round_trip_max_ms;
    double election_ms = (double)machine->options->election_ms;
    if (worst_ms * ROUND_TRIPS_PER_ELECTION > election_ms) {
        machine_report(machine, MACHINE_WARN,
                       "raise raft.election_ms at all nodes, or mend the link",
                       "connecting to the farthest member took %.1f ms; "
                       "raft.election_ms = %.0f should be ten times as long",
                       worst_ms, election_ms);
    }
}
