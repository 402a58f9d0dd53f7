/* SPDX-License-Identifier: MIT */

/* Finds limits that are each in range but do not fit together: one can never be
 * reached, or another refuses what it allows. A default that becomes pointless
 * because of another setting is not reported. */

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "lockfsm/lockfsm.h"
#include "node/certificates.h"
#include "node/options.h"

struct advising {
    hasp_node_advice_fn *report;
    void *data;
    uint64_t given[LIMIT_COUNT]; /* 0: not set. */
    /* With the defaults for limits that are not set. */
    uint64_t state[LIMIT_COUNT];
};

/* Reports 'value' if it can never be reached because 'max' is less. */
static void lint_bound(const struct advising *advising, const char *name,
                       uint64_t value, const char *bound, uint64_t max)
{
    char text[HASP_NODE_WHY_SIZE];
    if (value > max) {
        snprintf(text, sizeof text,
                 "limits.%s = %" PRIu64 " has no effect: limits.%s = %" PRIu64
                 " is reached first",
                 name, value, bound, max);
        advising->report(advising->data, text);
    }
}

static void compare_states(const struct advising *advising, enum limit_key key,
                           enum limit_key bound)
{
    lint_bound(advising, limit_rules[key].name, advising->given[key],
               limit_rules[bound].name, advising->state[bound]);
}

/* Reports a limit if state_size has no room for that many records of 'least'
 * bytes, the smallest size. */
static void compare_size(const struct advising *advising, enum limit_key key,
                         uint64_t least)
{
    char text[HASP_NODE_WHY_SIZE];
    uint64_t size = advising->state[LIMIT_STATE_SIZE];
    CHECK(least > 0);
    uint64_t room = (size - size / 5) / least;
    if (advising->state[key] > room) {
        snprintf(text, sizeof text,
                 "limits.%s = %" PRIu64 " has no effect: limits.state_size = "
                 "%" PRIu64 " has room for at most %" PRIu64,
                 limit_rules[key].name, advising->state[key], size, room);
        advising->report(advising->data, text);
    }
}

/* Reports access that is required without a way for nodes to identify users. */
static void lint_access(const struct hasp_node_options *options,
                        hasp_node_advice_fn *report, void *data)
{
    if (options_require_access(options) && !options->is_insecure &&
        options->tls_peer != HASP_NODE_TLS_REQUIRE) {
        report(data,
               "security.access = required, but tls.peer is not: without "
               "it nodes cannot know whose request another node forwards, "
               "and refuse it; set tls.peer = require");
    }
}

static void lint_days(const struct advising *advising, const char *what,
                      int64_t days)
{
    char text[HASP_NODE_WHY_SIZE];
    if (days < TLS_SOON_DAYS) {
        snprintf(text, sizeof text,
                 "the certificate of the %s expires in %" PRId64
                 " days: hasp cert renew",
                 what, days);
        advising->report(advising->data, text);
    }
}

/* Reports certificates that cannot be used, or not for long. */
static int lint_certificates(const struct advising *advising,
                             const struct hasp_node_options *options)
{
    char text[HASP_NODE_WHY_SIZE], why[HASP_WHY_SIZE];
    int64_t node_days, ca_days;
    if (certificates_check(options, &node_days, &ca_days, why) == 0) {
        lint_days(advising, "node", node_days);
        lint_days(advising, "CA", ca_days);
        return HASP_NODE_OK;
    }
    snprintf(text, sizeof text,
             "the node does not start with these certificates: %.400s", why);
    advising->report(advising->data, text);
    return HASP_NODE_CONFIG;
}

int hasp_node_options_advise(const struct hasp_node_options *options,
                             hasp_node_advice_fn *report, void *data)
{
    const struct hasp_node_limits *limits = &options->limits;
    struct advising advising = {.report = report, .data = data};
    char text[HASP_NODE_WHY_SIZE];
    struct hasp_node_options standard;
    CHECK(report != NULL);
    lint_access(options, report, data);
    int status = lint_certificates(&advising, options);
    if (options_are_hidden(options)) {
        snprintf(text, sizeof text,
                 "listen.peer = %.120s is reachable on this machine only, and "
                 "node %" PRIu64 " has no member line: the other nodes cannot "
                 "reach it; set listen.peer, and listen.client for the clients",
                 options->listen_peer, options->id);
        report(data, text);
    }
    hasp_node_options_init(&standard);
    for (int key = 0; key < LIMIT_COUNT; key++) {
        uint64_t given = options_state_limit(options, (enum limit_key)key);
        advising.given[key] = given;
        advising.state[key] = given != 0 ? given
                                         : lockfsm_default_limits.of[key];
    }
    compare_states(&advising, LIMIT_WAITS_PER_LOCK, LIMIT_WAITS);
    compare_states(&advising, LIMIT_WAITS_PER_SESSION, LIMIT_WAITS);
    compare_states(&advising, LIMIT_WAITS_PER_SESSION, LIMIT_HOLDS_PER_SESSION);
    compare_states(&advising, LIMIT_OWNERS_PER_SESSION,
                   LIMIT_WAITS_PER_SESSION);
    /* A lock exists only with a hold or a wait. The smallest has a name of one
     * byte and a hold without an owner. */
    compare_size(&advising, LIMIT_LOCKS, 2 * RECORD_SIZE + 1);
    compare_size(&advising, LIMIT_SESSIONS, RECORD_SIZE);
    compare_size(&advising, LIMIT_WAITS, RECORD_SIZE);
    compare_size(&advising, LIMIT_FENCES, RECORD_SIZE + 1);
    if (limits->connections_per_address !=
        standard.limits.connections_per_address) {
        lint_bound(&advising, "connections_per_address",
                   limits->connections_per_address, "connections",
                   limits->connections);
    }
    if (limits->requests_per_conn != standard.limits.requests_per_conn) {
        lint_bound(&advising, "requests_per_conn", limits->requests_per_conn,
                   "requests_in_flight", limits->requests_in_flight);
    }
    if (limits->sessions_per_conn != standard.limits.sessions_per_conn) {
        lint_bound(&advising, "sessions_per_conn", limits->sessions_per_conn,
                   "sessions", advising.state[LIMIT_SESSIONS]);
    }
    if (limits->request_size < limits->value_size + limits->name_size + 1024) {
        snprintf(text, sizeof text,
                 "limits.request_size = %" PRIu32 " has no room for "
                 "limits.value_size = %" PRIu32 ", limits.name_size = %" PRIu32
                 " and options: such a request would close its connection",
                 limits->request_size, limits->value_size, limits->name_size);
        report(data, text);
    }
    return status;
}
