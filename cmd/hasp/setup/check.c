/* SPDX-License-Identifier: MIT */

/* hasp setup --check: what this machine lacks to serve as a node, in the order
 * in which to fix it. */

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/memory.h"
#include "cmd/hasp/setup/node.h"
#include "cmd/hasp/tool.h"

#define CONNECT_MS 2000
#define LINE_SIZE 600

static const struct view_field fields[] = {
    {"what", "WHAT", FIELD_TEXT},
    {"state", "STATE", FIELD_TEXT},
    {"text", "", FIELD_TEXT},
    {0},
};

struct check {
    struct tool *tool;
    json_t *rows;
    size_t missing;
    char id[24];
    char data[PATH_MAX];
};

__attribute__((format(printf, 4, 5))) static bool
check_add(struct check *check, const char *what, bool is_good,
          const char *format, ...)
{
    char text[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_array_append_new(check->rows,
                          json_pack("{s:s, s:s, s:o}", "what", what, "state",
                                    is_good ? "ok" : "missing", "text",
                                    value_of_bytes(bytes_of_text(text))));
    check->missing += !is_good;
    return is_good;
}

/* --- Files and the service ------------------------------------------------ */

static bool check_files(struct check *check)
{
    AUTO(buffer_done) struct buffer said = {0};
    struct node_user as;
    if (!check_add(check, "user", node_find_user(&as),
                   node_find_user(&as) ? NODE_USER
                                       : "no user " NODE_USER
                                         ": install the package haspd")) {
        return false;
    }
    if (access(NODE_CONFIG, F_OK) != 0) {
        return check_add(check, "configuration", false,
                         NODE_CONFIG
                         " is missing: hasp setup creates a file for each "
                         "machine, hasp setup --install FILE installs it here");
    }
    bool is_good = node_ask_haspd(NODE_CONFIG, "--check-config", &said) == 0;
    bool needs_root = !is_good && geteuid() != 0;
    return check_add(check, "configuration", is_good, "%s%s%s", NODE_CONFIG,
                     said.size > 0 ? ": " : "", (const char *)said.data) ||
           (needs_root &&
            check_add(check, "configuration", false,
                      "only root can check all: sudo hasp setup --check"));
}

static void check_service(struct check *check)
{
    AUTO(buffer_done) struct buffer active = {0};
    AUTO(buffer_done) struct buffer enabled = {0};
    if (!node_has_systemd()) {
        return;
    }
    /* A node that waits for the other founders reports readiness to systemd
     * only after they have connected. */
    bool runs = node_ask_systemd("is-active", &active) == 0 ||
                strcmp((const char *)active.data, "activating") == 0;
    check_add(check, "service", runs, "%s%s", (const char *)active.data,
              runs ? "" : ": systemctl start haspd; journalctl -u haspd -n 20");
    bool is_enabled = node_ask_systemd("is-enabled", &enabled) == 0;
    check_add(check, "at boot", is_enabled, "%s%s", (const char *)enabled.data,
              is_enabled ? "" : ": systemctl enable haspd");
}

/* --- The other machines --------------------------------------------------- */

static int finish_connect(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof error;
    if (poll(&wait, 1, CONNECT_MS) == 0) {
        return ETIMEDOUT;
    }
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error
                                                                    : errno;
}

/* 0 if something listens at "host:port"; else an errno, or -1: no such name. */
static int dial(const char *address)
{
    char host[256], service[8];
    uint16_t port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    if (address_split(address, host, sizeof host, &port) != 0) {
        return -1;
    }
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(host, service, &hints, &list) != 0) {
        return -1;
    }
    int error = -1;
    for (const struct addrinfo *at = list; at != NULL && error != 0;
         at = at->ai_next) {
        int fd = socket(at->ai_family,
                        SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        error = fd < 0 || (connect(fd, at->ai_addr, at->ai_addrlen) != 0 &&
                           errno != EINPROGRESS)
                    ? errno
                    : finish_connect(fd);
        if (fd >= 0) {
            close(fd);
        }
    }
    freeaddrinfo(list);
    return error;
}

static void setup_check_member(struct check *check, const char *id,
                               const char *peer, const char *client)
{
    const char *addresses[] = {peer, client};
    char what[40];
    snprintf(what, sizeof what, "node %.20s%s", id,
             strcmp(id, check->id) == 0 ? " (this)" : "");
    for (size_t i = 0; i < 2; i++) {
        int error = dial(addresses[i]);
        if (error != 0) {
            check_add(
                check, what, false,
                "%s: %s; check that haspd is set up there, and its firewall",
                addresses[i], error < 0 ? "no such name" : strerror(error));
            return;
        }
    }
    check_add(check, what, true, "%s and %s", peer, client);
}

/* Reads the lines of 'haspd --print-config'. */
static void check_members(struct check *check)
{
    AUTO(buffer_done) struct buffer printed = {0};
    if (node_ask_haspd(NODE_CONFIG, "--print-config", &printed) != 0) {
        return; /* The configuration was reported as wrong. */
    }
    struct bytes rest = buffer_bytes(&printed);
    while (rest.size > 0) {
        char line[LINE_SIZE], word[PATH_MAX], peer[256], client[256];
        struct bytes bytes = bytes_cut(&rest, '\n');
        snprintf(line, sizeof line, "%.*s", (int)bytes.size,
                 (const char *)bytes.data);
        if (sscanf(line, "id = %23s ;", check->id) == 1) {
            continue;
        }
        /* The first "dir", that of [node]. */
        if (sscanf(line, "dir = %4095s ;", word) == 1 &&
            check->data[0] == '\0') {
            memcpy(check->data, word, sizeof word);
        } else if (sscanf(line, "member = %4095s %255s %255s ;", word, peer,
                          client) == 3) {
            setup_check_member(check, word, peer, client);
        }
    }
}

/* --- The cluster ---------------------------------------------------------- */

/* Uses the admin socket, for which root needs neither certificate nor secret.
 * */
static void check_cluster(struct check *check)
{
    struct endpoint endpoint;
    struct tool by_door = {
        .timeout_ms = check->tool->timeout_ms,
        .endpoints = {.endpoint = &endpoint, .count = 1},
    };
    char why[HASP_WHY_SIZE];
    if (geteuid() != 0) {
        check_add(check, "cluster", false,
                  "only root can ask the node: sudo hasp setup --check");
        return;
    }
    if (endpoint_parse(check->data, strlen(check->data), &endpoint, why) != 0) {
        check_add(check, "cluster", false, "%s", why);
        return;
    }
    bool serves = tool_ask(&by_door, WORDS("LOCK.LIST", "COUNT", "1"), NULL,
                           NULL) == 0;
    check_add(check, "cluster", serves,
              serves ? "there is a leader; the cluster is available"
                     : "no leader yet; a new cluster starts once all its "
                       "machines are set up");
    client_free(by_door.client);
}

int setup_check(struct tool *tool)
{
    json_auto_t *rows = json_array();
    struct check check = {.tool = tool, .rows = rows};
    if (check_files(&check)) {
        check_service(&check);
        check_members(&check);
        if (check.data[0] != '\0') {
            check_cluster(&check);
        }
    }
    output_rows(tool->format, fields, rows);
    return check.missing == 0 ? 0 : EXIT_NO;
}
