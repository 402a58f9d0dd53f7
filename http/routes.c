/* SPDX-License-Identifier: MIT */

/* The table of routes, and finding one. */

#include "http/routes.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/options.h"

#define NAME_MAX_BYTES 511
#define NUMBER_MAX ((UINT64_C(1) << 53) - 1)
#define OWNER_MAX 128
#define TERRAFORM_NAME_MAX (NAME_MAX_BYTES - sizeof "terraform/" + 1)

#define END \
    {       \
        0   \
    }
#define NAME(summary)                                                        \
    {                                                                        \
        "name", FIELD_TEXT, NULL, 1, NAME_MAX_BYTES, FIELD_REQUIRED, summary \
    }
#define LOCK NAME("The lock's name.")
#define OPTION(name, kind, word, summary)  \
    {                                      \
        name, kind, word, 0, 0, 0, summary \
    }
#define TOKEN                                                       \
    {                                                               \
        "token", FIELD_NUMBER, NULL, 1, NUMBER_MAX, FIELD_REQUIRED, \
            "The token of a hold."                                  \
    }
#define ID(summary)                                                     \
    {                                                                   \
        "id", FIELD_NUMBER, NULL, 1, INT64_MAX, FIELD_REQUIRED, summary \
    }
#define BY OPTION("by", FIELD_TEXT, "BY", "Author of the change, for the log.")
#define OWNER OPTION("owner", FIELD_TEXT, "OWNER", "The owner; default: \"\".")
#define NUMBERED                                                        \
    OPTION("req", FIELD_NUMBER, "REQ",                                  \
           "A retry with the same number does not repeat the change."), \
        OPTION("acked", FIELD_ACKED, "ACKED",                           \
               "Up to this number all are answered; or \"4,6-9\".")
#define POLL                                                              \
    {                                                                     \
        "poll_ms", FIELD_NUMBER, NULL, 0, 50000, FIELD_ASIDE,             \
            "How long to wait for the answer before 202; default: 50000." \
    }
#define PAGE_PLACE                                                             \
    OPTION("count", FIELD_NUMBER, "COUNT", "Entries per page; default: 100."), \
        OPTION("cursor", FIELD_TEXT, "CURSOR",                                 \
               "The previous page's cursor; \"0\" ends the list.")
#define PAGE                                                                \
    OPTION("prefix", FIELD_TEXT, "PREFIX", "Only names with this prefix."), \
        PAGE_PLACE
#define ACQUIRING                                                        \
    OPTION("shared", FIELD_FLAG, "SHARED",                               \
           "Whether others may hold it, too."),                          \
        OPTION("slots", FIELD_NUMBER, "SLOTS", "How many may hold it."), \
        OPTION("wait_ms", FIELD_NUMBER, "WAIT",                          \
               "How long to wait in the queue; needs req. Default: 0."), \
        POLL, OWNER,                                                     \
        OPTION("value", FIELD_TEXT, "VALUE", "A text for people."),      \
        OPTION("barge", FIELD_FLAG, "BARGE", "Pass the queue."),         \
        OPTION("delay_ms", FIELD_NUMBER, "DELAY",                        \
               "How long the lock stays closed if the hold expires."),   \
        OPTION("hold_ms", FIELD_NUMBER, "HOLD",                          \
               "The longest time that the lock is held."),               \
        NUMBERED

static const struct field no_fields[] = {END};
static const struct field change_fields[] = {NUMBERED, END};
static const struct field keep_fields[] = {
    OPTION("after", FIELD_NUMBER, "AFTER",
           "The number of the newest notice received: only later ones are "
           "returned."),
    END};
static const struct field holds_fields[] = {PAGE, END};
static const struct field open_fields[] = {
    OPTION("ttl_ms", FIELD_NUMBER, "TTL",
           "The length of its lease; default: 10000."),
    OPTION("durable", FIELD_FLAG, "TTL NONE",
           "Without lease and end; excludes ttl_ms."),
    OPTION("name", FIELD_TEXT, "NAME", "The client's name, for people."),
    OPTION("linger_ms", FIELD_NUMBER, "LINGER",
           "How much of the lease is left after its last stream or RESP "
           "connection has closed; default: all of it."),
    OPTION("labels", FIELD_PAIRS, "LABEL", "Up to 16, for people."),
    OPTION("proof", FIELD_TEXT, "PROOF",
           "The SHA-256 of a secret that the client has chosen, in hex; the "
           "answer then has no secret."),
    OPTION("will", FIELD_TEXT, "WILL",
           "The SHA-256 of the session's death word, in hex (SESSION.DIED)."),
    END};
static const struct field died_fields[] = {
    {"words", FIELD_PAIRS, NULL, 0, 0, FIELD_REQUIRED,
     "The death word of each session, up to 100, by the session's id."},
    END};
static const struct field id_fields[] = {ID("The session's id."), END};
static const struct field page_fields[] = {PAGE, END};
static const struct field audit_fields[] = {
    OPTION("after", FIELD_NUMBER, "AFTER",
           "Only acts after this index; default: the newest."),
    OPTION("count", FIELD_NUMBER, "COUNT", "How many acts; default: 100."),
    END};
static const struct field slow_fields[] = {
    OPTION("count", FIELD_NUMBER, "COUNT", "How many requests; default: 100."),
    END};
static const struct field why_fields[] = {LOCK, END};
static const struct field show_fields[] = {
    LOCK,
    OPTION("cursor", FIELD_TEXT, "CURSOR",
           "The cursor of the previous answer, if that was incomplete; "
           "default: the beginning."),
    END};
#define PREFIX OPTION("prefix", FIELD_TEXT, "PREFIX", "Only such locks.")
static const struct field top_fields[] = {
    PREFIX,
    OPTION("count", FIELD_NUMBER, "COUNT",
           "How many of each kind; default: 20."),
    END};
static const struct field graph_fields[] = {PREFIX, END};
static const struct field acquire_fields[] = {LOCK, ACQUIRING, END};
static const struct field acquire_many_fields[] = {
    {"names", FIELD_TEXTS, NULL, 1, 64, FIELD_REQUIRED,
     "The locks, up to 64; all or none."},
    ACQUIRING,
    END};
static const struct field release_fields[] = {
    LOCK, OWNER,
    OPTION("token", FIELD_NUMBER, "TOKEN", "Only the hold with this token."),
    NUMBERED, END};
static const struct field release_many_fields[] = {
    {"names", FIELD_TEXTS, NULL, 1, 64, FIELD_REQUIRED,
     "The locks, up to 64; those that are not held are skipped."},
    OPTION("tokens", FIELD_NUMBERS, "TOKENS",
           "Only the holds with these tokens, one per name."),
    OWNER,
    NUMBERED,
    END};
static const struct field convert_fields[] = {
    LOCK,
    {"to", FIELD_CHOICE, "SHARED|EXCLUSIVE", 0, 0, FIELD_REQUIRED,
     "The new mode."},
    OPTION("token", FIELD_NUMBER, "TOKEN", "Only the hold with this token."),
    OPTION("wait_ms", FIELD_NUMBER, "WAIT",
           "How long to wait for other readers; needs req. Default: 0."),
    POLL,
    OWNER,
    NUMBERED,
    END};
static const struct field cancel_fields[] = {LOCK, OWNER, NUMBERED, END};
static const struct field note_fields[] = {
    LOCK,
    TOKEN,
    {"note", FIELD_TEXT, NULL, 0, 4096, FIELD_REQUIRED,
     "The text stored at the lock; \"\" removes it."},
    OWNER,
    NUMBERED,
    END};
static const struct field please_fields[] = {
    LOCK, OPTION("message", FIELD_TEXT, "MESSAGE", "A text for the holders."),
    BY, END};
static const struct field break_fields[] = {
    LOCK,
    {"after_ms", FIELD_NUMBER, "AFTER", 0, 0, FIELD_REQUIRED,
     "How long the holder may object."},
    OPTION("session", FIELD_NUMBER, "SESSION", "The holder's session."),
    OPTION("reason", FIELD_TEXT, "REASON", "A text for the holder."),
    BY,
    END};
static const struct field object_fields[] = {
    LOCK,
    OPTION("token", FIELD_NUMBER, "TOKEN", "Only the hold with this token."),
    OPTION("message", FIELD_TEXT, "MESSAGE",
           "A text for the session that breaks the hold."),
    OWNER,
    NUMBERED,
    END};
static const struct field release_if_fields[] = {
    LOCK,
    {"owner", FIELD_TEXT, "OWNER", 0, OWNER_MAX, FIELD_REQUIRED,
     "The holder's owner."},
    OPTION("session", FIELD_NUMBER, "SESSION", "The holder's session."),
    OPTION("token", FIELD_NUMBER, "TOKEN", "The holder's token."),
    BY,
    END};
static const struct field history_fields[] = {
    LOCK,
    OPTION("count", FIELD_NUMBER, "COUNT",
           "How many of the newest events; default: 100."),
    END};
static const struct field check_fields[] = {
    LOCK, TOKEN,
    OPTION("session", FIELD_NUMBER, "SESSION",
           "The session that must hold it."),
    END};
static const struct field take_fields[] = {
    NAME("The lock's name; it may contain a slash."),
    {"holder", FIELD_TEXT, NULL, 1, 4096, FIELD_REQUIRED | FIELD_ASIDE,
     "The holder's name: best a random text, new for each run."},
    {"ttl_ms", FIELD_NUMBER, NULL, 1, 3600000, FIELD_REQUIRED | FIELD_ASIDE,
     "How long the lock is held without a renewal."},
    {"renew", FIELD_FLAG, NULL, 0, 0, FIELD_ASIDE,
     "true: only extend what this holder has, acquire nothing."},
    END};
static const struct field drop_fields[] = {NAME("The lock's name."),
                                           {"holder", FIELD_TEXT, NULL, 1, 4096,
                                            FIELD_REQUIRED | FIELD_ASIDE,
                                            "The holder's name."},
                                           END};
static const struct field terraform_fields[] = {
    {"name", FIELD_TEXT, NULL, 1, TERRAFORM_NAME_MAX, FIELD_REQUIRED,
     "Which state; the lock's name is terraform/NAME."},
    {"ttl_ms", FIELD_NUMBER, NULL, 1, 3600000, FIELD_ASIDE,
     "How long the lock is held at most, since nobody renews it; default: "
     "until it is released. UNLOCK ignores it."},
    END};
#define RESOURCE                                                         \
    {                                                                    \
        "resource", FIELD_TEXT, NULL, 1, NAME_MAX_BYTES, FIELD_REQUIRED, \
            "The resource that the fence protects."                      \
    }
static const struct field fence_fields[] = {RESOURCE, END};
static const struct field admit_fields[] = {
    RESOURCE,
    TOKEN,
    {"gate", FIELD_FLAG, NULL, 0, 0, FIELD_ASIDE,
     "Answers 403 instead of 0, for a proxy that reads only the status."},
    END};
static const struct field fence_remove_fields[] = {RESOURCE, BY, END};
#define LISTED                                                            \
    OPTION("session", FIELD_NUMBER, "SESSION", "A session's id, or ..."), \
        OPTION("client", FIELD_TEXT, "CLIENT",                            \
               "... a pattern of clients' names (*, ?, [a-z]).")
static const struct field blacklist_add_fields[] = {
    LISTED,
    OPTION("reason", FIELD_TEXT, "REASON", "The reason that they are given."),
    BY, OPTION("for_ms", FIELD_NUMBER, "FOR", "How long; default: for ever."),
    END};
static const struct field blacklist_fields[] = {PAGE_PLACE, END};
static const struct field blacklist_remove_fields[] = {LISTED, BY, END};
static const struct field limit_fields[] = {
    {"limit", FIELD_TEXT, NULL, 1, 64, FIELD_REQUIRED, "The limit's name."},
    {"value", FIELD_NUMBER, NULL, 0, NUMBER_MAX, FIELD_REQUIRED,
     "The new value."},
    BY,
    END};
static const struct field setting_fields[] = {
    {"setting", FIELD_TEXT, NULL, 1, 64, FIELD_REQUIRED, "The setting's name."},
    {"value", FIELD_TEXT, NULL, 0, 1024, FIELD_REQUIRED, "The new value."},
    OPTION("for_ms", FIELD_NUMBER, "FOR",
           "How long; default: until the node ends."),
    BY,
    END};
static const struct field drain_fields[] = {
    OPTION("cancel", FIELD_FLAG, "CANCEL", "Whether the node serves again."),
    OPTION("force", FIELD_FLAG, "FORCE",
           "Even if the other voters are no majority."),
    BY, END};
static const struct field add_fields[] = {
    ID("The id of the new member."),
    {"address", FIELD_TEXT, NULL, 1, 127, FIELD_REQUIRED,
     "peer-host:port,client-host:port."},
    OPTION("standby", FIELD_FLAG, "STANDBY",
           "Whether it only replicates and does not vote."),
    {"incarnation", FIELD_TEXT, "INCARNATION", 16, 16, 0,
     "The number of its data directory, in hex; default: the node is asked."},
    BY,
    END};
static const struct field update_fields[] = {
    ID("The member's id."),
    {"address", FIELD_TEXT, NULL, 1, 127, FIELD_REQUIRED,
     "peer-host:port,client-host:port; without the second it keeps its own."},
    BY,
    END};
static const struct field member_fields[] = {ID("The member's id."), BY, END};
static const struct field member_force_fields[] = {
    ID("The member's id."),
    OPTION("force", FIELD_FLAG, "FORCE",
           "Do it even if the remaining members may have no majority."),
    BY, END};
static const struct field replace_fields[] = {
    ID("The member's id."),
    OPTION("force", FIELD_FLAG, "FORCE",
           "Do it even if the nodes do not authenticate each other."),
    BY, END};
static const struct field transfer_fields[] = {
    {"id", FIELD_NUMBER, NULL, 1, INT64_MAX, 0,
     "The member that takes over; default: any voter."},
    BY,
    END};
static const struct field by_fields[] = {BY, END};
static const struct field quarantine_fields[] = {
    {"reason", FIELD_TEXT, "REASON", 0, 0, FIELD_REQUIRED,
     "Why no client from before the restore can still trust a lease."},
    BY,
    END};
static const struct field event_fields[] = {
    {"prefix", FIELD_TEXT, NULL, 0, NAME_MAX_BYTES, FIELD_ASIDE,
     "Only locks with this prefix; default: all."},
    {"from", FIELD_TEXT, NULL, 1, 64, FIELD_ASIDE,
     "Only events after this id; default: the header Last-Event-ID, else from "
     "now."},
    END};

#define MAP(shape)              \
    {                           \
        ANSWER_MAP, NULL, shape \
    }
#define MEMBER(name, type)        \
    {                             \
        ANSWER_MEMBER, name, type \
    }
#define LIST(name, shape)        \
    {                            \
        ANSWER_LIST, name, shape \
    }
#define PAGES(name, shape)       \
    {                            \
        ANSWER_PAGE, name, shape \
    }
#define OK MEMBER("ok", "yes")
#define SESSION ROUTE_NEEDS_SESSION
#define ACQUIRES (ROUTE_NEEDS_SESSION | ROUTE_MAY_BE_HELD | ROUTE_WAITS)

#define TERRAFORM(method, kind, member, summary)                            \
    {                                                                       \
        method, "/v1/terraform/{name}", kind, NULL, NULL, terraform_fields, \
            MEMBER(member, "integer"), ROUTE_OWN_BODY, summary              \
    }

const struct route routes[] = {
    {"POST", "/v1/session/open", ROUTE_COMMAND, "SESSION.OPEN", NULL,
     open_fields, MAP("OpenedSession"), 0, "Opens a session."},
    {"POST", "/v1/session/keep", ROUTE_COMMAND, "SESSION.KEEP", "FULL",
     keep_fields, MAP("KeptSession"), ROUTE_KEEPS, "Renews a session's lease."},
    {"GET", "/v1/session/holds", ROUTE_COMMAND, "SESSION.HOLDS", NULL,
     holds_fields, MAP("Holds"), SESSION,
     "Lists what a session holds, in the order of the locks' names."},
    {"POST", "/v1/session/close", ROUTE_COMMAND, "SESSION.CLOSE", NULL,
     change_fields, MEMBER("released", "integer"), SESSION,
     "Ends a session and releases what it holds."},
    {"POST", "/v1/session/died", ROUTE_COMMAND, "SESSION.DIED", NULL,
     died_fields, MEMBER("ended", "integer"), 0,
     "Ends sessions whose processes are dead; returns how many."},
    {"GET", "/v1/session/stream", ROUTE_PRESENCE, NULL, NULL, no_fields,
     MEMBER(NULL, NULL), SESSION,
     "Streams events for a session; if it has linger_ms, the end of its last "
     "stream shortens the lease to that."},
    {"GET", "/v1/sessions", ROUTE_COMMAND, "SESSION.LIST", NULL, page_fields,
     PAGES("sessions", "Session"), 0, "Lists sessions."},
    {"GET", "/v1/sessions/{id}", ROUTE_COMMAND, "SESSION.SHOW", NULL, id_fields,
     MAP("Session"), 0, "Shows a session."},

    {"POST", "/v1/lock/acquire", ROUTE_COMMAND, "LOCK.ACQUIRE", "FULL",
     acquire_fields, MAP("Grant"), ACQUIRES | ROUTE_TRACED, "Acquires a lock."},
    {"POST", "/v1/lock/acquire-many", ROUTE_COMMAND, "LOCK.MACQUIRE", "FULL",
     acquire_many_fields, LIST("grants", "Grant"), ACQUIRES | ROUTE_TRACED,
     "Acquires several locks, all or none."},
    {"POST", "/v1/lock/release", ROUTE_COMMAND, "LOCK.RELEASE", NULL,
     release_fields, MEMBER("left", "integer"), SESSION,
     "Releases a lock; returns how many holds this owner has left."},
    {"POST", "/v1/lock/release-many", ROUTE_COMMAND, "LOCK.MRELEASE", NULL,
     release_many_fields, MEMBER("released", "integer"), SESSION,
     "Releases several locks; returns how many."},
    {"POST", "/v1/lock/convert", ROUTE_COMMAND, "LOCK.CONVERT", "FULL",
     convert_fields, MAP("Grant"), ACQUIRES,
     "Changes a hold between shared and exclusive."},
    {"POST", "/v1/lock/cancel", ROUTE_COMMAND, "LOCK.CANCEL", NULL,
     cancel_fields, MEMBER("cancelled", "integer"), SESSION,
     "Leaves a lock's queue."},
    {"POST", "/v1/lock/note", ROUTE_COMMAND, "LOCK.NOTE", NULL, note_fields, OK,
     SESSION, "Stores bytes at a lock that the session holds."},
    {"POST", "/v1/lock/please", ROUTE_COMMAND, "LOCK.PLEASE", NULL,
     please_fields, MEMBER("notified", "integer"), 0,
     "Asks a lock's holders to release it."},
    {"POST", "/v1/lock/release-if", ROUTE_COMMAND, "LOCK.RELEASEIF", NULL,
     release_if_fields, MEMBER("released", "integer"), 0,
     "Releases a lock for a holder that is known to have stopped."},
    {"POST", "/v1/lock/break", ROUTE_COMMAND, "LOCK.BREAK", NULL, break_fields,
     MEMBER("announced", "integer"), 0,
     "Breaks durable holds, unless their holders object in time."},
    {"POST", "/v1/lock/object", ROUTE_COMMAND, "LOCK.OBJECT", NULL,
     object_fields, MEMBER("kept", "integer"), SESSION,
     "Keeps a hold that would be broken: 1; 0: none would be."},
    {"GET", "/v1/lock/check", ROUTE_COMMAND, "LOCK.CHECK", NULL, check_fields,
     MEMBER("holds", "integer"), 0,
     "Checks whether a token still belongs to a holder: 1, otherwise 0."},
    {"GET", "/v1/lock/why", ROUTE_COMMAND, "LOCK.WHY", NULL, why_fields,
     MAP("Why"), 0, "Explains why a lock is not free, and until when."},
    {"GET", "/v1/top", ROUTE_COMMAND, "LOCK.TOP", NULL, top_fields, MAP("Top"),
     0, "Lists the hottest locks and the longest waits."},
    {"GET", "/v1/graph", ROUTE_COMMAND, "LOCK.GRAPH", NULL, graph_fields,
     MAP("Graph"), 0, "Shows which sessions wait for which."},
    {"GET", "/v1/locks", ROUTE_COMMAND, "LOCK.LIST", NULL, page_fields,
     PAGES("locks", "Lock"), 0, "Lists locks in the order of their names."},
    {"GET", "/v1/locks/{name}", ROUTE_COMMAND, "LOCK.SHOW", NULL, show_fields,
     MAP("Lock"), 0, "Shows a lock's holders and queue."},

    {"GET", "/v1/history/{name}", ROUTE_COMMAND, "LOCK.HISTORY", NULL,
     history_fields, MAP("History"), 0,
     "Lists the newest events of a lock that the asked node knows."},

    {"PUT", "/v1/lease/{name}", ROUTE_LEASE_TAKE, "SET", NULL, take_fields,
     MAP("Lease"), 0, "Acquires a lock for a time, or renews it."},
    {"DELETE", "/v1/lease/{name}", ROUTE_LEASE_DROP, "EVAL", NULL, drop_fields,
     MEMBER("released", "integer"), 0, "Releases such a lock."},

    TERRAFORM("LOCK", ROUTE_TERRAFORM_LOCK, "token",
              "Locks a state of Terraform."),
    TERRAFORM("PUT", ROUTE_TERRAFORM_LOCK, "token",
              "Locks a state of Terraform."),
    TERRAFORM("POST", ROUTE_TERRAFORM_LOCK, "token",
              "Locks a state of Terraform."),
    TERRAFORM("UNLOCK", ROUTE_TERRAFORM_UNLOCK, "released", "Unlocks it."),
    TERRAFORM("DELETE", ROUTE_TERRAFORM_UNLOCK, "released", "Unlocks it."),
    {"POST", "/v1/pre-reboot", ROUTE_FLEETLOCK_TAKE, NULL, NULL, no_fields,
     MEMBER("ok", "yes"), ROUTE_OWN_BODY,
     "Lets a machine of a fleet reboot (FleetLock)."},
    {"POST", "/v1/steady-state", ROUTE_FLEETLOCK_DROP, NULL, NULL, no_fields,
     MEMBER("ok", "yes"), ROUTE_OWN_BODY,
     "Reports that a machine of a fleet has rebooted (FleetLock)."},

    {"POST", "/v1/fence/admit", ROUTE_COMMAND, "FENCE.ADMIT", NULL,
     admit_fields, MEMBER("admitted", "integer"), ROUTE_IS_GATE,
     "Admits a token: 1 if no higher one has been admitted, otherwise 0."},
    {"POST", "/v1/fence/remove", ROUTE_COMMAND, "FENCE.REMOVE", NULL,
     fence_remove_fields, MEMBER("removed", "integer"), 0,
     "Forgets the highest token of a resource."},
    {"GET", "/v1/fences", ROUTE_COMMAND, "FENCE.LIST", NULL, page_fields,
     PAGES("fences", "Fence"), 0, "Lists fences."},
    {"GET", "/v1/fences/{resource}", ROUTE_COMMAND, "FENCE.SHOW", NULL,
     fence_fields, MEMBER("token", "integer"), 0,
     "Shows the highest token that was admitted; 0: none."},

    {"POST", "/v1/blacklist/add", ROUTE_COMMAND, "BLACKLIST.ADD", NULL,
     blacklist_add_fields, OK, 0,
     "Refuses the heartbeats of a session or of clients."},
    {"POST", "/v1/blacklist/remove", ROUTE_COMMAND, "BLACKLIST.REMOVE", NULL,
     blacklist_remove_fields, MEMBER("removed", "integer"), 0, "Reverts that."},
    {"GET", "/v1/blacklist", ROUTE_COMMAND, "BLACKLIST.LIST", NULL,
     blacklist_fields, PAGES("blacklist", "Blacklisted"), 0,
     "Lists the blacklist."},
    {"GET", "/v1/limits", ROUTE_COMMAND, "LIMITS.LIST", NULL, no_fields,
     LIST("limits", "Limit"), 0, "Lists the limits of the cluster's state."},
    {"POST", "/v1/limits/set", ROUTE_COMMAND, "LIMITS.SET", NULL, limit_fields,
     OK, 0, "Changes a limit."},

    {"GET", "/v1/audit", ROUTE_COMMAND, "AUDIT.LIST", NULL, audit_fields,
     LIST("acts", "Act"), 0, "Lists administrative acts."},
    {"GET", "/v1/whoami", ROUTE_COMMAND, "WHOAMI", NULL, no_fields,
     MAP("Whoami"), 0, "Shows the user and its rights."},
    {"GET", "/v1/status", ROUTE_COMMAND, "RAFT.STATUS", NULL, no_fields,
     MAP("Status"), 0, "Shows the asked node, and its view of the cluster."},
    {"POST", "/v1/cluster/add", ROUTE_COMMAND, "RAFT.ADD", NULL, add_fields, OK,
     0, "Adds a member."},
    {"POST", "/v1/cluster/update", ROUTE_COMMAND, "RAFT.UPDATE", NULL,
     update_fields, OK, 0, "Changes a member's addresses."},
    {"POST", "/v1/cluster/promote", ROUTE_COMMAND, "RAFT.PROMOTE", NULL,
     member_fields, OK, 0, "Makes a standby a voter."},
    {"POST", "/v1/cluster/demote", ROUTE_COMMAND, "RAFT.DEMOTE", NULL,
     member_force_fields, OK, 0, "Makes a voter a standby."},
    {"POST", "/v1/cluster/remove", ROUTE_COMMAND, "RAFT.REMOVE", NULL,
     member_force_fields, OK, 0, "Removes a member."},
    {"POST", "/v1/cluster/replace", ROUTE_COMMAND, "RAFT.REPLACE", NULL,
     replace_fields, OK, 0,
     "Lets a voter that lost its data directory return with an empty one."},
    {"POST", "/v1/cluster/transfer", ROUTE_COMMAND, "RAFT.TRANSFER", NULL,
     transfer_fields, OK, 0, "Hands leadership over."},
    {"POST", "/v1/cluster/finalize", ROUTE_COMMAND, "RAFT.FINALIZE", NULL,
     by_fields, MEMBER("level", "integer"), 0,
     "Raises the cluster to the feature level of all members."},
    {"POST", "/v1/cluster/snapshot", ROUTE_COMMAND, "RAFT.SNAPSHOT", NULL,
     by_fields, OK, 0, "Takes a snapshot now."},
    {"GET", "/v1/node/settings", ROUTE_COMMAND, "NODE.SETTINGS", NULL,
     no_fields, LIST("settings", "Setting"), 0,
     "Lists the settings of the asked node."},
    {"POST", "/v1/node/set", ROUTE_COMMAND, "NODE.SET", NULL, setting_fields,
     OK, 0, "Changes a setting of the asked node until it ends."},
    {"GET", "/v1/node/slow", ROUTE_COMMAND, "NODE.SLOW", NULL, slow_fields,
     LIST("requests", "SlowRequest"), 0,
     "Lists slow requests of the asked node."},
    {"POST", "/v1/node/drain", ROUTE_COMMAND, "NODE.DRAIN", NULL, drain_fields,
     MAP("Drained"), 0, "Rids the asked node of clients and of leadership."},
    {"POST", "/v1/quarantine/end", ROUTE_COMMAND, "QUARANTINE.END", NULL,
     quarantine_fields, MEMBER("ended", "integer"), 0,
     "Ends the quarantine after a restore."},

    {"GET", "/v1/events", ROUTE_EVENTS, NULL, NULL, event_fields,
     MEMBER(NULL, "Event"), 0, "Streams the events of locks."},
    {"GET", "/", ROUTE_PAGE, NULL, NULL, no_fields, MEMBER(NULL, NULL), 0,
     "A page for people."},
    {"GET", "/v1/openapi.json", ROUTE_DOCUMENT, NULL, NULL, no_fields,
     MEMBER(NULL, NULL), 0, "This interface, as OpenAPI 3.1."},
    {"GET", "/healthz", ROUTE_MONITOR, NULL, NULL, no_fields,
     MEMBER(NULL, NULL), 0, "200 while the process works."},
    {"GET", "/readyz", ROUTE_MONITOR, NULL, NULL, no_fields, MEMBER(NULL, NULL),
     0, "200 while this node serves clients, otherwise 503 and the reason."},
    {"GET", "/metrics", ROUTE_MONITOR, NULL, NULL, no_fields,
     MEMBER(NULL, NULL), 0, "Metrics for Prometheus."},
};
const uint32_t route_count = sizeof routes / sizeof routes[0];

#define CONSUL(method, path, kind, summary)                            \
    {                                                                  \
        method, path, kind, NULL, NULL, no_fields, MEMBER(NULL, NULL), \
            ROUTE_OWN_BODY, summary                                    \
    }
const struct route consul_routes[] = {
    CONSUL("PUT", "/v1/session/create", ROUTE_CONSUL_CREATE,
           "Opens a session."),
    CONSUL("PUT", "/v1/session/renew/{id}", ROUTE_CONSUL_RENEW,
           "Renews a session."),
    CONSUL("PUT", "/v1/session/destroy/{id}", ROUTE_CONSUL_DESTROY,
           "Ends a session."),
    CONSUL("GET", "/v1/session/info/{id}", ROUTE_CONSUL_INFO,
           "Shows a session."),
    CONSUL("GET", "/v1/session/list", ROUTE_CONSUL_LIST, "Lists sessions."),
    CONSUL("GET", "/v1/session/node/{node}", ROUTE_CONSUL_NODE,
           "Lists the sessions of a node."),
    CONSUL("GET", "/v1/kv/", ROUTE_CONSUL_GET, "Lists all keys."),
    CONSUL("GET", "/v1/kv/{key}", ROUTE_CONSUL_GET, "Shows a key."),
    CONSUL("PUT", "/v1/kv/{key}", ROUTE_CONSUL_PUT,
           "Acquires or releases a key."),
    CONSUL("DELETE", "/v1/kv/{key}", ROUTE_CONSUL_DELETE,
           "Does nothing to a key that nobody holds."),
    CONSUL("GET", "/v1/agent/self", ROUTE_CONSUL_SELF, "Describes this node."),
    CONSUL("GET", "/v1/status/leader", ROUTE_CONSUL_LEADER,
           "Shows the leader's address."),
    CONSUL("GET", "/v1/status/peers", ROUTE_CONSUL_PEERS,
           "Lists the members' addresses."),
};
const uint32_t consul_route_count = sizeof consul_routes /
                                    sizeof consul_routes[0];

#define HOLDER                                                           \
    "session:integer client:text address:text owner:text value:text "    \
    "token:integer mode:text count:integer since_ms:integer "            \
    "lease_left_ms:integer| opened_ms:integer? reason:text? "            \
    "break_left_ms:integer? break_by:text? break_reason:text? "          \
    "hold_left_ms:integer? delay_ms:integer? barged:integer? user:text " \
    "trace:text?"

const struct shape shapes[] = {
    {"OpenedSession",
     "id:integer secret:text? ttl_ms:integer| linger_ms:integer "
     "trust_ms:integer|"},
    {"KeptSession",
     "ttl_ms:integer| linger_ms:integer trust_ms:integer| ended:[EndedHold] "
     "dropped:integer"},
    {"EndedHold", "lock:text owner:text token:integer reason:text "
                  "first:integer number:integer"},
    {"Grant", "lock:text owner:text token:integer first:integer mode:text "
              "count:integer hold_left_ms:integer| delay_ms:integer "
              "as_of:integer"},
    {"Holds", "cursor:text as_of:integer holds:[Grant]"},
    {"Session",
     "id:integer name:text address:text ttl_ms:integer| linger_ms:integer "
     "left_ms:integer| opened_ms:integer? holds:integer waits:integer "
     "labels:{text} "
     "blacklisted:yes user:text will:yes"},
    {"Lock", "name:text note:text? refused_script:text? mode:text "
             "slots:integer holders:[Holder] "
             "queue:[Waiter] delay_left_ms:integer earliest_ms:integer| "
             "more_holders:integer? more_waiters:integer? cursor:text?"},
    {"Holder", HOLDER},
    {"Waiter", "session:integer client:text owner:text mode:text index:integer "
               "waiting_ms:integer user:text trace:text?"},
    {"Why", "name:text note:text? refused_script:text? mode:text "
            "slots:integer holders:[WhyHolder] queue:[Waiter] "
            "delay_left_ms:integer earliest_ms:integer| hold_count:integer "
            "wait_count:integer why:[text]"},
    {"WhyHolder", HOLDER
     " ttl_ms:integer| linger_ms:integer blacklisted:yes waits_for:[text]"},
    {"Top", "window_ms:integer grants:integer lock_count:integer "
            "session_count:integer hold_count:integer wait_count:integer "
            "is_cut:yes locks:[HotLock] waits:[LongWait]"},
    {"HotLock", "name:text grants:integer mode:text holders:integer "
                "queue:integer holder:text holder_session:integer "
                "holder_user:text since_ms:integer"},
    {"LongWait",
     "name:text waiting_ms:integer client:text session:integer user:text "
     "owner:text mode:text holder:text holder_session:integer "
     "holder_user:text"},
    {"Graph", "wait_count:integer is_cut:yes nodes:[GraphNode] "
              "edges:[GraphEdge]"},
    {"GraphNode",
     "session:integer client:text address:text owner:text holds:integer "
     "waits:integer blocks:integer root:yes cycle:yes"},
    {"GraphEdge", "from:integer to:integer lock:text mode:text "
                  "waiting_ms:integer queue:integer"},
    {"Whoami", "user:text by:text access:text roles:[text] "
               "may:[text]"},
    {"Lease", "token:integer trust_ms:integer"},
    {"Fence", "resource:text token:integer"},
    {"Blacklisted",
     "session:integer client:text reason:text by:text for_ms:integer "
     "since_ms:integer"},
    {"Act", "index:integer number:integer time_ms:integer user:text from:text "
            "by:text command:text what:text outcome:text"},
    {"Limit", "name:text value:integer used:integer| min:integer max:integer"},
    {"Setting", "name:text value:text source:text changes:text"},
    {"SlowRequest",
     "number:integer time_ms:integer command:text lock:text client:text "
     "user:text from:text session:integer by_node:integer error:text "
     "trace:text "
     "took_us:integer queue_us:integer forward_us:integer confirm_us:integer "
     "propose_us:integer flush_us:integer replicate_us:integer "
     "apply_us:integer answer_us:integer wait_us:integer"},
    {"Drained", "drained:integer safe:integer leads:integer clients:integer"},
    {"Status",
     "node:integer cluster:text role:text term:integer leader:integer "
     "leader_address:text commit:integer applied:integer members:[Member] "
     "version:text quarantine_ms:integer disk:text flush:text "
     "flush_us:integer level:integer "
     "cluster_level:integer finalize_level:integer users:text "
     "replacement:text stepped_down:text stepped_down_ms:integer "
     "elsewhere:text "
     "apart:text"},
    {"Member", "id:integer address:text role:text match:integer "
               "last_contact_ms:integer level:integer flush_us:integer "
               "round_trip_us:integer clock_ppm:integer"},
    {"Event", "kind:text lock:text session:integer token:integer index:integer "
              "message:text id:text"},
    {"History", "lock:text known_from:integer is_cut:yes events:[PastEvent]"},
    {"PastEvent",
     "id:text time_ms:integer kind:text session:integer token:integer "
     "message:text trace:text?"},
    {"Waiting", "waiting:yes"},
    {"Problem", "title:text status:integer code:text detail:text field:text? "
                "holder:text? token:integer? earliest_ms:integer? yours:yes?"},
};
const uint32_t shape_count = sizeof shapes / sizeof shapes[0];

/* True if the path belongs to this route; then 'ret_rest' is the value of its
 * "{name}". */
static bool is_path_of(const struct route *route, struct bytes path,
                       struct bytes *ret_rest)
{
    size_t size = strcspn(route->path, "{");
    *ret_rest = bytes_of(path.data + path.size, 0);
    if (route->path[size] == '\0') {
        return bytes_equal(path, bytes_of(route->path, size));
    }
    if (path.size <= size || memcmp(path.data, route->path, size) != 0) {
        return false;
    }
    *ret_rest = bytes_of(path.data + size, path.size - size);
    return true;
}

static void routes_find_in(const struct route *table, uint32_t count,
                           const char *method, struct bytes path,
                           struct match *ret_match)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    struct match *match = ret_match;
    *match = (struct match){0};
    for (uint32_t i = 0; i < count; i++) {
        struct bytes rest;
        size_t at = strlen(match->allowed);
        if (!is_path_of(&table[i], path, &rest)) {
            continue;
        }
        bool is_get = strcmp(table[i].method, "GET") == 0;
        snprintf(match->allowed + at, sizeof match->allowed - at, "%s%s%s",
                 at > 0 ? ", " : "", table[i].method, is_get ? ", HEAD" : "");
        if (strcmp(table[i].method, wanted) == 0) {
            match->route = &table[i];
            match->rest = rest;
        }
    }
}

void routes_find(const char *method, struct bytes path, struct match *ret_match)
{
    routes_find_in(routes, route_count, method, path, ret_match);
}

void routes_find_consul(const char *method, struct bytes path,
                        struct match *ret_match)
{
    routes_find_in(consul_routes, consul_route_count, method, path, ret_match);
}

void field_range(const struct field *field, uint64_t *ret_min,
                 uint64_t *ret_max)
{
    *ret_min = field->min;
    *ret_max = field->max;
    if (field->word != NULL && field->kind != FIELD_CHOICE) {
        bool is_option = option_range(field->word, ret_min, ret_max);
        CHECK(is_option);
    }
}

const char *route_parameter(const struct route *route, size_t *ret_size)
{
    const char *at = strchr(route->path, '{');
    if (at != NULL) {
        *ret_size = strlen(at) - 2;
        return at + 1;
    }
    return NULL;
}

bool route_has_query(const struct route *route)
{
    return strcmp(route->method, "GET") == 0 ||
           strcmp(route->method, "DELETE") == 0 ||
           (route->flags & ROUTE_OWN_BODY) != 0;
}
