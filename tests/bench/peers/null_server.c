/* SPDX-License-Identifier: MIT */

/* A server that only parses and answers: the limit of this machine's sockets.
 * It implements the part of hasp's protocol that tests/bench/bench.c uses,
 * without locks, disk or log.
 *
 *     null_server PORT [FOLDER]
 *
 * With the folder of a node's certificate it accepts only TLS, as a node does
 * from its clients. */

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "net/resp.h"
#include "net/tls.h"

#define FRAME_SIZE_MAX 65536

struct conn {
    int fd;
    struct tls *tls; /* NULL: plain. */
    struct resp_parser parser;
    struct buffer input;
    struct buffer output;
};

static uint64_t token;
static int port;
static struct tls_context *context; /* NULL: plain. */

static void answer(struct conn *conn, const struct resp_request *request)
{
    struct resp_writer writer = {&conn->output, 2};
    char address[32];
    struct bytes word = request->argument[0];
    if (bytes_is_word(word, "RAFT.STATUS")) {
        snprintf(address, sizeof address, "127.0.0.1:%d", port);
        resp_map(&writer, 1);
        resp_key_text(&writer, "leader_address", address);
    } else if (bytes_is_word(word, "SESSION.OPEN")) {
        resp_map(&writer, 2);
        resp_key_integer(&writer, "id", (int64_t)++token);
        resp_key_text(&writer, "secret", "none");
    } else if (bytes_is_word(word, "LOCK.ACQUIRE")) {
        resp_integer(&writer, (int64_t)++token);
    } else {
        resp_integer(&writer, 0);
    }
}

/* Received bytes, decrypted; false: not TLS, or its end. */
static bool decipher(struct conn *conn, struct bytes cipher)
{
    int status = tls_feed(conn->tls, cipher);
    if (status == 0) {
        status = tls_handshake(conn->tls);
    }
    while (status == 0) {
        size_t size = 0;
        status = tls_read(conn->tls,
                          buffer_reserve(&conn->input, FRAME_SIZE_MAX),
                          FRAME_SIZE_MAX, &size);
        conn->input.size += status == 0 ? size : 0;
    }
    return status == HASP_EMORE;
}

/* Waits for bytes and appends them; false when the connection has ended. */
static bool receive(struct conn *conn)
{
    static uint8_t cipher[FRAME_SIZE_MAX];
    uint8_t *room = buffer_reserve(&conn->input, FRAME_SIZE_MAX);
    ssize_t got = recv(conn->fd, conn->tls == NULL ? room : cipher,
                       FRAME_SIZE_MAX, 0);
    if (got > 0 && conn->tls == NULL) {
        conn->input.size += (size_t)got;
    }
    return got > 0 &&
           (conn->tls == NULL || decipher(conn, bytes_of(cipher, (size_t)got)));
}

/* Sends the output; false on failure. */
static bool reply(struct conn *conn)
{
    struct buffer *out = &conn->output;
    if (conn->tls != NULL) {
        out = tls_output(conn->tls);
        if (conn->output.size > 0 &&
            tls_write(conn->tls, buffer_bytes(&conn->output)) != 0) {
            return false;
        }
        buffer_clear(&conn->output);
    }
    if (out->size > 0) {
        send(conn->fd, out->data, out->size, MSG_NOSIGNAL);
        buffer_clear(out);
    }
    return true;
}

/* False when the connection has ended. */
static bool serve(struct conn *conn)
{
    struct resp_request request;
    const char *why;
    size_t used, done = 0;
    if (!receive(conn)) {
        return false;
    }
    while (
        resp_parse(&conn->parser,
                   bytes_of(conn->input.data + done, conn->input.size - done),
                   &request, &used, &why) == 0) {
        answer(conn, &request);
        done += used;
    }
    buffer_consume(&conn->input, done);
    return reply(conn);
}

static int listen_at(int at)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)at),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 4096) != 0) {
        perror("null_server");
        exit(1);
    }
    return fd;
}

static void accept_one(int epoll, int listener)
{
    struct conn *conn = memory_new(sizeof *conn);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    int one = 1;
    conn->fd = accept(listener, NULL, NULL);
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    conn->tls = context != NULL ? tls_new(context, true, 0) : NULL;
    epoll_ctl(epoll, EPOLL_CTL_ADD, conn->fd, &event);
}

static void end(struct conn *conn)
{
    close(conn->fd);
    tls_free(conn->tls);
    buffer_done(&conn->input);
    buffer_done(&conn->output);
    resp_parser_done(&conn->parser);
    free(conn);
}

static void load_tls(const char *folder)
{
    char ca[1024], certificate[1024], key[1024], why[HASP_WHY_SIZE];
    struct tls_files files = {.ca = ca, .certificate = certificate, .key = key};
    snprintf(ca, sizeof ca, "%.1000s/ca.crt", folder);
    snprintf(certificate, sizeof certificate, "%.1000s/node.crt", folder);
    snprintf(key, sizeof key, "%.1000s/node.key", folder);
    if (tls_context_load(&files, TLS_FOR_CLIENTS, "bench", 0, &context, why) !=
        0) {
        fprintf(stderr, "null_server: %s\n", why);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct rlimit files = {65536, 65536};
    struct epoll_event events[256];
    struct epoll_event listening = {.events = EPOLLIN, .data.ptr = NULL};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    (void)setrlimit(RLIMIT_NOFILE, &files);
    uint64_t at;
    if (argc < 2 || argc > 3 || !bytes_to_u64(bytes_of_text(argv[1]), &at) ||
        at > 65535) {
        fprintf(stderr, "usage: null_server PORT [FOLDER]\n");
        return 64;
    }
    if (argc == 3) {
        load_tls(argv[2]);
    }
    port = (int)at;
    int listener = listen_at(port);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &listening);
    for (;;) {
        int count = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < count; i++) {
            struct conn *conn = events[i].data.ptr;
            if (conn == NULL) {
                accept_one(epoll, listener);
            } else if (!serve(conn)) {
                end(conn);
            }
        }
    }
}
