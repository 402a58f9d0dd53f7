/* SPDX-License-Identifier: MIT */

/* hasp member drain: a node without clients and without leadership, which can
 * be stopped without an error at any client. */

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cmd/hasp/nodes.h"
#include "cmd/hasp/tool.h"

/* How long clients and leadership may take to move. */
#define DRAIN_MS 30000
#define DRAIN_PAUSE_US 100000

/* The status of the node with this id, if it answers. Borrowed. */
static json_t *drain_find(json_t *nodes, uint64_t id)
{
    json_t *node;
    size_t i;
    json_array_foreach (nodes, i, node) {
        if (value_number(node, "node") == id &&
            value_text(node, "error")[0] == '\0') {
            return node;
        }
    }
    return NULL;
}

/* True if the voters that answer and are not drained are a majority without
 * this node; '*ret_voters' are all. */
static bool is_spare(json_t *nodes, uint64_t id, uint64_t *ret_up,
                     uint64_t *ret_voters)
{
    json_t *member;
    size_t i;
    *ret_up = *ret_voters = 0;
    json_array_foreach (value_at(nodes_best(nodes), "members"), i, member) {
        uint64_t other = value_number(member, "id");
        bool is_voter = strcmp(value_text(member, "role"), "voter") == 0;
        json_t *status = drain_find(nodes, other);
        *ret_voters += is_voter;
        *ret_up += is_voter && other != id && status != NULL &&
                   value_number(status, "machine.drained") == 0;
    }
    return *ret_up > *ret_voters / 2;
}

/* 'word': CANCEL, FORCE, or NULL. */
static int drain_ask(struct tool *tool, const char *word, json_t **ret_state)
{
    return tool_ask(tool,
                    word != NULL ? WORDS("NODE.DRAIN", word, "BY", USER)
                                 : WORDS("NODE.DRAIN", "BY", USER),
                    "cannot drain the node", ret_state);
}

/* Asks until no client is left and the node does not lead. */
static int drain_await(struct tool *tool, uint64_t id, bool is_forced)
{
    uint64_t by_ns = client_now_ns() + (tool->timeout_ms > DRAIN_MS
                                            ? tool->timeout_ms
                                            : DRAIN_MS) *
                                           NS_PER_MS;
    for (;;) {
        json_auto_t *state = NULL;
        /* All nodes were asked, unless this is by a socket. So the node need
         * not be connected with all of them at once; it says when it is safe.
         */
        bool is_asked = is_forced || !tool_is_by_door(tool);
        int exit_code = drain_ask(tool, is_asked ? "FORCE" : NULL, &state);
        if (exit_code != 0) {
            return exit_code;
        }
        uint64_t clients = value_number(state, "clients");
        bool leads = value_number(state, "leads") != 0;
        bool is_safe = value_number(state, "safe") != 0;
        if (is_safe || (is_forced && clients == 0 && !leads)) {
            tool_say(tool,
                     "node %" PRIu64 " is drained: %s; a restart or --cancel "
                     "lets it serve again",
                     id,
                     is_safe ? "it is safe to stop it"
                             : "the others are no majority without it");
            return -1;
        }
        if (client_now_ns() >= by_ns) {
            return tool_fail(
                EX_TEMPFAIL,
                "node %" PRIu64 " cannot be stopped yet: %" PRIu64
                " clients are left%s; repeat the command, or give "
                "up with --cancel",
                id, clients,
                leads ? ", and it leads"
                : clients == 0
                    ? ", and the other connected voters are no majority"
                    : "");
        }
        usleep(DRAIN_PAUSE_US);
    }
}

int run_member_drain(struct tool *tool, char **argv)
{
    bool is_cancel = false, is_forced = false;
    const struct option_row rows[] = {
        {"cancel", OPTION_FLAG, .value = &is_cancel},
        {"force", OPTION_FLAG, .value = &is_forced},
        {0}};
    uint64_t id, up, voters;
    int exit_code = options_read(tool, argv, rows, 1, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    if (!parse_number(argv[1], &id) || id == 0) {
        return tool_usage(tool, "invalid member '%s': use its number", argv[1]);
    }
    json_auto_t *nodes = nodes_ask(tool, tool_is_by_door(tool) ? NODES_NAMED
                                                               : NODES_MEMBERS);
    json_t *node = drain_find(nodes, id);
    if (node == NULL) {
        return tool_fail(EX_UNAVAILABLE,
                         "node %" PRIu64 " does not answer; see: hasp status",
                         id);
    }
    if (!is_cancel && !is_forced && !tool_is_by_door(tool) &&
        !is_spare(nodes, id, &up, &voters)) {
        return tool_fail(EX_DATAERR,
                         "not without node %" PRIu64 ": %" PRIu64 " of %" PRIu64
                         " voters would be left to serve, which is no "
                         "majority; start the others, or use --force",
                         id, up, voters);
    }
    exit_code = tool_use(tool, value_text(node, "endpoint"));
    if (exit_code == 0 && is_cancel) {
        json_auto_t *state = NULL;
        exit_code = drain_ask(tool, "CANCEL", &state);
        if (exit_code == 0) {
            tool_say(tool, "node %" PRIu64 " serves clients", id);
        }
        return exit_code != 0 ? exit_code : -1;
    }
    return exit_code != 0 ? exit_code : drain_await(tool, id, is_forced);
}
