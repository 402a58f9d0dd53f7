/* SPDX-License-Identifier: MIT */

/* Locks of Redis: SET key value NX PX, and the script that deletes the key if
 * it still has the value. With several servers it is Redlock: the client asks
 * all at once, a majority decides, and a client without a majority releases
 * what it got. A waiting client retries after one to two milliseconds.
 *
 * All clients run in one thread on epoll; each has a connection to each
 * server. */

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/peers/measure.h"

#define RETRY_NS 1000000u

static const char
    script[] = "if redis.call('get',KEYS[1])==ARGV[1] then return "
               "redis.call('del',KEYS[1]) else return 0 end";

enum state { TRYING, GIVING_BACK, RELEASING, RESTING };

struct client;

struct link {
    struct client *client;
    int fd;
};

struct client {
    uint32_t number;
    enum state state;
    struct link link[SERVER_MAX];
    uint32_t left;     /* Outstanding answers. */
    uint32_t got;      /* Positive answers. */
    uint64_t asked_ns; /* Start of the attempts to get the lock. */
    uint64_t retry_ns;
    uint64_t sequence;
};

static struct measure measure;
static char sha[64];

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "redis_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int dial(const char *server)
{
    char host[128];
    const char *colon = strrchr(server, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int one = 1;
    snprintf(host, sizeof host, "%.*s", (int)(colon - server), server);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0) {
        die(server);
    }
    int fd = socket(found->ai_family, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        die(server);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    freeaddrinfo(found);
    return fd;
}

static void send_words(int fd, int count, const char *const *word)
{
    char out[1024];
    int size = snprintf(out, sizeof out, "*%d\r\n", count);
    for (int i = 0; i < count; i++) {
        size += snprintf(out + size, sizeof out - (size_t)size,
                         "$%zu\r\n%s\r\n", strlen(word[i]), word[i]);
    }
    if (send(fd, out, (size_t)size, MSG_NOSIGNAL) != size) {
        die("send");
    }
}

/* One answer: a connection has one request at a time, and all answers are
 * shorter than a segment. */
static void receive(int fd, char line[256])
{
    ssize_t got = recv(fd, line, 255, 0);
    if (got <= 0) {
        die("receive");
    }
    line[got] = '\0';
    if (line[0] == '-' || line[got - 1] != '\n') {
        fprintf(stderr, "redis_bench: %s", line);
        exit(1);
    }
}

static void load_script(const char *server)
{
    char line[256];
    int fd = dial(server);
    send_words(fd, 3, (const char *const[]){"SCRIPT", "LOAD", script});
    receive(fd, line); /* $40, and the digits. */
    snprintf(sha, sizeof sha, "%.40s", strchr(line, '\n') + 1);
    close(fd);
}

static void ask(struct client *client, enum state state)
{
    char key[64], value[64];
    snprintf(key, sizeof key, "bench/%d/%u", (int)getpid(),
             measure.is_handover ? 0 : client->number);
    client->sequence += state == TRYING;
    snprintf(value, sizeof value, "%u-%llu", client->number,
             (unsigned long long)client->sequence);
    client->state = state;
    client->left = measure.server_count;
    client->got = 0;
    for (uint32_t i = 0; i < measure.server_count; i++) {
        if (state == TRYING) {
            send_words(
                client->link[i].fd, 6,
                (const char *const[]){"SET", key, value, "NX", "PX", "30000"});
        } else {
            send_words(client->link[i].fd, 5,
                       (const char *const[]){"EVALSHA", sha, "1", key, value});
        }
    }
}

static void rest(struct client *client)
{
    client->state = RESTING;
    client->retry_ns = now_ns() + RETRY_NS +
                       (uint64_t)random() % (RETRY_NS + 1);
}

/* All servers have answered. */
static void answered(struct client *client)
{
    bool has_majority = client->got > measure.server_count / 2;
    switch (client->state) {
    case TRYING:
        if (has_majority) {
            measure_acquired(&measure, client->asked_ns);
            ask(client, RELEASING);
        } else if (!measure.is_handover) {
            fprintf(stderr, "redis_bench: its own lock is not free\n");
            exit(1);
        } else if (client->got > 0) {
            ask(client, GIVING_BACK);
        } else {
            rest(client);
        }
        return;
    case GIVING_BACK:
        rest(client);
        return;
    case RELEASING:
        client->asked_ns = now_ns();
        ask(client, TRYING);
        return;
    case RESTING:
        return;
    }
}

static void readable(struct link *link)
{
    char line[256];
    struct client *client = link->client;
    receive(link->fd, line);
    client->got += line[0] == '+' || strncmp(line, ":1", 2) == 0;
    if (--client->left == 0) {
        answered(client);
    }
}

static void retry(struct client *clients)
{
    uint64_t now = now_ns();
    for (uint32_t i = 0; i < measure.clients; i++) {
        if (clients[i].state == RESTING && clients[i].retry_ns <= now) {
            ask(&clients[i], TRYING);
        }
    }
}

static struct client *start_clients(int epoll)
{
    struct client *clients = calloc(measure.clients, sizeof *clients);
    for (uint32_t i = 0; i < measure.clients; i++) {
        clients[i].number = i;
        for (uint32_t k = 0; k < measure.server_count; k++) {
            struct link *link = &clients[i].link[k];
            *link = (struct link){&clients[i], dial(measure.server[k])};
            struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
            epoll_ctl(epoll, EPOLL_CTL_ADD, link->fd, &event);
        }
    }
    return clients;
}

int main(int argc, char **argv)
{
    struct rlimit files = {65536, 65536};
    struct epoll_event events[256];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    measure = measure_of(argc, argv);
    (void)setrlimit(RLIMIT_NOFILE, &files);
    for (uint32_t i = 0; i < measure.server_count; i++) {
        load_script(measure.server[i]);
    }
    struct client *clients = start_clients(epoll);
    measure_begin(&measure);
    for (uint32_t i = 0; i < measure.clients; i++) {
        clients[i].asked_ns = now_ns();
        ask(&clients[i], TRYING);
    }
    while (now_ns() < measure.end_ns) {
        int count = epoll_wait(epoll, events, 256, 1);
        for (int i = 0; i < count; i++) {
            readable(events[i].data.ptr);
        }
        if (measure.is_handover) {
            retry(clients);
        }
    }
    measure_report(&measure);
    return 0;
}
