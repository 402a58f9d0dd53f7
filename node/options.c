/* SPDX-License-Identifier: MIT */

/* Options of a node: defaults, ranges, a deep copy, and the options of the
 * core. */

#include "node/options.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "base/units.h"
#include "core/name_classes.h"
#include "http/fleetlock.h"
#include "net/local.h"
#include "net/stream.h"
#include "net/tls.h"

/* Name of a cluster without cluster.name. */
#define DEFAULT_NAME "hasp"
#define AT(member) offsetof(struct hasp_node_options, member)

/* Of an address, as in settings.def. */
#define ADDRESS_MAX 120

_Static_assert(HASP_NODE_WHY_SIZE == HASP_WHY_SIZE, "one size of messages");
_Static_assert(LOCK_NAME_SIZE_MAX == 511 && VALUE_SIZE_MAX == 4096 &&
                   LOCAL_PATH_MAX == 107,
               "the ranges of settings.def");

static int options_refuse(char why[HASP_NODE_WHY_SIZE], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int options_refuse(char why[HASP_NODE_WHY_SIZE], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, HASP_NODE_WHY_SIZE, format, args);
    va_end(args);
    return HASP_NODE_CONFIG;
}

/* --- The table of settings ------------------------------------------------ */

#define OPTIONAL_U32 false
#define OPTIONAL_U64 false
#define OPTIONAL_SIZE false
#define OPTIONAL_FOUNDING true
#define OPTIONAL_TIME true

static const struct number {
    const char *name;
    size_t offset;
    bool is_long;     /* 8 bytes, not 4. */
    bool is_optional; /* 0: not set. */
    uint64_t min;
    uint64_t max;
    uint64_t standard;
} numbers[] = {
#define NUMBER(section, key, member, kind, min, max, standard) \
    {#section "." #key,                                        \
     AT(member),                                               \
     sizeof((struct hasp_node_options *)0)->member == 8,       \
     OPTIONAL_##kind,                                          \
     min,                                                      \
     max,                                                      \
     standard},
#include "node/settings.def"
};
#define NUMBER_COUNT (sizeof numbers / sizeof numbers[0])

/* The texts, which are copied and freed. */
static const struct text {
    const char *name;
    size_t offset;
    size_t min;
    size_t max;
    const char *standard;
} texts[] = {
#define TEXT(section, key, member, min, max, standard) \
    {#section "." #key, AT(member), min, max, standard},
#include "node/settings.def"
};
#define TEXT_COUNT (sizeof texts / sizeof texts[0])

static const size_t state_limits[LIMIT_COUNT] = {
#define STATE_LIMIT(key, name, min, max, standard) \
    [LIMIT_##key] = AT(limits.name),
#include "lockfsm/limits.def"
#undef STATE_LIMIT
};

static char **options_text_of(struct hasp_node_options *options, size_t i)
{
    return (char **)((char *)options + texts[i].offset);
}

void hasp_node_options_init(struct hasp_node_options *options)
{
    *options = (struct hasp_node_options){.size = sizeof *options,
                                          .http_api = true,
                                          .redirect = HASP_NODE_FORWARD,
                                          .log_level = HASP_NODE_LOG_INFO};
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        void *at = (char *)options + numbers[i].offset;
        if (numbers[i].is_long) {
            *(uint64_t *)at = numbers[i].standard;
        } else {
            *(uint32_t *)at = (uint32_t)numbers[i].standard;
        }
    }
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        *options_text_of(options, i) = (char *)(uintptr_t)texts[i].standard;
    }
}

uint64_t options_state_limit(const struct hasp_node_options *options,
                             enum limit_key key)
{
    CHECK(key < LIMIT_COUNT);
    return *(const uint64_t *)((const char *)options + state_limits[key]);
}

/* --- Checks --------------------------------------------------------------- */

static int check_texts(const struct hasp_node_options *options,
                       char why[HASP_NODE_WHY_SIZE])
{
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        const char *text = *(char *const *)((const char *)options +
                                            texts[i].offset);
        size_t size = text != NULL ? strlen(text) : 0;
        if (size < texts[i].min || size > texts[i].max) {
            return options_refuse(why, "%s must have %zu to %zu characters",
                                  texts[i].name, texts[i].min, texts[i].max);
        }
    }
    return 0;
}

static int check_numbers(const struct hasp_node_options *options,
                         char why[HASP_NODE_WHY_SIZE])
{
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        const struct number *number = &numbers[i];
        const void *at = (const char *)options + number->offset;
        uint64_t value = number->is_long ? *(const uint64_t *)at
                                         : *(const uint32_t *)at;
        if ((value < number->min || value > number->max) &&
            !(number->is_optional && value == 0)) {
            return options_refuse(
                why,
                "%s = %" PRIu64 " is out of range: %" PRIu64 " to %" PRIu64,
                number->name, value, number->min, number->max);
        }
    }
    if (options->election_ms < 3 * options->heartbeat_ms) {
        return options_refuse(why,
                              "raft.election_ms = %" PRIu32
                              " must be at least three times "
                              "raft.heartbeat_ms = %" PRIu32,
                              options->election_ms, options->heartbeat_ms);
    }
    if (options->limits.wal_segment_size % 4096 != 0) {
        return options_refuse(why,
                              "limits.wal_segment_size = %" PRIu64
                              " must be a multiple of 4096",
                              options->limits.wal_segment_size);
    }
    return 0;
}

/* Checks a port's address. Without TLS, any machine that reaches the port could
 * act as the cluster, so only loopback is allowed then. */
static int check_address(const struct hasp_node_options *options,
                         enum hasp_node_tls tls, const char *what,
                         const char *address, char why[HASP_NODE_WHY_SIZE])
{
    char host[128];
    uint16_t port;
    if (address == NULL ||
        address_split(address, host, sizeof host, &port) != 0 ||
        strlen(address) > ADDRESS_MAX || strpbrk(address, ", \t") != NULL) {
        return options_refuse(why, "%s = '%s': expected an address, host:port",
                              what, address == NULL ? "" : address);
    }
    if (!options->is_insecure && tls != HASP_NODE_TLS_REQUIRE &&
        !address_is_loopback(host)) {
        return options_refuse(
            why,
            "%s = '%s' is not a loopback address, and traffic is "
            "not encrypted: anybody on that network could acquire "
            "every lock; use 127.0.0.1, or TLS ([tls] in "
            "haspd.conf, hasp cert), or set 'insecure = yes' in "
            "[security] if the network is trusted",
            what, address);
    }
    return 0;
}

/* A certificate names its cluster, so a cluster with TLS needs a unique
 * name. */
static int check_tls(const struct hasp_node_options *options,
                     char why[HASP_NODE_WHY_SIZE])
{
    bool is_wanted = options->tls_client != HASP_NODE_TLS_OFF ||
                     options->tls_peer != HASP_NODE_TLS_OFF ||
                     options->tls_http != HASP_NODE_TLS_OFF;
    if (!is_wanted) {
        return 0;
    }
    if (options->tls_http == HASP_NODE_TLS_ALLOW) {
        return options_refuse(
            why, "tls.http = allow is not possible, since browsers "
                 "could be redirected to plain HTTP: use off or "
                 "require");
    }
    if (options->tls_dir == NULL &&
        (options->tls_ca == NULL || options->tls_cert == NULL ||
         options->tls_key == NULL)) {
        return options_refuse(why,
                              "TLS needs certificates: set tls.dir to a folder "
                              "with ca.crt, node.crt and node.key (hasp cert "
                              "makes them)");
    }
    if (strcmp(options->cluster_name, DEFAULT_NAME) == 0) {
        return options_refuse(
            why, "TLS needs a unique cluster.name, since certificates name "
                 "their cluster: '" DEFAULT_NAME "' is the default of all");
    }
    if (!tls_word_is_fine(bytes_of_text(options->cluster_name))) {
        return options_refuse(
            why,
            "cluster.name = '%s' cannot be used in a certificate: use "
            "letters, digits, '.', '_' and '-' only",
            options->cluster_name);
    }
    return 0;
}

static int check_replacing(const struct hasp_node_options *options,
                           char why[HASP_NODE_WHY_SIZE])
{
    if (options->replace_empty_ms == 0 ||
        options->tls_peer == HASP_NODE_TLS_REQUIRE) {
        return 0;
    }
    return options_refuse(
        why, "cluster.replace_empty needs tls.peer = require, since otherwise "
             "any process at a member's address could take its place; without "
             "TLS an operator does it: hasp member replace");
}

/* Finds an address that is used twice, as when a member line was copied and not
 * fully edited: a node would listen at another's address, or at one address
 * with both ports. */
static int check_distinct(const struct hasp_node_member *members,
                          uint32_t count, char why[HASP_NODE_WHY_SIZE])
{
    const struct hasp_node_member *last = &members[count - 1];
    for (uint32_t i = 0; i < count; i++) {
        const struct hasp_node_member *other = &members[i];
        const char *twice = NULL;
        if (strcmp(last->peer_address, other->client_address) == 0 ||
            (other != last &&
             strcmp(last->peer_address, other->peer_address) == 0)) {
            twice = last->peer_address;
        } else if (other != last &&
                   (strcmp(last->client_address, other->client_address) == 0 ||
                    strcmp(last->client_address, other->peer_address) == 0)) {
            twice = last->client_address;
        }
        if (twice != NULL) {
            return options_refuse(why,
                                  "address %s is used by members %" PRIu64
                                  " and %" PRIu64
                                  ": each port of each member needs its own",
                                  twice, other->id, last->id);
        }
    }
    return 0;
}

static int options_check_members(const struct hasp_node_options *options,
                                 char why[HASP_NODE_WHY_SIZE])
{
    if (options->member_count > MEMBER_COUNT_MAX) {
        return options_refuse(why, "%u members; at most %d are allowed",
                              options->member_count, MEMBER_COUNT_MAX);
    }
    for (uint32_t i = 0; i < options->member_count; i++) {
        const struct hasp_node_member *member = &options->members[i];
        char what[64];
        if (member->id == 0) {
            return options_refuse(why, "a member has the id 0; ids start at 1");
        }
        for (uint32_t j = 0; j < i; j++) {
            if (options->members[j].id == member->id) {
                return options_refuse(why, "duplicate member %" PRIu64,
                                      member->id);
            }
        }
        snprintf(what, sizeof what, "the peer address of member %" PRIu64,
                 member->id);
        int rv = check_address(options, options->tls_peer, what,
                               member->peer_address, why);
        snprintf(what, sizeof what, "the client address of member %" PRIu64,
                 member->id);
        if (rv == 0) {
            rv = check_address(options, options->tls_client, what,
                               member->client_address, why);
        }
        /* Each member is compared with itself and the earlier ones; the
         * addresses of all of these were checked. */
        rv = rv ?: check_distinct(options->members, i + 1, why);
        if (rv != 0) {
            return rv;
        }
    }
    return 0;
}

/* Port 0 is any free port, so it may be used twice. */
static int check_listeners(const struct hasp_node_options *options,
                           char why[HASP_NODE_WHY_SIZE])
{
    const char *const listeners[][2] = {
        {"listen.client", options->listen_client},
        {"listen.peer", options->listen_peer},
        {"listen.http", options->listen_http},
        {"listen.consul", options->listen_consul}};
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++) {
            const char *one = listeners[j][1], *other = listeners[i][1];
            size_t size = one != NULL ? strlen(one) : 0;
            if (one != NULL && other != NULL && strcmp(one, other) == 0 &&
                strcmp(one + size - 2, ":0") != 0) {
                return options_refuse(why,
                                      "%s and %s are both %s; use two ports",
                                      listeners[j][0], listeners[i][0], one);
            }
        }
    }
    return 0;
}

static int check_fleetlock(const struct hasp_node_options *options,
                           char why[HASP_NODE_WHY_SIZE])
{
    struct bytes wrong;
    char text[BYTES_SHOWN_SIZE];
    if (fleetlock_is_valid(options->http_fleetlock, &wrong)) {
        return 0;
    }
    return options_refuse(why,
                          "http.fleetlock has '%s'; use GROUP:N, where GROUP "
                          "has letters, digits, '.' and '-', N is from 1 to "
                          "%d, and no group is named twice",
                          bytes_shown(wrong, text), FLEETLOCK_SLOTS_MAX);
}

static int check_classes(const struct hasp_node_options *options,
                         char why[HASP_NODE_WHY_SIZE])
{
    struct bytes wrong;
    char text[BYTES_SHOWN_SIZE];
    if (name_classes_are_valid(options->metrics_class, &wrong)) {
        return 0;
    }
    return options_refuse(why,
                          "metrics.class has '%s'; use at most %d prefixes of "
                          "lock names, each once, of printable ASCII without "
                          "'\"' and '\\', at most %d bytes, and not '%s'",
                          bytes_shown(wrong, text), NAME_CLASS_COUNT_MAX,
                          NAME_CLASS_SIZE_MAX, NAME_CLASS_OTHER);
}

static int check_path(const char *path, char why[HASP_NODE_WHY_SIZE])
{
    if (path == NULL || (path[0] == '/' && strpbrk(path, ", \t") == NULL)) {
        return 0;
    }
    return options_refuse(
        why,
        "listen.local = '%s': expected the path of a socket, which begins "
        "with '/' and has no blanks or commas",
        path);
}

int hasp_node_options_check(const struct hasp_node_options *options,
                            char why[HASP_NODE_WHY_SIZE])
{
    /* Before anything else: with another size, no other member can be read. */
    if (options->size != sizeof *options) {
        return options_refuse(why,
                              "the program was compiled with the header of "
                              "another version of hasp: compile it again");
    }
    if (options->id == 0) {
        return options_refuse(why, "no id: the node needs an id, 1 or greater "
                                   "(node.id)");
    }
    if (options->directory == NULL || options->directory[0] == '\0') {
        return options_refuse(why, "no data directory: the node needs a data "
                                   "directory (node.dir)");
    }
    int rv = check_texts(options, why);
    rv = rv ?: check_numbers(options, why);
    rv = rv ?: check_tls(options, why);
    rv = rv ?: check_replacing(options, why);
    if (rv == 0) {
        rv = check_address(options, options->tls_client, "listen.client",
                           options->listen_client, why);
    }
    if (rv == 0) {
        rv = check_address(options, options->tls_peer, "listen.peer",
                           options->listen_peer, why);
    }
    rv = rv ?: check_path(options->listen_local, why);
    if (rv == 0 && options->listen_http != NULL) {
        rv = check_address(options, options->tls_http, "listen.http",
                           options->listen_http, why);
    }
    if (rv == 0 && options->listen_consul != NULL) {
        rv = check_address(options, options->tls_http, "listen.consul",
                           options->listen_consul, why);
    }
    rv = rv ?: check_listeners(options, why);
    rv = rv ?: check_fleetlock(options, why);
    rv = rv ?: check_classes(options, why);
    return rv ?: options_check_members(options, why);
}

void options_copy(struct hasp_node_options *to,
                  const struct hasp_node_options *from)
{
    *to = *from;
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        char **text = options_text_of(to, i);
        *text = *text == NULL ? NULL : memory_text(*text);
    }
    struct hasp_node_member *members = memory_new((from->member_count + 1) *
                                                  sizeof *members);
    for (uint32_t i = 0; i < from->member_count; i++) {
        members[i] = (struct hasp_node_member){
            .id = from->members[i].id,
            .peer_address = memory_text(from->members[i].peer_address),
            .client_address = memory_text(from->members[i].client_address)};
    }
    to->members = members;
}

void options_done(struct hasp_node_options *options)
{
    for (uint32_t i = 0; i < options->member_count; i++) {
        free((void *)(uintptr_t)options->members[i].peer_address);
        free((void *)(uintptr_t)options->members[i].client_address);
    }
    free((void *)(uintptr_t)options->members);
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        free(*options_text_of(options, i));
    }
    *options = (struct hasp_node_options){0};
}

static int compare_members(const void *a, const void *b)
{
    const struct replica_member *left = a;
    const struct replica_member *right = b;
    return u64_order(left->id, right->id);
}

void options_members(const struct hasp_node_options *options,
                     struct replica_members *ret_members)
{
    struct hasp_node_member alone = {.id = options->id,
                                     .peer_address = options->listen_peer,
                                     .client_address = options->listen_client};
    const struct hasp_node_member *member = options->member_count == 0
                                                ? &alone
                                                : options->members;
    uint32_t count = options->member_count == 0 ? 1 : options->member_count;
    *ret_members = (struct replica_members){.count = count};
    for (uint32_t i = 0; i < count; i++) {
        struct replica_member *to = &ret_members->member[i];
        to->id = member[i].id;
        to->role = MEMBER_VOTER;
        int size = snprintf(to->address, sizeof to->address, "%s,%s",
                            member[i].peer_address, member[i].client_address);
        CHECK(size < (int)sizeof to->address);
    }
    /* All founders have to encode the same first entry, whatever the order of
     * their configuration. */
    qsort(ret_members->member, count, sizeof ret_members->member[0],
          compare_members);
}

static bool is_here(const char *address)
{
    char host[128];
    uint16_t port;
    return address == NULL ||
           (address_split(address, host, sizeof host, &port) == 0 &&
            address_is_loopback(host));
}

bool options_are_hidden(const struct hasp_node_options *options)
{
    bool is_elsewhere = false;
    for (uint32_t i = 0; i < options->member_count; i++) {
        if (options->members[i].id == options->id) {
            return false;
        }
        is_elsewhere |= !is_here(options->members[i].peer_address);
    }
    return is_elsewhere && is_here(options->listen_peer);
}

bool options_require_access(const struct hasp_node_options *options)
{
    return options->access == HASP_NODE_ACCESS_REQUIRED ||
           (options->access == HASP_NODE_ACCESS_AUTO && !options->is_insecure &&
            !is_here(options->listen_client));
}

void options_for_core(const struct hasp_node_options *options,
                      struct core_options *ret_options)
{
    /* hasp_node_options_check() has accepted the options. */
    CHECK(options->id != 0);
    const struct hasp_node_limits *limits = &options->limits;
    *ret_options = (struct core_options){
        .id = options->id,
        .trusted = options->trusted,
        .election_ms = options->election_ms,
        .heartbeat_ms = options->heartbeat_ms,
        .finalizes_itself = options->finalizes_itself,
        .slow_ms = options->slow_ms,
        .classes = options->metrics_class,
        .replace_empty_ns = options->replace_empty_ms * NS_PER_MS,
        .believes_plain_peers = options->is_insecure &&
                                options->tls_peer != HASP_NODE_TLS_REQUIRE,
        .takes_secrets_in_clear = options->is_insecure,
        .founds_access_required = options_require_access(options),
        .redirect = options->redirect == HASP_NODE_MOVED ? REDIRECT_MOVED
                                                         : REDIRECT_FORWARD,
        .allows_del = options->allows_del,
        .allows_no_ttl = options->allows_no_ttl,
        .renews_same_value = options->renews_same_value,
        .limits =
            {
#define CORE_LIMIT(kind, name, min, max, standard) .name = limits->name,
#include "core/limits.def"
#undef CORE_LIMIT
            },
        .version = HASP_VERSION,
        .listen_peer = options->listen_peer,
        .listen_client = options->listen_client};
    for (int key = 0; key < LIMIT_COUNT; key++) {
        ret_options->limits.founding.of[key] = options_state_limit(
            options, (enum limit_key)key);
    }
}

void options_tell_limits(const struct hasp_node_options *options,
                         const struct lockfsm *fsm)
{
    for (int i = 0; i < LIMIT_COUNT; i++) {
        enum limit_key key = (enum limit_key)i;
        uint64_t given = options_state_limit(options, key);
        uint64_t value = lockfsm_limit(fsm, key);
        if (given != 0 && given != value) {
            LOG_WARN("limit of the configuration is ignored",
                     "limits.%s=%" PRIu64 " cluster=%" PRIu64
                     " hint=\"it applies only when a cluster is founded; 'hasp "
                     "limits set %s VALUE' changes it for all nodes\"",
                     limit_rules[key].name, given, value,
                     limit_rules[key].name);
        }
    }
}
