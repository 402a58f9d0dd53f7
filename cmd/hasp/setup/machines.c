/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/setup/machines.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/address.h"
#include "base/memory.h"
#include "cmd/hasp/tool.h"
#include "net/tls.h"

static bool is_host(const char *text)
{
    static const char fine[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    return address_is_number(text) ||
           (text[0] != '\0' && text[strspn(text, fine)] == '\0');
}

/* --- What this machine knows of itself ------------------------------------ */

static bool address_text(const struct sockaddr *address, char ret_text[256])
{
    const void *bytes;
    if (address->sa_family == AF_INET) {
        bytes = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)address;
        if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) {
            return false; /* A link-local address is valid only on its link. */
        }
        bytes = &six->sin6_addr;
    } else {
        return false;
    }
    return inet_ntop(address->sa_family, bytes, ret_text, 256) != NULL;
}

/* The addresses of this machine's interfaces except loopback, each after a
 * blank: IPv4 if there are any, otherwise IPv6. */
static size_t own_addresses(struct buffer *out)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *list = NULL;
    size_t count = 0;
    if (getifaddrs(&list) != 0) {
        return 0;
    }
    for (size_t i = 0; count == 0 && i < 2; i++) {
        for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
            char text[256];
            if (at->ifa_addr != NULL &&
                at->ifa_addr->sa_family == families[i] &&
                (at->ifa_flags & IFF_UP) != 0 &&
                address_text(at->ifa_addr, text) &&
                !address_is_loopback(text)) {
                buffer_printf(out, " %s", text);
                count++;
            }
        }
    }
    freeifaddrs(list);
    return count;
}

/* True if an interface of this machine, loopback aside, has the address. */
static bool is_own_address(const char *address)
{
    struct ifaddrs *list = NULL;
    bool is_own = false;
    if (address_is_loopback(address) || getifaddrs(&list) != 0) {
        return false;
    }
    for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next) {
        char text[256];
        is_own = is_own ||
                 (at->ifa_addr != NULL && address_text(at->ifa_addr, text) &&
                  strcmp(text, address) == 0);
    }
    freeifaddrs(list);
    return is_own;
}

static bool is_own_name(const char *name)
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    if (strcmp(host, name) == 0) {
        return true;
    }
    host[strcspn(host, ".")] = '\0';
    return host[0] != '\0' && strcmp(host, name) == 0;
}

/* --- An address for a name ------------------------------------------------ */

/* The first address of the name that is not loopback, or "". Debian's
 * /etc/hosts gives a machine's own name the address 127.0.1.1. */
static void look_up(const char *name, char ret_address[256])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    ret_address[0] = '\0';
    if (getaddrinfo(name, NULL, &hints, &list) != 0) {
        return;
    }
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        char text[256];
        if (ret_address[0] == '\0' && address_text(at->ai_addr, text) &&
            !address_is_loopback(text)) {
            snprintf(ret_address, 256, "%s", text);
        }
    }
    freeaddrinfo(list);
}

static int find_address(struct machine *machine)
{
    AUTO(buffer_done) struct buffer own = {0};
    look_up(machine->name, machine->address);
    if (machine->address[0] != '\0') {
        return 0;
    }
    if (!is_own_name(machine->name)) {
        return tool_fail(EX_DATAERR,
                         "no address of '%s' is reachable from other machines: "
                         "give it as %s=ADDRESS",
                         machine->name, machine->name);
    }
    size_t count = own_addresses(&own);
    buffer_put_u8(&own, '\0');
    if (count != 1) {
        return tool_fail(EX_DATAERR,
                         "this machine, '%s', has %zu addresses%s%s: give one "
                         "as %s=ADDRESS",
                         machine->name, count, count > 0 ? ":" : "",
                         (const char *)own.data, machine->name);
    }
    snprintf(machine->address, sizeof machine->address, "%.255s",
             (const char *)own.data + 1);
    return 0;
}

/* --- Reading -------------------------------------------------------------- */

/* Reads "10.0.0.1,lock1.lan": the machine listens at the first. */
static int read_hosts(const struct tool *tool, struct machine *machine,
                      const char *text)
{
    char copy[768];
    char *rest = copy;
    if (strlen(text) >= sizeof copy) {
        return tool_usage(tool, "too many addresses of '%s'", machine->name);
    }
    snprintf(copy, sizeof copy, "%s", text);
    for (char *host; (host = strsep(&rest, ",")) != NULL;) {
        if (!is_host(host)) {
            return tool_usage(
                tool,
                "invalid address '%s' of '%s': use an IP address or a name "
                "without a port (clients use %d, nodes %d)",
                host, machine->name, PORT_CLIENT, PORT_PEER);
        }
        if (machine->address[0] == '\0') {
            snprintf(machine->address, sizeof machine->address, "%.255s", host);
        }
    }
    return 0;
}

/* The hosts of its certificate: its address, its name, and ",more". */
static void put_certified(struct machine *machine, const char *more)
{
    AUTO(buffer_done) struct buffer hosts = {0};
    buffer_put_text(&hosts, machine->address);
    if (is_host(machine->name)) {
        buffer_printf(&hosts, ",%s", machine->name);
    }
    buffer_put_text(&hosts, more != NULL ? more : "");
    buffer_put_u8(&hosts, '\0');
    snprintf(machine->hosts, sizeof machine->hosts, "%s",
             (const char *)hosts.data);
}

static int read_machine(const struct tool *tool, const char *word,
                        struct machine *machine)
{
    const char *equals = strchr(word, '=');
    size_t size = equals != NULL ? (size_t)(equals - word) : strlen(word);
    if (size == 0 || size >= sizeof machine->name ||
        !tls_word_is_fine(bytes_of(word, size)) || word[0] == '-') {
        return tool_usage(
            tool,
            "invalid machine '%s': use NAME=ADDRESS[,ADDRESS...], "
            "e.g. lock1=10.0.0.1",
            word);
    }
    snprintf(machine->name, sizeof machine->name, "%.*s", (int)size, word);
    int rv = equals != NULL ? read_hosts(tool, machine, equals + 1)
                            : find_address(machine);
    if (rv == 0) {
        put_certified(machine, equals != NULL ? strchr(equals, ',') : NULL);
    }
    return rv;
}

static int check_pair(const struct tool *tool, const struct machine *a,
                      const struct machine *b)
{
    if (strcmp(a->name, b->name) == 0) {
        return tool_usage(tool, "two machines have the name '%s'", a->name);
    }
    if (strcmp(a->address, b->address) == 0) {
        return tool_usage(tool, "'%s' and '%s' have the same address, %s",
                          a->name, b->name, a->address);
    }
    if (address_is_loopback(a->address) != address_is_loopback(b->address)) {
        const struct machine *lone = address_is_loopback(a->address) ? a : b;
        return tool_usage(tool,
                          "other machines cannot reach '%s' at %s: give "
                          "another address",
                          lone->name, lone->address);
    }
    return 0;
}

/* By name, else by address. */
static void find_here(struct machines *machines)
{
    struct machine *here = NULL;
    for (size_t i = 0; i < machines->count; i++) {
        struct machine *machine = &machines->machine[i];
        if (is_own_name(machine->name)) {
            here = machine;
        }
    }
    for (size_t i = 0; here == NULL && i < machines->count; i++) {
        if (is_own_address(machines->machine[i].address)) {
            here = &machines->machine[i];
        }
    }
    if (here != NULL) {
        here->is_here = true;
    }
}

int machines_read(const struct tool *tool, char *const *words,
                  struct machines *ret_machines)
{
    struct machines machines = {.count = 0};
    for (; words[machines.count] != NULL; machines.count++) {
        if (machines.count == MACHINES_MAX) {
            return tool_usage(tool,
                              "more than %d machines: three or five are usual, "
                              "and others can be clients",
                              MACHINES_MAX);
        }
        struct machine *machine = &machines.machine[machines.count];
        int rv = read_machine(tool, words[machines.count], machine);
        for (size_t i = 0; rv == 0 && i < machines.count; i++) {
            rv = check_pair(tool, &machines.machine[i], machine);
        }
        if (rv != 0) {
            return rv;
        }
    }
    find_here(&machines);
    *ret_machines = machines;
    return 0;
}

void machine_put_address(struct buffer *out, const struct machine *machine,
                         unsigned port)
{
    bool is_six = strchr(machine->address, ':') != NULL;
    buffer_printf(out, "%s%s%s:%u", is_six ? "[" : "", machine->address,
                  is_six ? "]" : "", port);
}
