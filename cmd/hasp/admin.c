/* SPDX-License-Identifier: MIT */

/* What an operator changes: hasp limits, limits set, blacklist add, list,
 * remove, quarantine end, cluster finalize. */

#include <string.h>

#include "base/size.h"
#include "cmd/hasp/names.h"
#include "cmd/hasp/tool.h"

static const struct field limits_fields[] = {
    {"name", "LIMIT", FIELD_TEXT},  {"value", "VALUE", FIELD_NUMBER},
    {"used", "USED", FIELD_NUMBER}, {"min", "FROM", FIELD_NUMBER},
    {"max", "TO", FIELD_NUMBER},    {0},
};

static const struct field blacklist_fields[] = {
    {"session", "SESSION", FIELD_ID},
    {"client", "CLIENT", FIELD_TEXT},
    {"reason", "REASON", FIELD_TEXT},
    {"by", "BY", FIELD_TEXT},
    {"since_ms", "SINCE", FIELD_DURATION},
    {"for_ms", "FOR", FIELD_SPAN},
    {0},
};

static const struct field level_fields[] = {
    {"level", "LEVEL", FIELD_NUMBER},
    {0},
};

int run_limits(struct tool *tool, char **argv)
{
    return tool_run_rows(tool, argv, "LIMITS.LIST", limits_fields);
}

int run_limits_set(struct tool *tool, char **argv)
{
    struct query query = {0};
    uint64_t value;
    int exit_code = options_read(tool, argv, NULL, 2, 2);
    if (exit_code != 0) {
        return exit_code;
    }
    if (!size_parse(argv[2], &value)) {
        return tool_usage(tool,
                          "invalid value '%s': use a whole number, with K, M "
                          "or G behind it if it is large",
                          argv[2]);
    }
    query_begin(&query, "LIMITS.SET");
    query_text(&query, argv[1]);
    query_number(&query, value);
    return tool_change_one(tool, &query, "cannot set the limit", NULL);
}

int run_blacklist_list(struct tool *tool, char **argv)
{
    return tool_run_rows(tool, argv, "BLACKLIST.LIST", blacklist_fields);
}

/* Whom it is about, after the command. */
static int begin_listing(const struct tool *tool, struct query *query,
                         const char *command, const char *session,
                         const char *client)
{
    uint64_t id = 0;
    if ((session == NULL) == (client == NULL)) {
        return tool_usage(tool, "needs one of --session and --client");
    }
    /* The secret that may stand behind is not needed. */
    if (session != NULL &&
        !bytes_to_u64(bytes_of(session, strcspn(session, ":")), &id)) {
        return tool_usage(tool, "invalid session '%s': use its number",
                          session);
    }
    query_begin(query, command);
    query_text(query, client != NULL ? "CLIENT" : "SESSION");
    if (client != NULL) {
        query_text(query, client);
    } else {
        query_number(query, id);
    }
    return 0;
}

int run_blacklist_add(struct tool *tool, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    const char *session = NULL, *client = NULL, *reason = NULL, *by = NULL;
    uint64_t for_ms = 0;
    const struct option_row rows[] = {
        {0, "session", OPTION_TEXT, .value = &session},
        {0, "client", OPTION_TEXT, .value = &client},
        {0, "reason", OPTION_TEXT, .value = &reason},
        {0, "by", OPTION_TEXT, .value = &by},
        {0, "for", OPTION_TIME, .value = &for_ms, .min = 1},
        {0},
    };
    char me[NAME_TEXT_SIZE];
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code == 0) {
        exit_code = begin_listing(tool, &query, "BLACKLIST.ADD", session,
                                  client);
    }
    if (exit_code != 0) {
        return exit_code;
    }
    name_of_user(me);
    if (reason != NULL) {
        query_text(&query, "REASON");
        query_text(&query, reason);
    }
    query_text(&query, "BY");
    query_text(&query, by != NULL ? by : me);
    if (for_ms != 0) {
        query_text(&query, "FOR");
        query_number(&query, for_ms);
    }
    exit_code = tool_change(tool, &query, "cannot add to the blacklist",
                            &reply);
    query_done(&query);
    return exit_code;
}

int run_blacklist_remove(struct tool *tool, char **argv)
{
    struct query query = {0};
    const char *session = NULL, *client = NULL;
    const struct option_row rows[] = {
        {0, "session", OPTION_TEXT, .value = &session},
        {0, "client", OPTION_TEXT, .value = &client},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code == 0) {
        exit_code = begin_listing(tool, &query, "BLACKLIST.REMOVE", session,
                                  client);
    }
    return exit_code != 0
               ? exit_code
               : tool_change_one(tool, &query,
                                 "cannot remove from the blacklist",
                                 "that is not on the blacklist; see: hasp "
                                 "blacklist list");
}

int run_quarantine_end(struct tool *tool, char **argv)
{
    struct query query = {0};
    const char *reason = NULL;
    const struct option_row rows[] = {
        {0, "i-vouch", OPTION_TEXT, .value = &reason}, {0}};
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code != 0) {
        return exit_code;
    }
    if (reason == NULL || *reason == '\0') {
        return tool_usage(tool, "needs --i-vouch REASON: why no client of the "
                                "former life can still trust a lease");
    }
    query_begin(&query, "QUARANTINE.END");
    query_text(&query, "REASON");
    query_text(&query, reason);
    return tool_change_one(tool, &query, "cannot end the quarantine",
                           "there is no quarantine; see: hasp status");
}

int run_cluster_finalize(struct tool *tool, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    int exit_code = options_read(tool, argv, NULL, 0, 0);
    if (exit_code != 0) {
        return exit_code;
    }
    query_begin(&query, "RAFT.FINALIZE");
    name_query(&query);
    exit_code = tool_read(tool, &query, "cannot finalize the upgrade", &reply);
    query_done(&query);
    if (exit_code == 0) {
        json_t *record = json_pack("{s:o}", "level", value_of_reply(reply, 0));
        output_record(tool->format, level_fields, record);
        json_decref(record);
    }
    return exit_code;
}
