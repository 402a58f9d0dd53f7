/* SPDX-License-Identifier: MIT */

/* hasp status, health, version, member list, transfer, add, promote, demote,
 * remove. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/hasp/tool.h"

/* One silent node must not hold up the picture of the others. */
#define NODE_TIMEOUT_MS 1500
#define CHANGE_MS 20000
/* Before the leader is looked for again. */
#define PAUSE_US 50000

static const struct field node_fields[] = {
    {"node", "NODE", FIELD_NUMBER},
    {"endpoint", "ENDPOINT", FIELD_TEXT},
    {"role", "ROLE", FIELD_ROLE},
    {"term", "TERM", FIELD_NUMBER},
    {"leader", "LEADER", FIELD_NUMBER},
    {"commit", "COMMIT", FIELD_NUMBER},
    {"applied", "APPLIED", FIELD_NUMBER},
    {"version", "VERSION", FIELD_TEXT},
    {0},
};

static const struct field member_fields[] = {
    {"id", "ID", FIELD_NUMBER},
    {"address", "ADDRESS", FIELD_TEXT},
    {"role", "ROLE", FIELD_ROLE},
    {"match", "MATCH", FIELD_NUMBER},
    {"last_contact_ms", "LAST CONTACT", FIELD_DURATION},
    {0},
};

static const struct field health_fields[] = {
    {"healthy", "HEALTHY", FIELD_FLAG},
    {0},
};

static const struct field version_fields[] = {
    {"endpoint", "ENDPOINT", FIELD_TEXT},
    {"version", "VERSION", FIELD_TEXT},
    {0},
};

/* Asks one node for its own view; its map with "endpoint", or a map with
 * "error" in it. */
static json_t *status_of(const struct tool *tool, struct endpoint *endpoint)
{
    struct endpoints one = {.endpoint = endpoint, .count = 1};
    struct client *client = client_new(&one);
    struct query query = {0};
    const struct resp_reply *reply;
    uint64_t timeout_ms = tool->timeout_ms < NODE_TIMEOUT_MS ? tool->timeout_ms
                                                             : NODE_TIMEOUT_MS;
    struct client_options options = {.deadline_ns = client_now_ns() +
                                                    timeout_ms * NS_PER_MS,
                                     .is_once = true};
    json_t *status;
    query_begin(&query, "RAFT.STATUS");
    int error = client_ask(client, &query, &options, &reply);
    if (error == 0) {
        status = value_of_reply(reply, 0);
    } else {
        /* The client speaks of all its endpoints: "what (each one: why)". Here
         * it has one. */
        const char *why = strchr(client_why(client), '(');
        why = why == NULL ? client_why(client) : why + 1;
        size_t size = strlen(why);
        size -= size > 0 && why[size - 1] == ')';
        status = json_pack("{s:s, s:s%}", "role", "unreachable", "error", why,
                           size);
    }
    json_object_set_new(status, "endpoint", json_string(endpoint->text));
    query_done(&query);
    client_free(client);
    return status;
}

static json_t *status_of_all(struct tool *tool)
{
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < tool->endpoints.count; i++) {
        json_array_append_new(nodes,
                              status_of(tool, &tool->endpoints.endpoint[i]));
    }
    return nodes;
}

static int read_nothing(struct tool *tool, int argc, char **argv)
{
    tool_options_begin();
    if (tool_option(tool, argc, argv, "", NULL) != -1) {
        return EX_USAGE;
    }
    return argc == optind ? 0 : tool_usage(tool, "no argument is needed");
}

/* What is wrong is said last and on stderr, where it is seen. */
static int judge(json_t *nodes)
{
    size_t i, reached = 0, leaders = 0;
    uint64_t quarantine_ms = 0;
    char left[DURATION_TEXT_SIZE];
    json_t *node;
    json_array_foreach(nodes, i, node)
    {
        const char *why = value_text(node, "error");
        uint64_t left_ms = value_number(node, "quarantine_ms");
        /* The longest that any of them tells. */
        quarantine_ms = left_ms > quarantine_ms ? left_ms : quarantine_ms;
        reached += why[0] == '\0';
        leaders += strcmp(value_text(node, "role"), "leader") == 0;
        if (why[0] != '\0') {
            tool_fail(0, "%s", why);
        }
    }
    json_array_foreach(nodes, i, node)
    {
        /* The leader may be one that was not asked. */
        leaders += value_number(node, "leader") != 0;
    }
    if (quarantine_ms > 0) {
        duration_format(quarantine_ms, left);
        tool_fail(0,
                  "quarantine after a restore: nothing is granted for "
                  "another %s",
                  left);
    }
    if (reached == 0) {
        return tool_fail(EX_UNAVAILABLE,
                         "no node answers; name the nodes with -e or "
                         "HASP_ENDPOINTS, or start some with: hasp dev");
    }
    if (leaders == 0) {
        return tool_fail(EX_UNAVAILABLE,
                         "no leader: %zu of %zu nodes answer; a majority of "
                         "the members must run and reach each other",
                         reached, json_array_size(nodes));
    }
    return 0;
}

int run_status(struct tool *tool, int argc, char **argv)
{
    int exit_code = read_nothing(tool, argc, argv);
    if (exit_code != 0) {
        return exit_code;
    }
    json_t *nodes = status_of_all(tool);
    output_rows(tool->format, node_fields, nodes);
    exit_code = judge(nodes);
    json_decref(nodes);
    return exit_code;
}

/* A read that the confirmed leader answers: it shows that a majority is
 * there. */
int run_health(struct tool *tool, int argc, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    int exit_code = read_nothing(tool, argc, argv);
    if (exit_code != 0) {
        return exit_code;
    }
    query_begin(&query, "LOCK.LIST");
    query_text(&query, "COUNT");
    query_number(&query, 1);
    exit_code = tool_read(tool, &query, "not healthy", &reply);
    query_done(&query);
    json_t *record = json_pack("{s:b}", "healthy", exit_code == 0);
    output_record(tool->format, health_fields, record);
    json_decref(record);
    return exit_code;
}

int run_version(struct tool *tool, int argc, char **argv)
{
    int exit_code = read_nothing(tool, argc, argv);
    if (exit_code != 0) {
        return exit_code;
    }
    json_t *nodes = status_of_all(tool), *rows = json_array(), *node;
    size_t i;
    json_array_append_new(rows, json_pack("{s:s, s:s}", "endpoint", "hasp",
                                          "version", HASP_VERSION));
    json_array_foreach(nodes, i, node)
    {
        const char *version = value_text(node, "version");
        json_array_append_new(
            rows,
            json_pack("{s:s, s:s}", "endpoint", value_text(node, "endpoint"),
                      "version", version[0] != '\0' ? version : "unreachable"));
    }
    output_rows(tool->format, version_fields, rows);
    json_decref(rows);
    json_decref(nodes);
    return 0;
}

/* Of several statuses the one of the leader in the newest term that is told, or
 * of a node that knows of it; a member that was removed or wiped tells an old
 * story. NULL if none does. */
static json_t *newest(json_t *nodes)
{
    json_t *node, *best = NULL;
    size_t i;
    json_array_foreach(nodes, i, node)
    {
        bool is_leader = strcmp(value_text(node, "role"), "leader") == 0;
        uint64_t term = value_number(node, "term");
        uint64_t best_term = value_number(best, "term");
        if ((is_leader || value_number(node, "leader") != 0) &&
            (best == NULL || term > best_term ||
             (term == best_term && is_leader))) {
            best = node;
        }
    }
    return best;
}

/* The status of the leader, from itself, also if it is not among the endpoints;
 * NULL if it is not found in time, with a message. */
static json_t *status_of_leader(struct tool *tool, const char *what)
{
    uint64_t deadline_ns = tool_deadline_ns(tool);
    for (;;) {
        json_t *nodes = status_of_all(tool);
        json_t *best = json_incref(newest(nodes));
        const char *address = value_text(best, "leader_address");
        struct endpoint endpoint;
        char why[HASP_WHY_SIZE];
        json_decref(nodes);
        if (best != NULL && strcmp(value_text(best, "role"), "leader") != 0) {
            json_t *told = endpoint_parse(address, strlen(address), &endpoint,
                                          why) == 0
                               ? status_of(tool, &endpoint)
                               : NULL;
            json_decref(best);
            best = told;
        }
        if (best != NULL && strcmp(value_text(best, "role"), "leader") == 0) {
            return best;
        }
        json_decref(best);
        if (client_now_ns() >= deadline_ns) {
            tool_fail(0, "%s: no leader answers; see: hasp status", what);
            return NULL;
        }
        usleep(PAUSE_US);
    }
}

/* The leader's list, since only the leader knows how far the others are. */
int run_member_list(struct tool *tool, int argc, char **argv)
{
    int exit_code = read_nothing(tool, argc, argv);
    if (exit_code != 0) {
        return exit_code;
    }
    json_t *status = status_of_leader(tool, "cannot list the members");
    if (status == NULL) {
        return EX_UNAVAILABLE;
    }
    json_t *members = value_at(status, "members");
    if (members != NULL) {
        output_rows(tool->format, member_fields, members);
    } else {
        exit_code = tool_fail(EX_PROTOCOL, "%s tells no members",
                              value_text(status, "endpoint"));
    }
    json_decref(status);
    return exit_code;
}

static bool parse_id(const char *text, uint64_t *ret_id)
{
    return parse_number(text, ret_id) && *ret_id > 0 && *ret_id <= INT64_MAX;
}

/* Sends the change to the leader itself, takes the query and explains a
 * failure: the answer of a member that is being removed could be lost with its
 * connection, and asking again would find it gone. A new member catches up
 * before it is answered, which takes longer than other answers. */
static int change(struct tool *tool, struct query *query)
{
    static const char what[] = "cannot change the members";
    const struct resp_reply *reply;
    uint64_t time_ms = tool->timeout_ms > CHANGE_MS ? tool->timeout_ms
                                                    : CHANGE_MS;
    struct client_options options = {.attempt_ms = time_ms,
                                     .is_repeatable = true};
    struct endpoint leader;
    char why[HASP_WHY_SIZE];
    json_t *status = status_of_leader(tool, what);
    const char *address = value_text(status, "endpoint");
    int error = status == NULL
                    ? HASP_ENOTLEADER
                    : endpoint_parse(address, strlen(address), &leader, why);
    json_decref(status);
    if (error != 0) {
        query_done(query);
        return EX_UNAVAILABLE;
    }
    struct endpoints one = {.endpoint = &leader, .count = 1};
    client_free(tool->client);
    tool->client = client_new(&one);
    options.deadline_ns = client_now_ns() + time_ms * NS_PER_MS;
    error = client_ask(tool->client, query, &options, &reply);
    query_done(query);
    if (error == HASP_EREPLY &&
        strcmp(client_code(tool->client), "BADARG") == 0) {
        /* It is about the members and not about the words. */
        return tool_fail(EX_DATAERR,
                         "%s: %s; see: hasp member list, hasp help member",
                         what, client_why(tool->client));
    }
    return error == 0 ? 0 : tool_client_error(tool->client, error, what);
}

/* "HOST:PORT,HOST:PORT", of which the cluster would believe anything. */
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

int run_member_transfer(struct tool *tool, int argc, char **argv)
{
    struct query query = {0};
    uint64_t id;
    tool_options_begin();
    if (tool_option(tool, argc, argv, "", NULL) != -1) {
        return EX_USAGE;
    }
    query_begin(&query, "RAFT.TRANSFER");
    if (argc - optind > 1 || (argc > optind && !parse_id(argv[optind], &id))) {
        query_done(&query);
        return tool_usage(tool, "the number of one member, or nothing");
    }
    if (argc > optind) {
        query_number(&query, id);
    }
    return change(tool, &query);
}

int run_member_change(struct tool *tool, int argc, char **argv)
{
    static const char *const commands[][2] = {
        {"member promote", "RAFT.PROMOTE"},
        {"member demote", "RAFT.DEMOTE"},
        {"member remove", "RAFT.REMOVE"},
    };
    static const struct option options[] = {{"force", no_argument, NULL, 'f'},
                                            {0}};
    struct query query = {0};
    uint64_t id;
    int option;
    bool is_forced = false;
    bool is_promotion = strcmp(tool->subcommand->name, "member promote") == 0;
    tool_options_begin();
    while ((option = tool_option(tool, argc, argv, "",
                                 is_promotion ? NULL : options)) != -1) {
        if (option == '?') {
            return EX_USAGE;
        }
        is_forced = true;
    }
    if (argc - optind != 1 || !parse_id(argv[optind], &id)) {
        return tool_usage(tool, "the number of a member is needed");
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(tool->subcommand->name, commands[i][0]) == 0) {
            query_begin(&query, commands[i][1]);
        }
    }
    query_number(&query, id);
    if (is_forced) {
        query_text(&query, "FORCE");
    }
    return change(tool, &query);
}

int run_member_add(struct tool *tool, int argc, char **argv)
{
    static const struct option options[] = {{"standby", no_argument, NULL, 's'},
                                            {0}};
    struct query query = {0};
    uint64_t id;
    bool is_standby = false;
    int option;
    tool_options_begin();
    while ((option = tool_option(tool, argc, argv, "", options)) != -1) {
        if (option == '?') {
            return EX_USAGE;
        }
        is_standby = true;
    }
    if (argc - optind != 2 || !parse_id(argv[optind], &id)) {
        return tool_usage(tool, "the number and the addresses of the new "
                                "member are needed");
    }
    if (!is_pair_of_addresses(argv[optind + 1])) {
        return tool_usage(tool,
                          "'%s' are not two addresses, for nodes and for "
                          "clients; write 10.0.0.4:7421,10.0.0.4:7420",
                          argv[optind + 1]);
    }
    query_begin(&query, "RAFT.ADD");
    query_number(&query, id);
    query_text(&query, argv[optind + 1]);
    if (is_standby) {
        query_text(&query, "STANDBY");
    } else if (isatty(STDERR_FILENO)) {
        tool_say(tool,
                 "waiting until member %" PRIu64 " has caught up; how far it "
                 "is: hasp member list",
                 id);
    }
    int exit_code = change(tool, &query);
    if (exit_code == EX_UNAVAILABLE) {
        tool_say(tool,
                 "member %" PRIu64 " has to run and to reach the others; "
                 "whether it was added, and how far it is: hasp member list",
                 id);
    }
    return exit_code;
}
