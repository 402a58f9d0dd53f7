/* SPDX-License-Identifier: MIT */

#include "node/certificates.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "net/http.h"
#include "node/node.h"

#define DAY_S (24 * 60 * 60)

/* --- Reading -------------------------------------------------------------- */

struct paths {
    char path[3][PATH_MAX]; /* CA, certificate, key. */
};

/* Finds the three files: each can have a path of its own, the others are in
 * tls.dir. */
static void find_files(const struct hasp_node_options *options,
                       struct paths *ret_paths)
{
    static const char *const names[] = {"ca.crt", "node.crt", "node.key"};
    const char *const given[] = {options->tls_ca, options->tls_cert,
                                 options->tls_key};
    for (int i = 0; i < 3; i++) {
        if (given[i] != NULL) {
            snprintf(ret_paths->path[i], PATH_MAX, "%s", given[i]);
        } else {
            snprintf(ret_paths->path[i], PATH_MAX, "%.3000s/%s",
                     options->tls_dir, names[i]);
        }
    }
}

static void note_changes(const struct paths *paths,
                         struct timespec ret_changed[3])
{
    for (int i = 0; i < 3; i++) {
        struct stat status;
        ret_changed[i] = stat(paths->path[i], &status) == 0
                             ? status.st_mtim
                             : (struct timespec){0};
    }
}

static void set_done(struct certificate_set *set)
{
    tls_context_unref(set->peers);
    tls_context_unref(set->clients);
    tls_context_unref(set->asking);
    tls_context_unref(set->web);
    *set = (struct certificate_set){0};
}

static int set_load(const struct hasp_node_options *options,
                    const struct paths *paths, struct certificate_set *ret_set,
                    char why[HASP_WHY_SIZE])
{
    struct certificate_set set = {0};
    struct tls_files files = {.ca = paths->path[0],
                              .certificate = paths->path[1],
                              .key = paths->path[2]};
    struct tls_files asking = {.ca = files.ca};
    const char *cluster = options->cluster_name;
    int rv = 0;
    if (options->tls_peer != HASP_NODE_TLS_OFF) {
        rv = tls_context_load(&files, TLS_FOR_PEERS, cluster, options->id,
                              &set.peers, why);
    }
    if (rv == 0 && options->tls_client != HASP_NODE_TLS_OFF) {
        rv = tls_context_load(&files, TLS_FOR_CLIENTS, cluster, options->id,
                              &set.clients, why);
        if (rv == 0) {
            rv = tls_context_load(&asking, TLS_AS_CLIENT, cluster, 0,
                                  &set.asking, why);
        }
    }
    if (rv == 0 && options->tls_http != HASP_NODE_TLS_OFF) {
        rv = tls_context_load(&files,
                              options->tls_http_certificates ? TLS_FOR_CLIENTS
                                                             : TLS_FOR_ANYBODY,
                              cluster, options->id, &set.web, why);
    }
    /* All files or none: a reload that fails halfway leaves the old set in
     * use. */
    if (rv != 0) {
        set_done(&set);
        return rv;
    }
    *ret_set = set;
    return 0;
}

static bool certificates_is_wanted(const struct hasp_node_options *options)
{
    return options->tls_peer != HASP_NODE_TLS_OFF ||
           options->tls_client != HASP_NODE_TLS_OFF ||
           options->tls_http != HASP_NODE_TLS_OFF;
}

/* Logs that a port also takes plain connections, which protects nothing. */
static void tell_allowed(enum hasp_node_tls mode, const char *port)
{
    if (mode == HASP_NODE_TLS_ALLOW) {
        LOG_WARN("plain is allowed beside TLS",
                 "port=%s hint=\"set tls.%s = require when all speak TLS\"",
                 port, port);
    }
}

int certificates_open(struct certificates *certificates, struct hasp_node *node,
                      char why[HASP_WHY_SIZE])
{
    struct paths paths;
    *certificates = (struct certificates){.node = node};
    if (!certificates_is_wanted(&node->options)) {
        return 0;
    }
    find_files(&node->options, &paths);
    note_changes(&paths, certificates->changed);
    tell_allowed(node->options.tls_client, "client");
    tell_allowed(node->options.tls_peer, "peer");
    return set_load(&node->options, &paths, &certificates->now, why);
}

static bool set_days_left(const struct certificate_set *set, int64_t *ret_node,
                          int64_t *ret_ca)
{
    const struct tls_context *any = set->peers != NULL     ? set->peers
                                    : set->clients != NULL ? set->clients
                                                           : set->web;
    if (any == NULL) {
        return false;
    }
    *ret_node = tls_days_until(tls_context_certificate_until(any));
    *ret_ca = tls_days_until(tls_context_ca_until(any));
    return true;
}

int certificates_check(const struct hasp_node_options *options,
                       int64_t *ret_node_days, int64_t *ret_ca_days,
                       char why[HASP_WHY_SIZE])
{
    struct paths paths;
    struct certificate_set set = {0};
    *ret_node_days = *ret_ca_days = INT64_MAX;
    if (!certificates_is_wanted(options)) {
        return 0;
    }
    find_files(options, &paths);
    int rv = set_load(options, &paths, &set, why);
    (void)set_days_left(&set, ret_node_days, ret_ca_days);
    set_done(&set);
    return rv;
}

/* --- Using ---------------------------------------------------------------- */

void certificates_use(struct certificates *certificates)
{
    struct hasp_node *node = certificates->node;
    const struct hasp_node_options *options = &node->options;
    if (!certificates_is_wanted(options)) {
        return;
    }
    clients_use_tls(&node->clients, (enum tls_mode)options->tls_client,
                    certificates->now.clients);
    struct http *const ports[] = {node->web.http, node->web.consul};
    for (int i = 0; i < 2; i++) {
        if (ports[i] != NULL && certificates->now.web != NULL) {
            http_use_tls(ports[i], certificates->now.web);
        }
    }
    if (node->members.peers != NULL) {
        peers_use_tls(node->members.peers, (enum tls_mode)options->tls_peer,
                      certificates->now.peers);
    }
}

bool certificates_days_left(const struct certificates *certificates,
                            int64_t *ret_node, int64_t *ret_ca)
{
    return set_days_left(&certificates->now, ret_node, ret_ca);
}

/* Warns once a day about certificates that expire soon. */
static void tell_expiry(struct certificates *certificates)
{
    uint64_t today = (uint64_t)time(NULL) / DAY_S;
    int64_t node, ca;
    if (today == certificates->warned_day ||
        !certificates_days_left(certificates, &node, &ca)) {
        return;
    }
    certificates->warned_day = today;
    if (node < TLS_SOON_DAYS) {
        LOG_WARN("certificate expires soon",
                 "what=node days_left=%" PRId64
                 " hint=\"hasp cert renew FOLDER, then SIGHUP\"",
                 node);
    }
    if (ca < TLS_SOON_DAYS) {
        LOG_WARN("certificate expires soon",
                 "what=ca days_left=%" PRId64
                 " hint=\"docs/security.md, 'A new CA'\"",
                 ca);
    }
}

/* --- Again ---------------------------------------------------------------- */

static void certificates_read_files(uv_work_t *work)
{
    struct certificates *certificates = work->data;
    struct paths paths;
    find_files(&certificates->node->options, &paths);
    note_changes(&paths, certificates->next_changed);
    certificates->was_read = certificates->must_read ||
                             memcmp(certificates->next_changed,
                                    certificates->changed,
                                    sizeof certificates->changed) != 0;
    if (certificates->was_read) {
        certificates->error = set_load(&certificates->node->options, &paths,
                                       &certificates->next, certificates->why);
    }
}

static void certificates_start(struct certificates *certificates,
                               bool must_read);

static void files_read(uv_work_t *work, int status)
{
    struct certificates *certificates = work->data;
    CHECK(status == 0 && certificates->is_busy);
    certificates->is_busy = false;
    if (certificates->was_read) {
        memcpy(certificates->changed, certificates->next_changed,
               sizeof certificates->changed);
    }
    if (certificates->was_read && certificates->error != 0) {
        certificates->failed_count++;
        LOG_ERROR("new certificates rejected, the old ones stay", "reason=%s",
                  log_quote(certificates->why));
    } else if (certificates->was_read) {
        set_done(&certificates->now);
        certificates->now = certificates->next;
        certificates->next = (struct certificate_set){0};
        certificates->warned_day = 0;
        /* The worker can finish after the node has stopped, when the ports are
         * closed. */
        if (!turn_is_over(&certificates->node->turn)) {
            certificates_use(certificates);
        }
        int64_t node = 0, ca = 0;
        (void)certificates_days_left(certificates, &node, &ca);
        LOG_INFO("certificates loaded",
                 "node_days_left=%" PRId64 " ca_days_left=%" PRId64, node, ca);
    }
    if (certificates->must_read_again &&
        !turn_is_over(&certificates->node->turn)) {
        certificates->must_read_again = false;
        certificates_start(certificates, true);
    }
}

static void certificates_start(struct certificates *certificates,
                               bool must_read)
{
    CHECK(!certificates->is_busy);
    certificates->is_busy = true;
    certificates->must_read = must_read;
    certificates->was_read = false;
    certificates->error = 0;
    certificates->work.data = certificates;
    CHECK(uv_queue_work(&certificates->node->uv, &certificates->work,
                        certificates_read_files, files_read) == 0);
}

void certificates_reload(struct certificates *certificates)
{
    if (!certificates_is_wanted(&certificates->node->options)) {
        return;
    }
    if (certificates->is_busy) {
        certificates->must_read_again = true;
    } else {
        certificates_start(certificates, true);
    }
}

void certificates_tick(struct certificates *certificates, uint64_t now_ns)
{
    if (!certificates_is_wanted(&certificates->node->options)) {
        return;
    }
    tell_expiry(certificates);
    if (now_ns >= certificates->look_ns && !certificates->is_busy) {
        if (certificates->look_ns != 0) {
            certificates_start(certificates, false);
        }
        certificates->look_ns = now_ns + CERTIFICATES_LOOK_NS;
    }
}

void certificates_done(struct certificates *certificates)
{
    CHECK(!certificates->is_busy);
    set_done(&certificates->now);
}
