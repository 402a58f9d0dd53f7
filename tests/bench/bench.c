/* SPDX-License-Identifier: MIT */

/* A load generator: how many locks a second, how long each takes.
 *
 *     bench MODE --endpoints HOST:PORT|unix:/PATH,... [--clients N]
 *           [--seconds S] [--pids PID,PID,...] [--any] [--connections C]
 *           [--tls DIR]
 *
 * Modes: 'cycle', each client acquires and releases its own lock in a closed
 * loop; 'handover', all clients wait for one lock, and each releases it at
 * once; 'idle', the clients hold sessions and only keep them alive. All clients
 * run in one thread on epoll, each with its own connection and session (idle:
 * 100 sessions a connection). They connect to the leader, or to all nodes in
 * turn with --any; by TLS with the ca.crt of --tls. With --pids, the CPU time
 * that those processes used is printed per 1000 cycles.
 *
 * It prints one line. It also checks what it measures: tokens must grow, and
 * every answer must be of the expected kind. */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/memory.h"
#include "net/resp.h"
#include "net/tls.h"

#define ENDPOINT_MAX 16
#define PID_MAX 16
#define BUCKETS 4096
#define IDLE_SESSIONS_PER_CLIENT 100

enum mode { MODE_CYCLE, MODE_HANDOVER, MODE_IDLE };

enum state { OPENING, READY, ACQUIRING, RELEASING, KEEPING, RESTING };

/* A connection, plain or TLS. */
struct line {
    int fd;
    struct tls *tls; /* NULL: plain. */
};

/* Requests are sent once a turn; answers arrive in the order of the
 * requests. */
struct link {
    struct line line;
    struct buffer input;
    struct buffer output;
    uint32_t *asker; /* Ring of the clients that wait for an answer. */
    uint32_t first;
    uint32_t count;
    uint32_t capacity;
};

struct client {
    struct link *link;
    uint32_t number;
    enum state state;
    char session[32];
    uint64_t sent_ns;
    uint64_t token;
    struct buffer keep; /* MODE_IDLE: one KEEP for all sessions. */
    uint32_t opened;
    uint64_t next_keep_ns;
};

/* Latencies in buckets of 1/16 of a power of two, from 1 microsecond. */
struct histogram {
    uint64_t count[BUCKETS];
    uint64_t total;
};

static struct {
    enum mode mode;
    const char *endpoint[ENDPOINT_MAX];
    uint32_t endpoint_count;
    int pid[PID_MAX];
    uint32_t pid_count;
    uint32_t clients;
    uint32_t connections; /* 0: one for each client. */
    double seconds;
    struct tls_context *context; /* NULL: plain. */
    bool any;
    bool is_measuring;
    uint64_t cycles;
    uint64_t keeps;
    uint64_t last_token;
    struct histogram latency;
} bench = {.clients = 1, .seconds = 5};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

_Noreturn static void die(const char *what, struct bytes bytes)
{
    fprintf(stderr, "bench: %s: %.*s\n", what, (int)bytes.size,
            (const char *)bytes.data);
    exit(1);
}

static void histogram_add(struct histogram *histogram, uint64_t ns)
{
    uint64_t us16 = ns * 16 / 1000;
    uint32_t bucket = (uint32_t)us16;
    if (us16 >= 32) {
        int shift = 63 - __builtin_clzll(us16) - 4;
        bucket = (uint32_t)(shift * 16) + (uint32_t)(us16 >> shift);
    }
    histogram->count[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    histogram->total++;
}

static double histogram_us(const struct histogram *histogram, double part)
{
    uint64_t wanted = (uint64_t)((double)histogram->total * part), seen = 0;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        seen += histogram->count[i];
        if (seen > wanted) {
            uint32_t shift = i < 32 ? 0 : i / 16 - 1;
            return (double)((uint64_t)(i - 16 * shift) << shift) / 16;
        }
    }
    return 0;
}

static int dial_path(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        die(strerror(errno), bytes_of_text(path));
    }
    return fd;
}

static int dial(const char *endpoint)
{
    if (strncmp(endpoint, "unix:", 5) == 0) {
        return dial_path(endpoint + 5);
    }
    char host[128];
    const char *colon = strrchr(endpoint, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int one = 1;
    if (colon == NULL || (size_t)(colon - endpoint) >= sizeof host) {
        die("bad endpoint", bytes_of_text(endpoint));
    }
    memcpy(host, endpoint, (size_t)(colon - endpoint));
    host[colon - endpoint] = '\0';
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0) {
        die("cannot resolve", bytes_of_text(endpoint));
    }
    int fd = socket(found->ai_family, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        die(strerror(errno), bytes_of_text(endpoint));
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    freeaddrinfo(found);
    return fd;
}

static void send_all(int fd, struct bytes bytes)
{
    while (bytes.size > 0) {
        ssize_t sent = send(fd, bytes.data, bytes.size, MSG_NOSIGNAL);
        if (sent < 0) {
            die("send", bytes_of_text(strerror(errno)));
        }
        bytes.data += sent;
        bytes.size -= (size_t)sent;
    }
}

static void line_send(struct line *line, struct bytes bytes)
{
    if (line->tls == NULL) {
        send_all(line->fd, bytes);
        return;
    }
    struct buffer *out = tls_output(line->tls);
    if (bytes.size > 0 && tls_write(line->tls, bytes) != 0) {
        die("tls", bytes_of_text(tls_why(line->tls)));
    }
    send_all(line->fd, buffer_bytes(out));
    buffer_clear(out);
}

/* Waits for bytes and appends them; false when the connection has ended. */
static bool line_receive(struct line *line, struct buffer *input)
{
    static uint8_t cipher[65536];
    uint8_t *room = buffer_reserve(input, sizeof cipher);
    ssize_t got = recv(line->fd, line->tls == NULL ? room : cipher,
                       sizeof cipher, 0);
    if (got <= 0) {
        return false;
    }
    if (line->tls == NULL) {
        input->size += (size_t)got;
        return true;
    }
    int status = tls_feed(line->tls, bytes_of(cipher, (size_t)got));
    while (status == 0) {
        size_t size = 0;
        status = tls_read(line->tls, buffer_reserve(input, sizeof cipher),
                          sizeof cipher, &size);
        input->size += status == 0 ? size : 0;
    }
    if (status != HASP_EMORE) {
        die("tls", bytes_of_text(tls_why(line->tls)));
    }
    return true;
}

static struct line line_open(const char *endpoint)
{
    struct line line = {.fd = dial(endpoint)};
    uint8_t bytes[65536];
    if (bench.context == NULL) {
        return line;
    }
    line.tls = tls_new(bench.context, false, 0);
    int status;
    while ((status = tls_handshake(line.tls)) == HASP_EMORE) {
        line_send(&line, bytes_of(NULL, 0));
        ssize_t got = recv(line.fd, bytes, sizeof bytes, 0);
        if (got <= 0 || tls_feed(line.tls, bytes_of(bytes, (size_t)got)) != 0) {
            die("handshake", bytes_of_text(endpoint));
        }
    }
    if (status != 0) {
        die("handshake", bytes_of_text(tls_why(line.tls)));
    }
    line_send(&line, bytes_of(NULL, 0));
    return line;
}

static void put_words(struct buffer *out, int count, const char *const *word)
{
    resp_request_begin(out, (uint64_t)count);
    for (int i = 0; i < count; i++) {
        resp_request_argument(out, bytes_of_text(word[i]));
    }
}

/* The leader's address by a node's status; false: unknown. If the endpoint is a
 * path, only that node itself can say that it leads. */
static bool leads_to(const struct resp_reply *status, const char *endpoint,
                     char ret_address[256])
{
    bool is_path = strncmp(endpoint, "unix:", 5) == 0;
    const struct resp_value *value = resp_find(
        status, 0, is_path ? "role" : "leader_address");
    if (value == NULL || value->bytes.size == 0 ||
        (is_path && !bytes_equal(value->bytes, BYTES_LITERAL("leader")))) {
        return false;
    }
    struct bytes found = is_path ? bytes_of_text(endpoint) : value->bytes;
    snprintf(ret_address, 256, "%.*s", (int)found.size,
             (const char *)found.data);
    return true;
}

/* Asks one node after the other for the leader. */
static char *find_leader(void)
{
    static char address[256];
    struct buffer buffer = {0};
    struct resp_reply reply = {0};
    size_t used;
    const char *const words[] = {"RAFT.STATUS"};
    for (int try = 0; try < 100; try++) {
        const char *endpoint = bench.endpoint[try % (int)bench.endpoint_count];
        struct line line = line_open(endpoint);
        int status = HASP_EMORE;
        buffer_clear(&buffer);
        put_words(&buffer, 1, words);
        line_send(&line, buffer_bytes(&buffer));
        buffer_clear(&buffer);
        while (status == HASP_EMORE && line_receive(&line, &buffer)) {
            status = resp_parse_reply(buffer_bytes(&buffer), 4096, &reply,
                                      &used);
        }
        close(line.fd);
        tls_free(line.tls);
        if (status == 0 && leads_to(&reply, endpoint, address)) {
            buffer_done(&buffer);
            resp_reply_done(&reply);
            return address;
        }
        if (try % (int)bench.endpoint_count == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        }
    }
    die("no leader", bytes_of_text(bench.endpoint[0]));
}

/* The request is in the link's output, which is sent at the end of the turn. */
static void ask(struct client *client, enum state state)
{
    struct link *link = client->link;
    CHECK(link->count < link->capacity);
    link->asker[(link->first + link->count++) % link->capacity] = client
                                                                      ->number;
    client->state = state;
    client->sent_ns = now_ns();
}

static void ask_open(struct client *client)
{
    const char *const words[] = {"SESSION.OPEN", "TTL", "60000", "NAME",
                                 "bench"};
    put_words(&client->link->output, 5, words);
    ask(client, OPENING);
}

/* A name unique to this run: sessions of an earlier run may still hold
 * theirs. */
static void name_of(const struct client *client, char name[64])
{
    snprintf(name, 64, "bench/%d/%u", (int)getpid(),
             bench.mode == MODE_HANDOVER ? 0 : client->number);
}

static void ask_acquire(struct client *client)
{
    char name[64];
    name_of(client, name);
    const char *const words[] = {"LOCK.ACQUIRE",  name,   "SESSION",
                                 client->session, "WAIT", "FOREVER"};
    put_words(&client->link->output, bench.mode == MODE_HANDOVER ? 6 : 4,
              words);
    ask(client, ACQUIRING);
}

static void ask_release(struct client *client)
{
    char name[64];
    name_of(client, name);
    const char *const words[] = {"LOCK.RELEASE", name, "SESSION",
                                 client->session};
    put_words(&client->link->output, 4, words);
    ask(client, RELEASING);
}

static void ask_keep(struct client *client)
{
    struct buffer *output = &client->link->output;
    resp_request_begin(output, 1 + 2 * client->opened);
    resp_request_argument(output, BYTES_LITERAL("SESSION.KEEP"));
    buffer_put_bytes(output, buffer_bytes(&client->keep));
    ask(client, KEEPING);
}

static void opened(struct client *client, const struct resp_reply *reply)
{
    const struct resp_value *id = resp_find(reply, 0, "id");
    const struct resp_value *secret = resp_find(reply, 0, "secret");
    char number[32];
    CHECK(id != NULL && secret != NULL);
    if (id->type == RESP_INTEGER) {
        snprintf(number, sizeof number, "%" PRId64, id->integer);
    } else {
        snprintf(number, sizeof number, "%.*s", (int)id->bytes.size,
                 (const char *)id->bytes.data);
    }
    client->opened++;
    snprintf(client->session, sizeof client->session, "%s", number);
    if (bench.mode != MODE_IDLE) {
        client->state = READY;
        return;
    }
    resp_request_argument(&client->keep, bytes_of_text(number));
    resp_request_argument(&client->keep, secret->bytes);
    if (client->opened < IDLE_SESSIONS_PER_CLIENT) {
        ask_open(client);
    } else {
        /* Spread over the interval, as independent clients would be. */
        client->next_keep_ns = now_ns() + (uint64_t)client->number *
                                              10000000000u / bench.clients;
        client->state = RESTING;
    }
}

/* Checks one complete reply, and starts the next request. */
static void answered(struct client *client, const struct resp_reply *reply)
{
    const struct resp_value *value = &reply->value[0];
    if (value->type == RESP_ERROR) {
        die("the server answered", value->bytes);
    }
    switch (client->state) {
    case OPENING:
        opened(client, reply);
        break;
    case ACQUIRING:
        if (value->type != RESP_INTEGER ||
            (uint64_t)value->integer <= client->token) {
            die("not a larger token", bytes_of_text("LOCK.ACQUIRE"));
        }
        client->token = (uint64_t)value->integer;
        if (bench.mode == MODE_HANDOVER) {
            CHECK(client->token > bench.last_token);
            bench.last_token = client->token;
        }
        if (bench.is_measuring) {
            histogram_add(&bench.latency, now_ns() - client->sent_ns);
        }
        ask_release(client);
        break;
    case RELEASING:
        if (value->type != RESP_INTEGER || value->integer != 0) {
            die("not given back", bytes_of_text("LOCK.RELEASE"));
        }
        bench.cycles += bench.is_measuring;
        ask_acquire(client);
        break;
    case KEEPING:
        bench.keeps += client->opened;
        client->next_keep_ns = client->sent_ns + 10000000000u;
        client->state = RESTING;
        break;
    default:
        UNREACHABLE();
    }
}

static void readable(struct link *link, struct client *clients)
{
    static struct resp_reply reply;
    size_t used, done = 0;
    if (!line_receive(&link->line, &link->input)) {
        die("connection lost", bytes_of_text(strerror(errno)));
    }
    while (done < link->input.size) {
        struct bytes rest = bytes_of(link->input.data + done,
                                     link->input.size - done);
        int status = resp_parse_reply(rest, 65536, &reply, &used);
        if (status == HASP_EMORE) {
            break;
        }
        if (status != 0 || link->count == 0) {
            die("bad reply", rest);
        }
        struct client *client = &clients[link->asker[link->first]];
        link->first = (link->first + 1) % link->capacity;
        link->count--;
        done += used;
        answered(client, &reply);
    }
    buffer_consume(&link->input, done);
}

static void flush(struct link *link)
{
    if (link->output.size > 0) {
        line_send(&link->line, buffer_bytes(&link->output));
        buffer_clear(&link->output);
    }
}

static double cpu_seconds(void)
{
    double sum = 0;
    for (uint32_t i = 0; i < bench.pid_count; i++) {
        char path[64], line[1024];
        unsigned long user = 0, system_time = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", bench.pid[i]);
        FILE *file = fopen(path, "re");
        if (file == NULL || fgets(line, sizeof line, file) == NULL) {
            die("cannot read", bytes_of_text(path));
        }
        fclose(file);
        const char *after = strrchr(line, ')');
        CHECK(after != NULL);
        sscanf(after, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
               &user, &system_time);
        sum += (double)(user + system_time) / (double)sysconf(_SC_CLK_TCK);
    }
    return sum;
}

static void keep_due(struct client *clients)
{
    uint64_t now = now_ns();
    for (uint32_t i = 0; i < bench.clients; i++) {
        if (clients[i].state == RESTING && clients[i].next_keep_ns <= now) {
            ask_keep(&clients[i]);
        }
    }
}

/* Runs the loop until 'until_ns', or until all clients have their sessions. */
static void run(int epoll, struct link *links, struct client *clients,
                uint64_t until_ns)
{
    struct epoll_event events[256];
    for (uint32_t i = 0; i < bench.connections; i++) {
        flush(&links[i]);
    }
    for (;;) {
        uint64_t now = now_ns();
        uint32_t waiting = 0;
        if (until_ns != 0 && now >= until_ns) {
            return;
        }
        if (until_ns == 0) {
            for (uint32_t i = 0; i < bench.clients; i++) {
                waiting += clients[i].state == OPENING;
            }
            if (waiting == 0) {
                return;
            }
        }
        int count = epoll_wait(epoll, events, 256, 10);
        for (int i = 0; i < count; i++) {
            readable(events[i].data.ptr, clients);
        }
        for (int i = 0; i < count; i++) {
            flush(events[i].data.ptr);
        }
        if (bench.mode == MODE_IDLE) {
            keep_due(clients);
            for (uint32_t i = 0; i < bench.connections; i++) {
                flush(&links[i]);
            }
        }
    }
}

static void report(double seconds, double cpu)
{
    static const char *const names[] = {"cycle", "handover", "idle"};
    if (bench.mode == MODE_IDLE) {
        printf("%-8s %6u sessions %9.0f keeps/s %28s", names[bench.mode],
               bench.clients * IDLE_SESSIONS_PER_CLIENT,
               (double)bench.keeps / seconds, "");
        printf(" cpu %.2f cores\n", cpu / seconds);
        return;
    }
    printf("%-8s %6u clients on %4u connections %9.0f cycles/s  acquire p50 "
           "%7.0f us p99 %7.0f us",
           names[bench.mode], bench.clients, bench.connections,
           (double)bench.cycles / seconds, histogram_us(&bench.latency, 0.5),
           histogram_us(&bench.latency, 0.99));
    if (bench.pid_count > 0 && bench.cycles > 0) {
        printf("  cpu %.4f s per 1000", 1000 * cpu / (double)bench.cycles);
    }
    printf("\n");
}

static void load_tls(const char *folder)
{
    char path[4096], why[HASP_WHY_SIZE];
    struct tls_files files = {.ca = path};
    snprintf(path, sizeof path, "%.4000s/ca.crt", folder);
    if (tls_context_load(&files, TLS_AS_CLIENT, NULL, 0, &bench.context, why) !=
        0) {
        die("tls", bytes_of_text(why));
    }
}

static void parse(int argc, char **argv)
{
    static const struct option options[] = {
        {"endpoints", required_argument, NULL, 'e'},
        {"clients", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'},
        {"pids", required_argument, NULL, 'p'},
        {"connections", required_argument, NULL, 'n'},
        {"any", no_argument, NULL, 'a'},
        {"tls", required_argument, NULL, 't'},
        {0}};
    int option;
    char *save = NULL;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'e':
            for (char *at = strtok_r(optarg, ",", &save);
                 at != NULL && bench.endpoint_count < ENDPOINT_MAX;
                 at = strtok_r(NULL, ",", &save)) {
                bench.endpoint[bench.endpoint_count++] = at;
            }
            break;
        case 'c':
            bench.clients = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            bench.seconds = strtod(optarg, NULL);
            break;
        case 'p':
            for (char *at = strtok_r(optarg, ",", &save);
                 at != NULL && bench.pid_count < PID_MAX;
                 at = strtok_r(NULL, ",", &save)) {
                bench.pid[bench.pid_count++] = (int)strtol(at, NULL, 10);
            }
            break;
        case 'n':
            bench.connections = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 't':
            load_tls(optarg);
            break;
        case 'a':
            bench.any = true;
            break;
        default:
            exit(64);
        }
    }
    const char *mode = optind < argc ? argv[optind] : "cycle";
    bench.mode = strcmp(mode, "handover") == 0 ? MODE_HANDOVER
                 : strcmp(mode, "idle") == 0   ? MODE_IDLE
                                               : MODE_CYCLE;
    if (bench.endpoint_count == 0 || bench.clients == 0) {
        fprintf(stderr, "bench: --endpoints and --clients are needed\n");
        exit(64);
    }
    if (bench.connections == 0 || bench.connections > bench.clients) {
        bench.connections = bench.clients;
    }
    if (bench.mode == MODE_HANDOVER && bench.connections < bench.clients) {
        fprintf(stderr, "bench: a connection that waits serves one client\n");
        exit(64);
    }
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    struct rlimit files = {65536, 65536};
    (void)setrlimit(RLIMIT_NOFILE, &files);
    const char *leader = find_leader();
    struct client *clients = memory_new(bench.clients * sizeof *clients);
    struct link *links = memory_new(bench.connections * sizeof *links);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    CHECK(epoll >= 0);
    for (uint32_t i = 0; i < bench.connections; i++) {
        const char *node = bench.endpoint[i % bench.endpoint_count];
        struct link *link = &links[i];
        link->line = line_open(bench.any ? node : leader);
        link->capacity = bench.clients / bench.connections + 1;
        link->asker = memory_new(link->capacity * sizeof *link->asker);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, link->line.fd, &event) == 0);
    }
    for (uint32_t i = 0; i < bench.clients; i++) {
        clients[i].number = i;
        clients[i].link = &links[i % bench.connections];
        ask_open(&clients[i]);
    }
    run(epoll, links, clients, 0);
    if (bench.mode != MODE_IDLE) {
        for (uint32_t i = 0; i < bench.clients; i++) {
            ask_acquire(&clients[i]);
        }
    }
    run(epoll, links, clients, now_ns() + 500000000u);
    double cpu = cpu_seconds();
    uint64_t start = now_ns();
    bench.is_measuring = true;
    bench.keeps = 0;
    run(epoll, links, clients, start + (uint64_t)(bench.seconds * 1e9));
    double seconds = (double)(now_ns() - start) / 1e9;
    report(seconds, cpu_seconds() - cpu);
    return 0;
}
