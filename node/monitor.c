/* SPDX-License-Identifier: MIT */

/* Health of a node over HTTP: is it alive, is it ready? */

#include "node/monitor.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "net/http.h"
#include "node/metrics.h"
#include "node/node.h"
#include "storage/disk_watch.h"

static bool disk_hangs(struct buffer *reason)
{
    const char *what = NULL;
    uint64_t hangs_ns = disk_watch_oldest(&what);
    if (hangs_ns < DISK_HANGS_NS) {
        return false;
    }
    buffer_printf(reason, "the disk has hung for %.1f s (%s)\n",
                  (double)hangs_ns / (double)NS_PER_S, what);
    return true;
}

/* Adds unusual conditions: a node in quarantine, with a full or a slow disk is
 * ready all the same. */
static void put_ready(const struct hasp_node *node, struct buffer *reason)
{
    enum core_disk disk = journal_disk(&node->journal);
    if (disk != CORE_DISK_OK) {
        buffer_printf(reason, "; %sthe disk is %s",
                      core_is_serving(node->core) ? "changes are refused: "
                                                  : "",
                      disk == CORE_DISK_FULL ? "nearly full" : "too slow");
    }
    uint64_t flush_us;
    if (core_disk_is_slow(node->core, &flush_us)) {
        buffer_printf(reason,
                      "; the disk is slow: a flush takes %" PRIu64 " ms",
                      flush_us / 1000);
    }
    uint64_t left_ms = core_quarantine_ms(node->core);
    if (left_ms > 0) {
        buffer_printf(reason,
                      "; quarantine after a restore: nothing is granted for "
                      "another %" PRIu64 " s",
                      (left_ms + 999) / 1000);
    }
    buffer_put_text(reason, "\n");
}

static bool is_ready(const struct hasp_node *node, struct buffer *reason)
{
    if (node->turn.is_stopping) {
        buffer_put_text(reason, "stopping\n");
        return false;
    }
    if (turn_is_over(&node->turn)) {
        buffer_put_text(reason, "the node has failed: see its log\n");
        return false;
    }
    if (!node->has_begun) {
        char missing[128];
        founding_missing(&node->founding, missing, sizeof missing);
        buffer_printf(reason, "waiting for members %s to found the cluster\n",
                      missing);
        return false;
    }
    if (core_is_draining(node->core)) {
        buffer_put_text(reason, "drained: this node takes no clients\n");
        return false;
    }
    /* Reasons of this node alone come first, then the leader, then the distance
     * to it: each check needs the previous ones. */
    if (core_is_barred(node->core)) {
        buffer_put_text(reason,
                        "barred: another member reports that this node lost "
                        "entries that it had acknowledged\n");
        return false;
    }
    char why[HASP_WHY_SIZE];
    if (core_is_apart(node->core, why)) {
        buffer_printf(reason, "%s\n", why);
        return false;
    }
    uint64_t leader = replica_leader(core_replica(node->core));
    if (core_is_serving(node->core)) {
        if (disk_hangs(reason)) {
            return false;
        }
        buffer_put_text(reason, "ok, leader");
        put_ready(node, reason);
        return true;
    }
    if (leader == 0) {
        buffer_put_text(reason, "no leader is known\n");
        return false;
    }
    if (leader == node->options.id) {
        buffer_put_text(reason, "leader, not serving yet\n");
        return false;
    }
    if (!peers_is_up(node->members.peers, leader)) {
        buffer_printf(reason,
                      "no connection to the leader, member %" PRIu64 "\n",
                      leader);
        return false;
    }
    if (lag_is_long(&node->monitor.lag, turn_now())) {
        buffer_printf(reason,
                      "behind: applied %" PRIu64 " of %" PRIu64 " entries\n",
                      lockfsm_applied_index(core_state(node->core)),
                      replica_known_commit(core_replica(node->core)));
        return false;
    }
    if (disk_hangs(reason)) {
        return false;
    }
    buffer_printf(reason, "ok, follower of %" PRIu64, leader);
    put_ready(node, reason);
    return true;
}

static void put_metrics(struct monitor *monitor, struct buffer *out)
{
    uint64_t now_ms = uv_now(&monitor->node->uv);
    if (monitor->metrics_ms != now_ms) {
        AUTO(buffer_done) struct buffer reason = {0};
        bool is_good = is_ready(monitor->node, &reason);
        buffer_clear(&monitor->metrics);
        metrics_put(monitor->node, is_good, &monitor->metrics);
        monitor->metrics_ms = now_ms;
    }
    buffer_put_bytes(out, buffer_bytes(&monitor->metrics));
}

void monitor_answer(struct monitor *monitor, const char *path,
                    struct http_reply *reply)
{
    if (monitor->node->has_begun) {
        monitor_note(monitor, monitor->node->core, turn_now());
    }
    if (strcmp(path, "/healthz") == 0) {
        buffer_put_text(&reply->body, "ok\n");
    } else if (strcmp(path, "/readyz") == 0) {
        reply->status = is_ready(monitor->node, &reply->body) ? 200 : 503;
    } else {
        CHECK(strcmp(path, "/metrics") == 0);
        reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
        put_metrics(monitor, &reply->body);
    }
}

void monitor_done(struct monitor *monitor)
{
    buffer_done(&monitor->metrics);
}

void monitor_note(struct monitor *monitor, const struct core *core,
                  uint64_t now_ns)
{
    lag_note(&monitor->lag, replica_known_commit(core_replica(core)),
             lockfsm_applied_index(core_state(core)), now_ns);
}
