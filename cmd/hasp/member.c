/* SPDX-License-Identifier: MIT */

/* hasp member list, add, update, promote, demote, remove, transfer. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/minmax.h"
#include "cmd/hasp/nodes.h"

#define CHANGE_MS 20000
/* Pause before the next search for the leader. */
#define PAUSE_US 50000

static const struct view_field member_fields[] = {
    {"id", "ID", FIELD_NUMBER},
    {"address", "ADDRESS", FIELD_TEXT},
    {"role", "ROLE", FIELD_ROLE},
    {"match", "MATCH", FIELD_NUMBER},
    {"last_contact_ms", "LAST CONTACT", FIELD_DURATION},
    {"level", "LEVEL", FIELD_NUMBER},
    {"incarnation", "DIRECTORY", FIELD_TEXT},
    {0},
};

/* Time allowed for an election; after it the members are listed without a
 * leader. */
#define ELECTION_MS 2000

/* The leader's own status, even if it is not an endpoint; NULL if it is not
 * found in time. */
static json_t *status_of_leader(struct tool *tool, uint64_t deadline_ns)
{
    for (;;) {
        json_auto_t *nodes = nodes_ask(tool, NODES_LEADER);
        json_t *best = nodes_newest(nodes);
        if (best != NULL && nodes_is_leader(best)) {
            return json_incref(best);
        }
        if (client_now_ns() >= deadline_ns) {
            return NULL;
        }
        usleep(PAUSE_US);
    }
}

/* The status of the node with the most recent state, if there is no leader. */
static json_t *status_of_best(struct tool *tool)
{
    json_auto_t *nodes = nodes_ask(tool, NODES_MEMBERS);
    json_t *best = nodes_best(nodes);
    if (best == NULL) {
        tool_fail(0, "cannot list the members: no member answers; see: hasp "
                     "status");
    }
    return json_incref(best);
}

/* Prints the data directories that do not belong to a member but still
 * connect. */
static void tell_replaced(struct tool *tool, json_t *status)
{
    size_t i;
    json_t *one;
    json_array_foreach (value_at(status, "replaced"), i, one) {
        tool_say(tool,
                 "a node with id %" PRIu64
                 " and the data directory %s, which is not a member's, tries "
                 "to connect: stop it, and delete that directory",
                 value_number(one, "id"), value_text(one, "incarnation"));
    }
}

/* Lists the members as the leader sees them, since only it knows the others'
 * progress. */
int run_member_list(struct tool *tool, char **argv)
{
    uint64_t by_ns = client_now_ns() + ELECTION_MS * NS_PER_MS;
    (void)argv;
    if (by_ns > tool_deadline_ns(tool)) {
        by_ns = tool_deadline_ns(tool);
    }
    json_auto_t *status = status_of_leader(tool, by_ns);
    if (status == NULL) {
        status = status_of_best(tool);
    }
    if (status == NULL) {
        return EX_UNAVAILABLE;
    }
    json_t *members = value_at(status, "members");
    if (members == NULL) {
        return tool_fail(EX_PROTOCOL, "%s reports no members",
                         value_text(status, "endpoint"));
    }
    json_auto_t *rows = nodes_sorted(json_incref(members), "id");
    output_rows(tool->format, member_fields, rows);
    tell_replaced(tool, status);
    if (!nodes_is_leader(status)) {
        tool_fail(0,
                  "no leader answers: this is what node %" PRIu64
                  " (%s) knows; members that it does not hear might be "
                  "running, and it might lack the latest change of members",
                  value_number(status, "node"), value_text(status, "endpoint"));
    }
    return 0;
}

static bool parse_id(const char *text, uint64_t *ret_id)
{
    return parse_number(text, ret_id) && *ret_id > 0 && *ret_id <= INT64_MAX;
}

/* The status of the node to ask for a change. This is the leader: a member
 * that is being removed could lose its connection before it answers, and a
 * repeated request would not find the member. With --socket it is the node of
 * the socket, whoever leads: at another node the user would be different. */
static json_t *status_of_asked(struct tool *tool)
{
    json_t *status = NULL;
    if (!tool_is_by_door(tool)) {
        return status_of_leader(tool, tool_deadline_ns(tool));
    }
    json_auto_t *nodes = nodes_ask(tool, NODES_NAMED);
    status = json_array_get(nodes, 0);
    return value_text(status, "error")[0] == '\0' ? json_incref(status) : NULL;
}

/* Sends the change there, and explains a failure. A new member has to catch up
 * before the answer, which takes longer than other answers. 'id' is the member
 * to change or remove; 0: the text needs no member. */
static int member_change(struct tool *tool, const char *const *words,
                         uint64_t id)
{
    static const char what[] = "cannot change the members";
    uint64_t time_ms = u64_max(tool->timeout_ms, CHANGE_MS);
    struct client_options options = {.attempt_ms = time_ms,
                                     .is_repeatable = true};
    json_auto_t *status = status_of_asked(tool);
    bool is_member = nodes_member(status, id) != NULL;
    if (status == NULL) {
        return tool_fail(EX_UNAVAILABLE, "%s: no %s answers; see: hasp status",
                         what, tool_is_by_door(tool) ? "node" : "leader");
    }
    int exit_code = tool_use(tool, value_text(status, "endpoint"));
    if (exit_code != 0) {
        return exit_code;
    }
    options.deadline_ns = client_now_ns() + time_ms * NS_PER_MS;
    int error = tool_send(tool->client, words, &options, NULL);
    if (error == HASP_EREPLY &&
        strcmp(client_code(tool->client), "BADARG") == 0) {
        /* The members are at fault, not the usage. */
        return tool_fail(EX_DATAERR,
                         "%s: %s; see: hasp member list, hasp help member",
                         what, client_why(tool->client));
    }
    if (error != 0) {
        return tool_client_error(tool->client, error, what);
    }
    if (id != 0 && !is_member) {
        tool_say(tool, "%" PRIu64 " is not a member: nothing to do", id);
    }
    return 0;
}

/* True for "HOST:PORT,HOST:PORT". Checked here, since the cluster does not. */
static bool is_pair_of_addresses(const char *text)
{
    struct endpoint endpoint;
    char why[HASP_WHY_SIZE];
    const char *comma = strchr(text, ',');
    for (int i = 0; i < 2 && comma != NULL; i++) {
        const char *from = i == 0 ? text : comma + 1;
        size_t size = i == 0 ? (size_t)(comma - text) : strlen(from);
        if (memchr(from, ':', size) == NULL ||
            endpoint_parse(from, size, &endpoint, why) != 0) {
            return false;
        }
    }
    return comma != NULL;
}

static int bad_id(const struct tool *tool, const char *text)
{
    return tool_usage(tool, "invalid member '%s': use its number", text);
}

int run_member_transfer(struct tool *tool, char **argv)
{
    uint64_t id;
    if (argv[1] != NULL && !parse_id(argv[1], &id)) {
        return bad_id(tool, argv[1]);
    }
    return member_change(tool,
                         argv[1] == NULL
                             ? WORDS("RAFT.TRANSFER", "BY", USER)
                             : WORDS("RAFT.TRANSFER", argv[1], "BY", USER),
                         0);
}

int run_member_change(struct tool *tool, char **argv)
{
    bool is_forced = false;
    const char *revoked = NULL;
    const char *command = tool->subcommand->command;
    const struct option_row rows[] = {
        {"force", OPTION_FLAG, .value = &is_forced},
        {"revoke", OPTION_TEXT, .value = &revoked},
        {0}};
    bool may_force = tool->subcommand->details != NULL;
    uint64_t id;
    int exit_code = may_force ? options_read(tool, argv, rows, 1, 1) : 0;
    if (exit_code != 0) {
        return exit_code;
    }
    if (!parse_id(argv[1], &id)) {
        return bad_id(tool, argv[1]);
    }
    exit_code = member_change(tool,
                              is_forced
                                  ? WORDS(command, argv[1], "FORCE", "BY", USER)
                                  : WORDS(command, argv[1], "BY", USER),
                              id);
    if (exit_code != 0 || revoked == NULL) {
        return exit_code;
    }
    /* The connection is to the former leader, which may be down. */
    client_free(tool->client);
    tool->client = NULL;
    return tool_revoke(tool, revoked);
}

/* True for one "HOST:PORT". */
static bool is_address(const char *text)
{
    struct endpoint endpoint;
    char why[HASP_WHY_SIZE];
    return strchr(text, ':') != NULL && strchr(text, ',') == NULL &&
           endpoint_parse(text, strlen(text), &endpoint, why) == 0;
}

/* Without an address for clients, the member keeps the one that it has. */
int run_member_update(struct tool *tool, char **argv)
{
    char address[2 * HASP_WHY_SIZE];
    const char *client = argv[3];
    uint64_t id;
    if (!parse_id(argv[1], &id)) {
        return bad_id(tool, argv[1]);
    }
    bool is_pair = client == NULL && is_pair_of_addresses(argv[2]);
    if (!is_pair &&
        (!is_address(argv[2]) || (client != NULL && !is_address(client)))) {
        return tool_usage(tool,
                          "invalid addresses '%s%s%s': use the one for nodes "
                          "and, if it changes, the one for clients, e.g. "
                          "10.0.0.4:7421 10.0.0.4:7420",
                          argv[2], client != NULL ? " " : "",
                          client != NULL ? client : "");
    }
    int size = snprintf(address, sizeof address, "%s%s%s", argv[2],
                        client != NULL ? "," : "",
                        client != NULL ? client : "");
    if (size < 0 || (size_t)size >= sizeof address) {
        return tool_usage(tool, "the addresses are too long");
    }
    return member_change(tool,
                         WORDS("RAFT.UPDATE", argv[1], address, "BY", USER), 0);
}

/* Time for a new directory to catch up, over several requests. */
#define REPLACE_NS (600 * NS_PER_S)

/* Repeats the request while something is left to do: each one goes on where the
 * one before has ended, also at another leader. */
int run_member_replace(struct tool *tool, char **argv)
{
    bool is_forced = false;
    const struct option_row rows[] = {
        {"force", OPTION_FLAG, .value = &is_forced}, {0}};
    uint64_t end_ns = client_now_ns() + REPLACE_NS;
    uint64_t id;
    int exit_code = options_read(tool, argv, rows, 1, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    if (!parse_id(argv[1], &id)) {
        return bad_id(tool, argv[1]);
    }
    for (;;) {
        exit_code = member_change(
            tool,
            is_forced ? WORDS("RAFT.REPLACE", argv[1], "FORCE", "BY", USER)
                      : WORDS("RAFT.REPLACE", argv[1], "BY", USER),
            0);
        bool is_left = exit_code == EX_TEMPFAIL || exit_code == EX_UNAVAILABLE;
        if (!is_left || client_now_ns() >= end_ns) {
            return exit_code;
        }
        tool_say(tool, "member %" PRIu64 " is not replaced yet; trying on", id);
        client_free(tool->client);
        tool->client = NULL;
        usleep(10 * PAUSE_US);
    }
}

int run_member_add(struct tool *tool, char **argv)
{
    bool is_standby = false;
    const char *incarnation = NULL;
    const struct option_row rows[] = {
        {"standby", OPTION_FLAG, .value = &is_standby},
        {"incarnation", OPTION_TEXT, .value = &incarnation},
        {0},
    };
    uint64_t id;
    int exit_code = options_read(tool, argv, rows, 2, 2);
    if (exit_code != 0) {
        return exit_code;
    }
    if (!parse_id(argv[1], &id)) {
        return bad_id(tool, argv[1]);
    }
    if (!is_pair_of_addresses(argv[2])) {
        return tool_usage(tool,
                          "invalid addresses '%s': use the one for nodes and "
                          "the one for clients, e.g. "
                          "10.0.0.4:7421,10.0.0.4:7420",
                          argv[2]);
    }
    if (!is_standby && isatty(STDERR_FILENO)) {
        tool_say(tool,
                 "waiting until member %" PRIu64
                 " has caught up; for its progress: hasp member list",
                 id);
    }
    const char *words[] = {"RAFT.ADD", argv[1], argv[2], "BY", USER,
                           NULL,       NULL,    NULL,    NULL};
    size_t count = 5;
    if (incarnation != NULL) {
        words[count++] = "INCARNATION";
        words[count++] = incarnation;
    }
    if (is_standby) {
        words[count++] = "STANDBY";
    }
    exit_code = member_change(tool, words, 0);
    if (exit_code == EX_UNAVAILABLE) {
        tool_say(tool,
                 "member %" PRIu64
                 " must run and reach the others; whether it was added, and "
                 "its progress: hasp member list",
                 id);
    }
    return exit_code;
}
