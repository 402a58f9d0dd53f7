/* SPDX-License-Identifier: MIT */

/* hasp blacklist add, remove, list. */

#include <inttypes.h>
#include <stdio.h>

#include "cmd/hasp/names.h"
#include "cmd/hasp/tool.h"

static const struct field blacklist_fields[] = {
    {"session", "SESSION", FIELD_NUMBER},
    {"client", "CLIENT", FIELD_TEXT},
    {"reason", "REASON", FIELD_TEXT},
    {"by", "BY", FIELD_TEXT},
    {"since_ms", "SINCE", FIELD_DURATION},
    {"for_ms", "FOR", FIELD_DURATION},
    {0},
};

static const struct option options[] = {
    {"session", required_argument, NULL, 's'},
    {"client", required_argument, NULL, 'c'},
    {"reason", required_argument, NULL, 'r'},
    {"by", required_argument, NULL, 'b'},
    {"for", required_argument, NULL, 'f'},
    {0},
};

struct listing {
    uint64_t session;
    const char *client;
    const char *reason;
    const char *by;
    uint64_t for_ms;
};

static int read_listing(struct tool *tool, int argc, char **argv,
                        bool is_adding, struct listing *listing)
{
    int option;
    tool_options_begin();
    while ((option = tool_option(tool, argc, argv, "", options)) != -1) {
        switch (option) {
        case 's':
            /* The secret that may stand behind is not needed. */
            if (!bytes_to_u64(bytes_of(optarg, strcspn(optarg, ":")),
                              &listing->session)) {
                return tool_usage(tool, "'%s' is no session's number", optarg);
            }
            break;
        case 'c':
            listing->client = optarg;
            break;
        case 'r':
            listing->reason = optarg;
            break;
        case 'b':
            listing->by = optarg;
            break;
        case 'f':
            if (!duration_parse(optarg, &listing->for_ms) ||
                listing->for_ms == 0) {
                return tool_usage(tool, "'%s' is no time; write 10m or 24h",
                                  optarg);
            }
            break;
        default:
            return EX_USAGE;
        }
    }
    if ((listing->session == 0) == (listing->client == NULL) ||
        argc != optind) {
        return tool_usage(tool, "one of --session and --client is needed");
    }
    if (!is_adding && (listing->reason != NULL || listing->by != NULL ||
                       listing->for_ms != 0)) {
        return tool_usage(tool, "only --session or --client");
    }
    return 0;
}

static void begin_query(struct query *query, const char *command,
                        const struct listing *listing)
{
    query_begin(query, command);
    if (listing->client != NULL) {
        query_text(query, "CLIENT");
        query_text(query, listing->client);
    } else {
        query_text(query, "SESSION");
        query_number(query, listing->session);
    }
}

int run_blacklist_add(struct tool *tool, int argc, char **argv)
{
    struct listing listing = {0};
    struct query query = {0};
    const struct resp_reply *reply;
    char by[NAME_TEXT_SIZE];
    int exit_code = read_listing(tool, argc, argv, true, &listing);
    if (exit_code != 0) {
        return exit_code;
    }
    if (listing.by == NULL) {
        name_of_user(by);
        listing.by = by;
    }
    begin_query(&query, "BLACKLIST.ADD", &listing);
    if (listing.reason != NULL) {
        query_text(&query, "REASON");
        query_text(&query, listing.reason);
    }
    query_text(&query, "BY");
    query_text(&query, listing.by);
    if (listing.for_ms != 0) {
        query_text(&query, "FOR");
        query_number(&query, listing.for_ms);
    }
    exit_code = tool_change(tool, &query, "cannot add to the blacklist",
                            &reply);
    query_done(&query);
    return exit_code;
}

int run_blacklist_remove(struct tool *tool, int argc, char **argv)
{
    struct listing listing = {0};
    struct query query = {0};
    const struct resp_reply *reply;
    int exit_code = read_listing(tool, argc, argv, false, &listing);
    if (exit_code != 0) {
        return exit_code;
    }
    begin_query(&query, "BLACKLIST.REMOVE", &listing);
    name_query(&query);
    exit_code = tool_change(tool, &query, "cannot remove from the blacklist",
                            &reply);
    query_done(&query);
    if (exit_code == 0 && reply->value[0].type == RESP_INTEGER &&
        reply->value[0].integer == 0) {
        return tool_fail(EX_DATAERR, "that is not on the blacklist; see: hasp "
                                     "blacklist list");
    }
    return exit_code;
}

int run_blacklist_list(struct tool *tool, int argc, char **argv)
{
    struct query query = {0};
    const struct resp_reply *reply;
    tool_options_begin();
    if (tool_option(tool, argc, argv, "", NULL) != -1) {
        return EX_USAGE;
    }
    if (argc != optind) {
        return tool_usage(tool, "no argument is needed");
    }
    query_begin(&query, "BLACKLIST.LIST");
    int exit_code = tool_read(tool, &query, "cannot list", &reply);
    query_done(&query);
    if (exit_code == 0) {
        json_t *rows = value_of_reply(reply, 0), *row;
        size_t i;
        json_array_foreach(rows, i, row)
        {
            /* 0 is neither a session nor "for no time". */
            if (tool->format != FORMAT_TABLE) {
                break;
            }
            if (value_number(row, "session") == 0) {
                json_object_del(row, "session");
            }
            if (value_number(row, "for_ms") == 0) {
                json_object_set_new(row, "for_ms", json_string("ever"));
            }
        }
        output_rows(tool->format, blacklist_fields, rows);
        json_decref(rows);
    }
    return exit_code;
}
