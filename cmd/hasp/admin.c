/* SPDX-License-Identifier: MIT */

/* Changes by an operator: hasp limits set, blacklist add and remove, fence
 * remove, quarantine end, cluster finalize. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "cmd/hasp/tool.h"

static const struct view_field level_fields[] = {
    {"level", "LEVEL", FIELD_NUMBER},
    {0},
};

int run_limits_set(struct tool *tool, char **argv)
{
    uint64_t value;
    if (!size_parse(argv[2], &value)) {
        return tool_usage(tool,
                          "invalid value '%s': use a whole number, optionally "
                          "followed by K, M or G",
                          argv[2]);
    }
    return tool_change_one(
        tool, WORDS("LIMITS.SET", argv[1], NUMBER(value), "BY", USER),
        "cannot set the limit", NULL);
}

/* Checks that either a session or a name is given. Cuts off a secret after the
 * session's number, which is not needed. */
static int check_listing(const struct tool *tool, char *session,
                         const char *client)
{
    uint64_t id;
    if ((session == NULL) == (client == NULL)) {
        return tool_usage(tool, "give either --session or --client");
    }
    if (session != NULL) {
        session[strcspn(session, ":")] = '\0';
    }
    return session == NULL || parse_number(session, &id)
               ? 0
               : tool_usage(tool, "invalid session '%s': use its number",
                            session);
}

int run_blacklist_add(struct tool *tool, char **argv)
{
    char *session = NULL;
    const char *client = NULL, *reason = "", *by = USER;
    uint64_t for_ms = 0;
    const struct option_row rows[] = {
        {"session", OPTION_TEXT, .value = &session},
        {"client", OPTION_TEXT, .value = &client},
        {"reason", OPTION_TEXT, .value = &reason},
        {"by", OPTION_TEXT, .value = &by},
        {"for", OPTION_TIME, .value = &for_ms, .min = 1},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 0, 0);
    exit_code = exit_code ?: check_listing(tool, session, client);
    return exit_code != 0
               ? exit_code
               : tool_change(tool,
                             WORDS("BLACKLIST.ADD",
                                   client != NULL ? "CLIENT" : "SESSION",
                                   client != NULL ? client : session, "BY", by,
                                   "REASON", reason, for_ms != 0 ? "FOR" : NULL,
                                   NUMBER(for_ms)),
                             "cannot add to the blacklist", NULL);
}

int run_break(struct tool *tool, char **argv)
{
    uint64_t after_ms = 60000;
    const char *session = NULL, *reason = "", *by = USER;
    json_auto_t *count = NULL;
    const struct option_row rows[] = {
        {"after", OPTION_TIME, .value = &after_ms, .min = 1},
        {"session", OPTION_TEXT, .value = &session},
        {"reason", OPTION_TEXT, .value = &reason},
        {"by", OPTION_TEXT, .value = &by},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 1, 1);
    if (exit_code == 0) {
        exit_code = tool_change(tool,
                                WORDS("LOCK.BREAK", argv[1], "AFTER",
                                      NUMBER(after_ms), "REASON", reason, "BY",
                                      by, session != NULL ? "SESSION" : NULL,
                                      session),
                                CANNOT("break", argv[1]), &count);
    }
    if (exit_code == 0 && value_number(count, "") == 0) {
        tool_say(tool, "'%s' is not held", argv[1]);
    } else if (exit_code == 0) {
        tool_say(tool,
                 "'%s' will be freed in %s, unless its holder objects; see: "
                 "hasp why %s",
                 argv[1], DURATION(after_ms), argv[1]);
    }
    return exit_code;
}

int run_blacklist_remove(struct tool *tool, char **argv)
{
    char *session = NULL;
    const char *client = NULL;
    const struct option_row rows[] = {
        {"session", OPTION_TEXT, .value = &session},
        {"client", OPTION_TEXT, .value = &client},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 0, 0);
    exit_code = exit_code ?: check_listing(tool, session, client);
    return exit_code != 0
               ? exit_code
               : tool_change_one(tool,
                                 WORDS("BLACKLIST.REMOVE",
                                       client != NULL ? "CLIENT" : "SESSION",
                                       client != NULL ? client : session, "BY",
                                       USER),
                                 "cannot remove from the blacklist",
                                 "no such entry on the blacklist; see: hasp "
                                 "blacklist list");
}

int run_quarantine_end(struct tool *tool, char **argv)
{
    const char *reason = "";
    const struct option_row rows[] = {
        {"i-vouch", OPTION_TEXT, .value = &reason}, {0}};
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code != 0) {
        return exit_code;
    }
    if (*reason == '\0') {
        return tool_usage(tool, "missing --i-vouch REASON: why no client from "
                                "before the restore can still trust a lease");
    }
    return tool_change_one(
        tool, WORDS("QUARANTINE.END", "REASON", reason, "BY", USER),
        "cannot end the quarantine",
        "no quarantine is active; see: hasp status");
}

int run_cluster_finalize(struct tool *tool, char **argv)
{
    json_t *level;
    (void)argv;
    int exit_code = tool_ask(tool, WORDS("RAFT.FINALIZE", "BY", USER),
                             "cannot finalize the upgrade", &level);
    if (exit_code == 0) {
        json_auto_t *record = json_pack("{s:o}", "level", level);
        output_record(tool->format, level_fields, record);
    }
    return exit_code;
}

int run_fence_show(struct tool *tool, char **argv)
{
    json_auto_t *token = NULL;
    int exit_code = tool_ask(tool, WORDS("FENCE.SHOW", argv[1]),
                             "cannot show the fence", &token);
    if (exit_code == 0) {
        tool_print_number(tool, "token", value_number(token, ""));
    }
    return exit_code;
}

int run_fence_remove(struct tool *tool, char **argv)
{
    return tool_change_one(tool, WORDS("FENCE.REMOVE", argv[1], "BY", USER),
                           "cannot remove the fence",
                           "there is no such fence; see: hasp fence list");
}
