/* SPDX-License-Identifier: MIT */

/* hasp status, health, version. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/minmax.h"
#include "cmd/hasp/nodes.h"
#include "cmd/hasp/view/status.h"

/* A silent connection between nodes is closed after this time. */
#define SILENCE_MS 3000
/* As in net/round_trip.h. */
#define SLOW_LINK_US 50000

static const struct view_field node_fields[] = {
    {"node", "NODE", FIELD_NUMBER},
    {"endpoint", "ENDPOINT", FIELD_TEXT},
    {"role", "ROLE", FIELD_ROLE},
    {"term", "TERM", FIELD_NUMBER},
    {"leader", "LEADER", FIELD_NUMBER},
    {"commit", "COMMIT", FIELD_NUMBER},
    {"applied", "APPLIED", FIELD_NUMBER},
    {"version", "VERSION", FIELD_TEXT},
    {"level", "LEVEL", FIELD_NUMBER},
    {"cluster_level", "CLUSTER", FIELD_NUMBER},
    {0},
};

static const struct view_field health_fields[] = {
    {"healthy", "HEALTHY", FIELD_FLAG},
    {0},
};

static const struct view_field version_fields[] = {
    {"endpoint", "ENDPOINT", FIELD_TEXT},
    {"version", "VERSION", FIELD_TEXT},
    {0},
};

static void tell_of_quarantine(uint64_t left_ms)
{
    if (left_ms > 0) {
        tool_fail(0,
                  "quarantine after a restore: nothing is granted for "
                  "another %s",
                  DURATION(left_ms));
    }
}

/* The problem of the node's disk, and the remedy; NULL if there is none. */
static const char *disk_trouble(json_t *node)
{
    const char *disk = value_text(node, "disk");
    return strcmp(disk, "full") == 0   ? "is nearly full: free some space"
           : strcmp(disk, "slow") == 0 ? "is too slow: see what else uses it"
                                       : NULL;
}

/* Prints the nodes with slow disks; a slow disk refuses nothing. */
static void tell_of_flushes(json_t *nodes)
{
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        if (!nodes_is_foreign(node) &&
            strcmp(value_text(node, "flush"), "slow") == 0) {
            tool_fail(0,
                      "node %" PRIu64 ": its disk is slow, a flush takes "
                      "%" PRIu64 " ms%s: see what else uses it",
                      value_number(node, "node"),
                      value_number(node, "flush_us") / 1000,
                      nodes_is_leader(node)
                          ? "; it leads, so each change waits for it"
                          : "");
        }
    }
}

/* Prints the slow links of the leader, if it was asked. */
static void tell_of_links(const struct tool *tool, json_t *nodes)
{
    json_t *best = nodes_best(nodes), *member;
    size_t i;
    if (best == NULL || !nodes_is_leader(best)) {
        return;
    }
    json_array_foreach (value_at(best, "members"), i, member) {
        json_int_t us = json_integer_value(value_at(member, "round_trip_us"));
        if (us >= SLOW_LINK_US) {
            tool_say(tool,
                     "the link between leader %" PRIu64 " and member %" PRIu64
                     " is slow: %" JSON_INTEGER_FORMAT " ms round trip",
                     value_number(best, "node"), value_number(member, "id"),
                     us / 1000);
        }
    }
}

/* Older changes of the leader are not reported. */
#define STEPPED_DOWN_MS 600000

static void tell_of_leaders(const struct tool *tool, json_t *nodes)
{
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        json_int_t ago_ms = json_integer_value(
            value_at(node, "stepped_down_ms"));
        if (value_text(node, "stepped_down")[0] != '\0' &&
            !nodes_is_foreign(node) && ago_ms < STEPPED_DOWN_MS) {
            tool_say(tool, "node %" PRIu64 " stepped down %s ago, %s",
                     value_number(node, "node"), DURATION((uint64_t)ago_ms),
                     value_text(node, "stepped_down"));
        }
    }
}

/* Prints the problems, last and on stderr, so that they are noticed. */
static int status_judge(json_t *nodes)
{
    size_t i, reached = 0, refusing = 0, leaders = 0;
    uint64_t quarantine_ms = 0;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        const char *why = value_text(node, "error");
        uint64_t left_ms = value_number(node, "quarantine_ms");
        /* The longest time that any node reports. */
        quarantine_ms = u64_max(left_ms, quarantine_ms);
        reached += why[0] == '\0';
        leaders += strcmp(value_text(node, "role"), "leader") == 0;
        refusing += strcmp(value_text(node, "role"), "refuses") == 0;
        if (why[0] != '\0') {
            tool_fail(0, "%s", why);
        } else if (nodes_is_foreign(node)) {
            tool_fail(0,
                      "%s: node %" PRIu64
                      " belongs to another cluster; to make it a member of "
                      "this one: correct its configuration, stop it, empty its "
                      "directory, start it, remove it and add it",
                      value_text(node, "endpoint"), value_number(node, "node"));
        } else if (value_text(node, "apart")[0] != '\0') {
            tool_fail(0, "node %" PRIu64 ": %s", value_number(node, "node"),
                      value_text(node, "apart"));
        } else if (value_text(node, "elsewhere")[0] != '\0') {
            tool_fail(0, "node %" PRIu64 ": %s", value_number(node, "node"),
                      value_text(node, "elsewhere"));
        } else if (value_number(node, "machine.drained") != 0) {
            uint64_t id = value_number(node, "node");
            tool_fail(0,
                      "node %" PRIu64
                      ": it is drained, and serves no clients until it is "
                      "restarted, or: hasp member drain %" PRIu64 " --cancel",
                      id, id);
        } else if (disk_trouble(node) != NULL) {
            tool_fail(0,
                      "node %" PRIu64
                      ": its disk %s; while it leads, changes are refused",
                      value_number(node, "node"), disk_trouble(node));
        }
    }
    json_array_foreach (nodes, i, node) {
        /* The leader might be a node that was not asked. */
        leaders += !nodes_is_foreign(node) && value_number(node, "leader") != 0;
    }
    tell_of_flushes(nodes);
    tell_of_quarantine(quarantine_ms);
    if (reached == 0 && refusing > 0) {
        return tool_fail(
            EX_UNAVAILABLE,
            "no status: the nodes that answered refused, see above");
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

/* Marks nodes that are not in the newest configuration: they were removed, or
 * wait to be added. */
static void mark_unlisted(json_t *nodes)
{
    json_t *node, *best = nodes_newest(nodes);
    size_t i;
    json_array_foreach (nodes, i, node) {
        bool has_answered = value_text(node, "error")[0] == '\0';
        if (best != NULL && has_answered && !nodes_is_foreign(node) &&
            nodes_member(best, value_number(node, "node")) == NULL) {
            bool was_one = json_array_size(value_at(node, "members")) > 0;
            json_object_set_new(node, "role",
                                json_string(was_one ? "removed" : "not added"));
        }
    }
}

/* True if the node with this id has answered. */
static bool status_answers(json_t *nodes, uint64_t id)
{
    json_t *node;
    size_t i;
    json_array_foreach (nodes, i, node) {
        if (value_number(node, "node") == id && !nodes_is_foreign(node) &&
            value_text(node, "error")[0] == '\0') {
            return true;
        }
    }
    return false;
}

struct status_tally {
    size_t members, up;
    size_t voters, voters_up;
    /* Nodes that answer this tool but that the leader does not hear. */
    uint64_t unheard;
};

/* Counts the nodes that are up: they answer this tool, and the leader, if
 * there is one, hears them. */
static struct status_tally status_count(json_t *nodes, json_t *best)
{
    struct status_tally tally = {0};
    json_t *member;
    size_t i;
    json_array_foreach (value_at(best, "members"), i, member) {
        uint64_t id = value_number(member, "id");
        json_int_t silence_ms = json_integer_value(
            value_at(member, "last_contact_ms"));
        bool is_voter = strcmp(value_text(member, "role"), "voter") == 0;
        bool is_up = status_answers(nodes, id);
        if (is_up && nodes_is_leader(best) &&
            (silence_ms < 0 || silence_ms > SILENCE_MS)) {
            tally.unheard = id;
            is_up = false;
        }
        tally.members++;
        tally.up += is_up;
        tally.voters += is_voter;
        tally.voters_up += is_voter && is_up;
    }
    return tally;
}

bool status_sum_up(json_t *nodes, char out[STATUS_LINE_SIZE],
                   uint64_t *ret_unheard)
{
    json_t *best = nodes_best(nodes);
    struct status_tally tally = status_count(nodes, best);
    size_t majority = tally.voters / 2 + 1;
    size_t spare = tally.voters_up > majority ? tally.voters_up - majority : 0;
    char others[64] = "";
    *ret_unheard = tally.unheard;
    if (tally.members > tally.voters) {
        snprintf(others, sizeof others, " (voters: %zu of %zu)",
                 tally.voters_up, tally.voters);
    }
    int size = snprintf(out, STATUS_LINE_SIZE, "%zu of %zu up%s, ", tally.up,
                        tally.members, others);
    char *rest = out + size;
    size_t room = STATUS_LINE_SIZE - (size_t)size;
    if (value_number(best, "leader") != 0) {
        snprintf(rest, room, "leader %" PRIu64 ", can lose %zu",
                 value_number(best, "leader"), spare);
    } else if (tally.voters_up < majority) {
        snprintf(rest, room, "no leader: %zu more must start",
                 majority - tally.voters_up);
    } else {
        snprintf(rest, room,
                 "no leader: check that the nodes reach each other");
    }
    return tally.members > 0;
}

static void sum_up(const struct tool *tool, json_t *nodes)
{
    char line[STATUS_LINE_SIZE];
    uint64_t unheard;
    bool is_known = status_sum_up(nodes, line, &unheard);
    if (unheard != 0) {
        tool_fail(
            0,
            "member %" PRIu64 " answers, but leader %" PRIu64
            " does not hear it: check the network between their peer addresses",
            unheard, value_number(nodes_best(nodes), "node"));
    }
    /* Plain lines are for scripts, whose stderr cron mails to a person. */
    if (is_known && tool->format != FORMAT_PLAIN) {
        tool_say(tool, "%s", line);
    }
}

/* Reports an upgrade that can be finalized. The leader decides that, and might
 * be a node that was not asked. */
static void tell_of_upgrade(const struct tool *tool, json_t *nodes)
{
    uint64_t possible = 0, present = 0;
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        uint64_t level = value_number(node, "finalize_level");
        if (level > possible) {
            possible = level;
            present = value_number(node, "cluster_level");
        }
    }
    if (possible > 0) {
        tool_say(tool,
                 "finalize possible: all members understand feature level "
                 "%" PRIu64 ", the cluster has %" PRIu64
                 "; once you no longer want to go back: hasp cluster finalize",
                 possible, present);
    }
}

static void tell_of_certificate(const char *whose, int64_t days)
{
    if (days < TLS_SOON_DAYS) {
        tool_fail(0, "%s expires in %" PRId64 " days: hasp cert renew", whose,
                  days);
    }
}

static void tell_of_users(json_t *nodes)
{
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        if (strcmp(value_text(node, "users"), "unenforced") == 0) {
            tool_fail(0,
                      "node %" PRIu64 ": users are not enforced: the peer "
                      "port is plain",
                      value_number(node, "node"));
        }
    }
}

/* Reports certificates that expire soon, this user's own included. */
static void tell_of_certificates(const struct tool *tool, json_t *nodes)
{
    char whose[64];
    size_t i;
    json_t *node;
    json_array_foreach (nodes, i, node) {
        json_t *days = value_at(node, "certificate_days");
        snprintf(whose, sizeof whose, "the certificate of node %" PRIu64,
                 value_number(node, "node"));
        if (days != NULL) {
            tell_of_certificate(whose, json_integer_value(days));
        }
    }
    struct tls_context *own = shown_context(tool->shown);
    if (own != NULL && tls_context_certificate_until(own) != 0) {
        tell_of_certificate("your certificate",
                            tls_days_until(tls_context_certificate_until(own)));
    }
    tls_context_unref(own);
}

int run_status(struct tool *tool, char **argv)
{
    json_auto_t *nodes = nodes_sorted(nodes_ask(tool, NODES_MEMBERS), "node");
    (void)argv;
    mark_unlisted(nodes);
    output_rows(tool->format, node_fields, nodes);
    int exit_code = status_judge(nodes);
    sum_up(tool, nodes);
    tell_of_links(tool, nodes);
    tell_of_leaders(tool, nodes);
    tell_of_upgrade(tool, nodes);
    tell_of_users(nodes);
    tell_of_certificates(tool, nodes);
    return exit_code;
}

/* Asks a serving leader whether it is in quarantine and so grants nothing. */
static void ask_for_quarantine(struct tool *tool)
{
    json_auto_t *status = NULL;
    if (tool_ask(tool, WORDS("RAFT.STATUS"), "no status", &status) == 0) {
        tell_of_quarantine(value_number(status, "quarantine_ms"));
    }
}

/* A leader with a full disk answers heartbeats and reads, and grants nothing.
 * It stays leader only if no other member has room. A leader with a slow disk
 * grants slowly. */
static int ask_for_room(struct tool *tool)
{
    json_auto_t *nodes = nodes_ask(tool, NODES_LEADER);
    json_t *newest = nodes_newest(nodes);
    tell_of_flushes(nodes);
    if (newest == NULL || !nodes_is_leader(newest) ||
        disk_trouble(newest) == NULL) {
        return 0;
    }
    return tool_fail(EX_UNAVAILABLE,
                     "changes are refused: the disk of the leader, node "
                     "%" PRIu64 ", %s",
                     value_number(newest, "node"), disk_trouble(newest));
}

/* Sends a read that only a confirmed leader answers, so an answer proves that
 * there is a majority. */
int run_health(struct tool *tool, char **argv)
{
    int exit_code = tool_ask(tool, WORDS("LOCK.LIST", "COUNT", "1"),
                             "not healthy", NULL);
    (void)argv;
    exit_code = exit_code ?: ask_for_room(tool);
    json_auto_t *record = json_pack("{s:b}", "healthy", exit_code == 0);
    output_record(tool->format, health_fields, record);
    if (exit_code == 0) {
        ask_for_quarantine(tool);
    }
    return exit_code;
}

int run_version(struct tool *tool, char **argv)
{
    json_auto_t *nodes = nodes_ask(tool, NODES_NAMED), *rows = json_array();
    json_t *node;
    size_t i;
    (void)argv;
    json_array_append_new(rows, json_pack("{s:s, s:s}", "endpoint", "hasp",
                                          "version", HASP_VERSION));
    json_array_foreach (nodes, i, node) {
        const char *version = value_text(node, "version");
        json_array_append_new(
            rows,
            json_pack("{s:s, s:s}", "endpoint", value_text(node, "endpoint"),
                      "version",
                      version[0] != '\0' ? version : value_text(node, "role")));
    }
    output_rows(tool->format, version_fields, rows);
    return 0;
}
