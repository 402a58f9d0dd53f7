/* SPDX-License-Identifier: MIT */

/* The checks of a cluster. They see what the nodes say of themselves and of
 * each other in RAFT.STATUS. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "cmd/hasp/doctor/doctor.h"

/* As net/round_trip.h and docs/operations.md. */
#define ROUND_TRIP_SLOW_US 50000
/* An election must outlast this many round trips. */
#define ROUND_TRIPS_PER_ELECTION 10
/* Clients believe in their leases for 90 % of them (rule 10), so a clock can
 * be a tenth off; the alert HaspClockOff begins at 1 %. */
#define CLOCK_WARN_PPM 1000
#define CLOCK_FAIL_PPM 10000
#define CERTIFICATE_WARN_DAYS 30
#define CERTIFICATE_FAIL_DAYS 7
/* Entries that a member may lack, as in the alert HaspMemberBehind. */
#define BEHIND_MAX 10000
#define PERCENT_NEAR 80
/* As the alert HaspBackupOld. */
#define BACKUP_AGE_MAX_S 93600
/* As node/last_exit.h. */
#define LAST_EXIT_CRASH 4

#define FOR_EACH_NODE(doctor, i, node)            \
    json_array_foreach ((doctor)->nodes, i, node) \
        if (doctor_has(node))

static json_int_t integer_at(json_t *value, const char *path)
{
    return json_integer_value(value_at(value, path));
}

static uint64_t doctor_node_id(json_t *node)
{
    return value_number(node, "node");
}

/* The client address of a member: what follows the comma. */
static const char *client_address(json_t *member)
{
    const char *comma = strchr(value_text(member, "address"), ',');
    return comma != NULL ? comma + 1 : "";
}

static bool is_on_loopback(const char *address)
{
    char host[256];
    uint16_t port;
    return address_split(address, host, sizeof host, &port) == 0 &&
           address_is_loopback(host);
}

/* --- Who is there --------------------------------------------------------- */

static void doctor_nodes(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    json_array_foreach (doctor->nodes, i, node) {
        const char *why = value_text(node, "error");
        bool refuses = strcmp(value_text(node, "role"), "refuses") == 0;
        if (why[0] == '\0') {
            continue;
        }
        doctor_report(doctor, doctor->best == NULL ? DOCTOR_FAIL : DOCTOR_WARN,
                      refuses ? "give a secret or a certificate of a user, or "
                                "use: hasp --socket DIR doctor"
                              : "start haspd there and see its log: "
                                "journalctl -u haspd -n 50",
                      "%s %s: %s", value_text(node, "endpoint"),
                      refuses ? "refuses to answer" : "does not answer", why);
    }
}

static void doctor_leader(struct doctor *doctor)
{
    if (!doctor->is_serving) {
        doctor_report(doctor, DOCTOR_FAIL,
                      "see the other lines: a majority of the voters must run "
                      "and reach each other",
                      "no leader answers: no lock is granted or renewed");
    }
}

static void doctor_cluster(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    json_array_foreach (doctor->nodes, i, node) {
        if (nodes_is_foreign(node)) {
            doctor_report(doctor, DOCTOR_FAIL,
                          "remove the address from your endpoints, or see "
                          "'Another cluster' in docs/operations.md",
                          "%s: node %" PRIu64 " belongs to another cluster",
                          value_text(node, "endpoint"), doctor_node_id(node));
        } else if (value_text(node, "apart")[0] != '\0') {
            doctor_report(doctor, DOCTOR_FAIL,
                          "see 'Another cluster' in docs/operations.md",
                          "node %" PRIu64 ": %s", doctor_node_id(node),
                          value_text(node, "apart"));
        }
    }
}

static void doctor_voters(struct doctor *doctor)
{
    size_t i, voters = 0;
    json_t *member;
    json_array_foreach (value_at(doctor->best, "members"), i, member) {
        voters += strcmp(value_text(member, "role"), "voter") == 0;
    }
    if (voters < 3) {
        doctor_report(doctor, DOCTOR_WARN,
                      "add nodes until three vote: hasp member add ID "
                      "PEER,CLIENT",
                      "with %zu voters no node can fail", voters);
    } else if (voters % 2 == 0) {
        doctor_report(doctor, DOCTOR_WARN,
                      "add a voter, or make one a standby: hasp member demote "
                      "ID",
                      "%zu voters can lose no more nodes than %zu can", voters,
                      voters - 1);
    }
}

static void doctor_links(struct doctor *doctor)
{
    json_t *node, *member;
    size_t i, j;
    FOR_EACH_NODE(doctor, i, node)
    {
        json_array_foreach (value_at(node, "members"), j, member) {
            uint64_t id = value_number(member, "id");
            if (id != doctor_node_id(node) &&
                value_text(member, "link")[0] == '\0') {
                doctor_report(
                    doctor, DOCTOR_WARN,
                    "start that node, or open the peer ports in both "
                    "directions; hasp doctor --config FILE on each machine "
                    "tries them",
                    "node %" PRIu64 " has no connection with node %" PRIu64
                    " (%.*s)",
                    doctor_node_id(node), id,
                    (int)strcspn(value_text(member, "address"), ","),
                    value_text(member, "address"));
            }
        }
    }
}

static void doctor_behind(struct doctor *doctor)
{
    json_t *member;
    size_t i;
    if (!nodes_is_leader(doctor->best)) {
        return;
    }
    json_array_foreach (value_at(doctor->best, "members"), i, member) {
        uint64_t commit = value_number(doctor->best, "commit");
        uint64_t match = value_number(member, "match");
        if (match + BEHIND_MAX < commit) {
            doctor_report(doctor, DOCTOR_WARN,
                          "see its disk and its link; it catches up by itself",
                          "node %" PRIu64 " lacks %" PRIu64 " entries",
                          value_number(member, "id"), commit - match);
        }
    }
}

static void doctor_addresses(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    FOR_EACH_NODE(doctor, i, node)
    {
        if (value_text(node, "elsewhere")[0] != '\0') {
            doctor_report(doctor, DOCTOR_WARN,
                          "set listen.peer and listen.client, or remove and "
                          "add the node with its new addresses",
                          "node %" PRIu64 ": %s", doctor_node_id(node),
                          value_text(node, "elsewhere"));
        }
        if (value_number(node, "machine.drained") != 0) {
            doctor_report(doctor, DOCTOR_WARN,
                          "hasp member drain ID --cancel, or restart it",
                          "node %" PRIu64 " is drained: it takes no clients "
                          "and does not lead",
                          doctor_node_id(node));
        }
        json_t *replaced = value_at(node, "replaced");
        if (value_text(node, "replacement")[0] != '\0') {
            doctor_report(doctor, DOCTOR_WARN,
                          "do what the reason says, or: hasp member replace ID",
                          "%s", value_text(node, "replacement"));
        } else if (json_array_size(replaced) > 0) {
            doctor_report(doctor, DOCTOR_WARN,
                          "stop the haspd that still runs on the old directory",
                          "node %" PRIu64
                          " refuses an old data directory of node %" PRIu64,
                          doctor_node_id(node), value_number(replaced, "0.id"));
        }
    }
}

/* Adds the client addresses of all members, as HASP_ENDPOINTS has them. */
static void put_endpoints(struct doctor *doctor, char *out, size_t size)
{
    size_t i, at = 0;
    json_t *member;
    json_array_foreach (value_at(doctor->best, "members"), i, member) {
        int added = snprintf(out + at, size - at, "%s%s", i > 0 ? "," : "",
                             client_address(member));
        if (added < 0 || (size_t)added >= size - at) {
            return;
        }
        at += (size_t)added;
    }
}

/* True if the node that answers at this endpoint, or whose address it is, is a
 * member. */
static bool is_endpoint_of_member(struct doctor *doctor, const char *endpoint)
{
    json_t *node, *member;
    size_t i;
    json_array_foreach (doctor->nodes, i, node) {
        if (strcmp(value_text(node, "endpoint"), endpoint) == 0 &&
            doctor_has(node)) {
            return nodes_member(doctor->best, doctor_node_id(node)) != NULL;
        }
    }
    json_array_foreach (value_at(doctor->best, "members"), i, member) {
        if (strcmp(client_address(member), endpoint) == 0) {
            return true;
        }
    }
    return false;
}

static void doctor_endpoints(struct doctor *doctor)
{
    const struct endpoints *all = &doctor->tool->endpoints;
    char mend[1024] = "export HASP_ENDPOINTS=";
    size_t at = strlen(mend), fit = 0;
    size_t members = json_array_size(value_at(doctor->best, "members"));
    if (tool_is_by_door(doctor->tool)) {
        return;
    }
    put_endpoints(doctor, mend + at, sizeof mend - at);
    for (uint32_t i = 0; i < all->count; i++) {
        const char *text = all->endpoint[i].text;
        bool is_member = is_endpoint_of_member(doctor, text);
        fit += is_member;
        if (!is_member) {
            doctor_report(doctor, DOCTOR_WARN, mend,
                          "the endpoint %s is that of no member", text);
        }
    }
    if (fit < 2 && members > 1) {
        doctor_report(doctor, DOCTOR_WARN, mend,
                      "the endpoints name %zu of %zu members: clients with "
                      "these cannot start while it is down",
                      fit, members);
    }
}

/* --- How they do ---------------------------------------------------------- */

static void doctor_round_trips(struct doctor *doctor)
{
    json_t *node, *member;
    size_t i, j;
    FOR_EACH_NODE(doctor, i, node)
    {
        json_t *settings = value_at(node, "settings");
        json_int_t election_us = 1000 * json_integer_value(json_object_get(
                                            settings, "raft.election_ms"));
        json_array_foreach (value_at(node, "members"), j, member) {
            json_int_t us = integer_at(member, "round_trip_us");
            uint64_t id = value_number(member, "id");
            if (election_us > 0 &&
                us * ROUND_TRIPS_PER_ELECTION > election_us) {
                doctor_report(doctor, DOCTOR_FAIL,
                              "raise raft.election_ms at all nodes, or mend "
                              "the link",
                              "nodes %" PRIu64 " and %" PRIu64
                              ": a round trip takes %" JSON_INTEGER_FORMAT
                              " ms, more than a tenth of raft.election_ms",
                              doctor_node_id(node), id, us / 1000);
            } else if (us >= ROUND_TRIP_SLOW_US) {
                doctor_report(doctor, DOCTOR_WARN,
                              "see 'A slow link' in docs/operations.md",
                              "nodes %" PRIu64 " and %" PRIu64
                              ": a round trip takes %" JSON_INTEGER_FORMAT
                              " ms",
                              doctor_node_id(node), id, us / 1000);
            }
        }
    }
}

static void doctor_clocks(struct doctor *doctor)
{
    json_t *node, *member;
    size_t i, j;
    FOR_EACH_NODE(doctor, i, node)
    {
        json_array_foreach (value_at(node, "members"), j, member) {
            json_int_t ppm = integer_at(member, "clock_ppm");
            if (llabs(ppm) >= CLOCK_WARN_PPM) {
                doctor_report(
                    doctor,
                    llabs(ppm) >= CLOCK_FAIL_PPM ? DOCTOR_FAIL : DOCTOR_WARN,
                    "see 'Clocks' in docs/operations.md; move the node whose "
                    "clock is named most often to another machine",
                    "by the clock of node %" PRIu64 ", that of node %" PRIu64
                    " runs %.2f %% too %s",
                    doctor_node_id(node), value_number(member, "id"),
                    (double)llabs(ppm) / 10000, ppm > 0 ? "fast" : "slowly");
            }
        }
    }
}

static void doctor_disks(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    FOR_EACH_NODE(doctor, i, node)
    {
        const char *disk = value_text(node, "disk");
        json_t *machine = value_at(node, "machine");
        uint64_t free_mib = value_number(machine, "disk_free_bytes") >> 20;
        uint64_t reserve_mib = value_number(machine, "disk_reserve_bytes") >>
                               20;
        if (strcmp(disk, "full") == 0) {
            doctor_report(doctor, DOCTOR_FAIL,
                          "free space on the file system of node.dir",
                          "node %" PRIu64 ": its disk is nearly full: %" PRIu64
                          " MiB are free, limits.disk_reserve is %" PRIu64
                          " MiB",
                          doctor_node_id(node), free_mib, reserve_mib);
        } else if (value_at(machine, "disk_free_bytes") != NULL &&
                   free_mib < 2 * reserve_mib) {
            doctor_report(doctor, DOCTOR_WARN,
                          "free space on the file system of node.dir",
                          "node %" PRIu64 ": only %" PRIu64
                          " MiB of its disk are free; at %" PRIu64
                          " MiB (limits.disk_reserve) it refuses changes",
                          doctor_node_id(node), free_mib, reserve_mib);
        }
        if (strcmp(disk, "slow") == 0) {
            doctor_report(
                doctor, DOCTOR_FAIL, "see 'A slow disk' in docs/operations.md",
                "node %" PRIu64 ": its disk hangs; while it leads, changes are "
                "refused",
                doctor_node_id(node));
        } else if (strcmp(value_text(node, "flush"), "slow") == 0) {
            doctor_report(
                doctor, DOCTOR_WARN, "see 'A slow disk' in docs/operations.md",
                "node %" PRIu64 ": its disk is slow: a flush takes %" PRIu64
                " ms",
                doctor_node_id(node), value_number(node, "flush_us") / 1000);
        }
    }
}

static void doctor_snapshots(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    FOR_EACH_NODE(doctor, i, node)
    {
        uint64_t failed = value_number(node, "machine.snapshots_failed");
        if (failed > 0) {
            doctor_report(doctor, DOCTOR_WARN,
                          "see its log for 'snapshot', and its disk",
                          "node %" PRIu64 ": %" PRIu64
                          " snapshots could not be written, read or received "
                          "since it started",
                          doctor_node_id(node), failed);
        }
        failed = value_number(node, "machine.audit_file_failures");
        if (failed > 0) {
            doctor_report(doctor, DOCTOR_WARN,
                          "see its log for 'audit', and the folder of "
                          "audit.file",
                          "node %" PRIu64 ": audit.file could not be written "
                          "%" PRIu64 " times since it started",
                          doctor_node_id(node), failed);
        }
    }
}

/* Of the newest backup that any node knows of; without one, of the youngest
 * node's start: each forgets it when it restarts. */
static void doctor_backups(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    json_int_t newest_s = -1, up_s = -1;
    FOR_EACH_NODE(doctor, i, node)
    {
        json_t *age = value_at(node, "machine.backup_age_s");
        json_int_t own_up_s = integer_at(node, "machine.uptime_s");
        json_int_t age_s = age != NULL ? json_integer_value(age) : -1;
        if (age_s >= 0 && (newest_s < 0 || age_s < newest_s)) {
            newest_s = age_s;
        }
        up_s = up_s < 0 || own_up_s < up_s ? own_up_s : up_s;
    }
    if (newest_s > BACKUP_AGE_MAX_S ||
        (newest_s < 0 && up_s > BACKUP_AGE_MAX_S)) {
        doctor_report(
            doctor, DOCTOR_WARN,
            "systemctl enable --now haspd-backup.timer, or hasp "
            "snapshot save FILE",
            newest_s < 0 ? "no backup was read from any node since "
                           "the nodes started, %s ago"
                         : "the newest backup is %s old",
            DURATION((uint64_t)(newest_s < 0 ? up_s : newest_s) * 1000));
    }
}

static void doctor_last_exits(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    FOR_EACH_NODE(doctor, i, node)
    {
        if (value_number(node, "machine.last_exit") == LAST_EXIT_CRASH) {
            doctor_report(doctor, DOCTOR_WARN,
                          "send us the lines 'crashed' and 'backtrace' of its "
                          "log",
                          "node %" PRIu64 ": its last run crashed",
                          doctor_node_id(node));
        }
    }
}

static void doctor_files(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    FOR_EACH_NODE(doctor, i, node)
    {
        json_t *machine = value_at(node, "machine");
        json_int_t open = integer_at(machine, "open_files");
        json_int_t max = integer_at(machine, "max_files");
        json_int_t connections = integer_at(machine, "connections");
        if (max > 0 && open * 100 > max * PERCENT_NEAR) {
            doctor_report(doctor, DOCTOR_FAIL,
                          "raise LimitNOFILE= of the unit (ulimit -n), and "
                          "restart the node",
                          "node %" PRIu64 " has %" JSON_INTEGER_FORMAT
                          " of %" JSON_INTEGER_FORMAT " files open",
                          doctor_node_id(node), open, max);
        } else if (max > 0 && max < connections) {
            doctor_report(doctor, DOCTOR_WARN,
                          "raise LimitNOFILE= of the unit (ulimit -n), or "
                          "lower limits.connections",
                          "node %" PRIu64 " may open %" JSON_INTEGER_FORMAT
                          " files, fewer than limits.connections = "
                          "%" JSON_INTEGER_FORMAT,
                          doctor_node_id(node), max, connections);
        }
    }
}

static void doctor_memory(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    FOR_EACH_NODE(doctor, i, node)
    {
        json_int_t swapped = integer_at(node, "machine.swapped_bytes");
        if (swapped > 0) {
            doctor_report(doctor, DOCTOR_WARN,
                          "set MemorySwapMax=0 in the unit, or swapoff -a, and "
                          "restart the node",
                          "node %" PRIu64 ": %" JSON_INTEGER_FORMAT
                          " KiB of it are swapped out; a page that comes back "
                          "from a disk delays all clients",
                          doctor_node_id(node), swapped >> 10);
        }
    }
}

/* --- Configuration -------------------------------------------------------- */

static void doctor_judge_days(struct doctor *doctor, uint64_t node,
                              const char *what, json_int_t days)
{
    if (days < CERTIFICATE_WARN_DAYS) {
        doctor_report(
            doctor, days < CERTIFICATE_FAIL_DAYS ? DOCTOR_FAIL : DOCTOR_WARN,
            strcmp(what, "CA") == 0
                ? "create a new CA: see docs/security.md"
                : "hasp cert renew FOLDER, and install the files",
            days < 0 ? "node %" PRIu64 ": its %s has expired"
                     : "node %" PRIu64
                       ": its %s expires in %" JSON_INTEGER_FORMAT " days",
            node, what, days);
    }
}

static void doctor_certificates(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    FOR_EACH_NODE(doctor, i, node)
    {
        json_t *own = value_at(node, "machine.certificate_days");
        json_t *ca = value_at(node, "machine.ca_days");
        /* Both are -1 without TLS. */
        if (own != NULL && ca != NULL &&
            (json_integer_value(own) != -1 || json_integer_value(ca) != -1)) {
            doctor_judge_days(doctor, doctor_node_id(node), "certificate",
                              json_integer_value(own));
            doctor_judge_days(doctor, doctor_node_id(node), "CA",
                              json_integer_value(ca));
        }
    }
    struct tls_context *mine = shown_context(doctor->tool->shown);
    if (mine != NULL && tls_context_certificate_until(mine) != 0) {
        int64_t days = tls_days_until(tls_context_certificate_until(mine));
        if (days < CERTIFICATE_WARN_DAYS) {
            doctor_report(doctor, DOCTOR_WARN, "hasp cert renew FOLDER",
                          "your own certificate expires in %" PRId64 " days",
                          days);
        }
    }
    tls_context_unref(mine);
}

static void doctor_versions(struct doctor *doctor)
{
    json_t *node, *first = NULL;
    size_t i;
    FOR_EACH_NODE(doctor, i, node)
    {
        first = first == NULL ? node : first;
        if (strcmp(value_text(node, "version"), value_text(first, "version")) !=
            0) {
            doctor_report(doctor, DOCTOR_WARN,
                          "upgrade all nodes: see docs/operations.md",
                          "node %" PRIu64 " runs version %s, node %" PRIu64
                          " version %s",
                          doctor_node_id(node), value_text(node, "version"),
                          doctor_node_id(first), value_text(first, "version"));
        }
    }
    uint64_t possible = value_number(doctor->best, "finalize_level");
    uint64_t level = value_number(doctor->best, "cluster_level");
    if (nodes_is_leader(doctor->best) && possible > level) {
        doctor_report(doctor, DOCTOR_WARN, "hasp cluster finalize",
                      "all nodes understand feature level %" PRIu64
                      ", the cluster uses %" PRIu64,
                      possible, level);
    }
}

/* Compares each node with the first one that answered. */
static void doctor_settings(struct doctor *doctor)
{
    json_t *node, *first = NULL;
    size_t i;
    FOR_EACH_NODE(doctor, i, node)
    {
        const char *key;
        json_t *value, *settings = value_at(node, "settings");
        first = first == NULL ? node : first;
        json_object_foreach (settings, key, value) {
            json_t *other = json_object_get(value_at(first, "settings"), key);
            if (other != NULL && !json_equal(other, value)) {
                doctor_report(
                    doctor, DOCTOR_WARN,
                    "give all nodes the same value; haspd "
                    "--print-config prints it; restart the node",
                    "%s differs: %" JSON_INTEGER_FORMAT " at node %" PRIu64
                    ", %" JSON_INTEGER_FORMAT " at node %" PRIu64,
                    key, json_integer_value(other), doctor_node_id(first),
                    json_integer_value(value), doctor_node_id(node));
            }
        }
    }
}

/* True if an address of a member can be reached from other machines. */
static bool is_open_to_others(struct doctor *doctor)
{
    size_t i;
    json_t *member;
    json_array_foreach (value_at(doctor->best, "members"), i, member) {
        if (!is_on_loopback(client_address(member))) {
            return true;
        }
    }
    return false;
}

static void doctor_access(struct doctor *doctor)
{
    json_t *node;
    size_t i;
    FOR_EACH_NODE(doctor, i, node)
    {
        if (strcmp(value_text(node, "users"), "unenforced") == 0) {
            doctor_report(doctor, DOCTOR_FAIL,
                          "set tls.peer = require at all nodes",
                          "node %" PRIu64
                          ": access is required, but whoever reaches its peer "
                          "port can act as any user",
                          doctor_node_id(node));
        }
    }
    if (strcmp(value_text(doctor->best, "users"), "open") == 0 &&
        is_open_to_others(doctor)) {
        doctor_report(doctor, DOCTOR_WARN,
                      "create users, then: hasp access required (see "
                      "docs/security.md)",
                      "access is open, and other machines can reach the "
                      "cluster: any program there can take and release locks");
    }
}

static void doctor_limits(struct doctor *doctor)
{
    json_t *row;
    size_t i;
    json_array_foreach (doctor->limits, i, row) {
        uint64_t used = value_number(row, "used");
        uint64_t value = value_number(row, "value");
        if (value > 0 && (double)used * 100 > (double)value * PERCENT_NEAR) {
            char mend[160];
            snprintf(mend, sizeof mend, "hasp limits set %.60s VALUE",
                     value_text(row, "name"));
            doctor_report(doctor, used >= value ? DOCTOR_FAIL : DOCTOR_WARN,
                          mend, "%" PRIu64 " of %" PRIu64 " %s are in use",
                          used, value, value_text(row, "name"));
        }
    }
}

static void doctor_quarantine(struct doctor *doctor)
{
    uint64_t left_ms = value_number(doctor->best, "quarantine_ms");
    if (left_ms > 0) {
        doctor_report(doctor, DOCTOR_WARN,
                      "wait; or, if no client of the former cluster trusts a "
                      "lock: hasp quarantine end --i-vouch REASON",
                      "quarantine after a restore: nothing is granted for "
                      "another %s",
                      DURATION(left_ms));
    }
}

const struct doctor_check doctor_cluster_checks[] = {
    {"nodes", "all nodes answer", doctor_nodes, false},
    {"leader", "a leader serves", doctor_leader, false},
    {"cluster", "all nodes belong to one cluster", doctor_cluster, false},
    {"voters", "the cluster can lose a node", doctor_voters, true},
    {"links", "all nodes are connected with each other", doctor_links, true},
    {"behind", "no member is far behind", doctor_behind, true},
    {"addresses", "each node listens at the addresses that the others use",
     doctor_addresses, true},
    {"endpoints", "the endpoints are those of members", doctor_endpoints, true},
    {"round trips", "round trips are short, compared with raft.election_ms",
     doctor_round_trips, true},
    {"clocks", "no clock is more than 0.1 % off", doctor_clocks, true},
    {"disks", "disks have room and are fast", doctor_disks, true},
    {"snapshots", "snapshots and audit files were written", doctor_snapshots,
     true},
    {"backups", "there is a backup of the last 26 hours, or the nodes are new",
     doctor_backups, true},
    {"crashes", "no node has crashed before its last start", doctor_last_exits,
     true},
    {"files", "the limits of open files suffice", doctor_files, true},
    {"memory", "no node is swapped out", doctor_memory, true},
    {"certificates", "no certificate expires within 30 days",
     doctor_certificates, true},
    {"versions", "all nodes run one version", doctor_versions, true},
    {"settings", "all nodes have the same settings", doctor_settings, true},
    {"access", "access is required, or only this machine reaches it",
     doctor_access, true},
    {"limits", "no limit is used by more than 80 %", doctor_limits, true},
    {"quarantine", "no quarantine", doctor_quarantine, true},
    {0},
};
