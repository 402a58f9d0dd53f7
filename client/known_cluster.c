/* SPDX-License-Identifier: MIT */

#include "client/known_cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/minmax.h"
#include "client/reply.h"

/* Former cluster ids that are read from an answer. */
#define FORMER_MAX 64

int known_cluster_init(struct known_cluster *known, uint32_t count)
{
    *known = (struct known_cluster){.count = count};
    known->shown = calloc(count, sizeof *known->shown);
    return known->shown != NULL ? 0 : HASP_ENOMEM;
}

void known_cluster_done(struct known_cluster *known)
{
    free(known->shown);
    known->shown = NULL;
}

static void enter(struct known_cluster *known)
{
    if (known->guard != NULL) {
        known->guard(known, true);
    }
}

static void leave(struct known_cluster *known)
{
    if (known->guard != NULL) {
        known->guard(known, false);
    }
}

/* Copies a cluster id; a longer one is invalid, and becomes "". */
static void copy_id(char id[CLUSTER_ID_TEXT_SIZE], struct bytes text)
{
    size_t size = text.size < CLUSTER_ID_TEXT_SIZE ? text.size : 0;
    if (size > 0) {
        memcpy(id, text.data, size);
    }
    id[size] = '\0';
}

/* True if the cluster in the reply was restored from the known one. */
static bool names_known(const struct known_cluster *known,
                        const struct resp_reply *reply)
{
    uint32_t at = 0;
    uint32_t count = reply_array(reply, 0, "former", &at);
    for (uint32_t i = 0; i < u64_min(count, FORMER_MAX); i++) {
        if (bytes_equal(reply->value[at].bytes, bytes_of_text(known->id))) {
            return true;
        }
        at += reply->value[at].span;
    }
    return false;
}

static void set_shown(struct known_cluster *known, uint32_t endpoint,
                      const char *id)
{
    if (endpoint < known->count) {
        memcpy(known->shown[endpoint], id, strlen(id) + 1);
    }
}

static bool has_shown(const struct known_cluster *known, uint32_t endpoint,
                      const char *id)
{
    return endpoint < known->count && strcmp(known->shown[endpoint], id) == 0;
}

/* True if all endpoints answered and had this cluster id. */
static bool do_all_show(const struct known_cluster *known, const char *id)
{
    for (uint32_t i = 0; i < known->count; i++) {
        if (!has_shown(known, i, id)) {
            return false;
        }
    }
    return true;
}

static void take(struct known_cluster *known, const char *id)
{
    memcpy(known->id, id, strlen(id) + 1);
    for (uint32_t i = 0; i < known->count; i++) {
        known->shown[i][0] = '\0';
    }
}

enum cluster_view known_cluster_see(struct known_cluster *known,
                                    uint32_t endpoint,
                                    const struct resp_reply *reply,
                                    uint64_t now_ns,
                                    char ret_id[CLUSTER_ID_TEXT_SIZE])
{
    bool is_reported = reply->value[0].type == RESP_MAP &&
                       resp_find(reply, 0, "cluster") != NULL;
    copy_id(ret_id,
            is_reported ? reply_text(reply, 0, "cluster") : bytes_of(NULL, 0));
    if (!is_reported) {
        return CLUSTER_FITS;
    }
    if (ret_id[0] == '\0') {
        return CLUSTER_UNBORN;
    }
    enter(known);
    enum cluster_view view = CLUSTER_FITS;
    if (known->id[0] == '\0' || strcmp(known->id, ret_id) == 0) {
        set_shown(known, endpoint, "");
    } else if (names_known(known, reply)) {
        take(known, ret_id);
    } else {
        view = has_shown(known, endpoint, ret_id) ? CLUSTER_STRANGER_STILL
                                                  : CLUSTER_STRANGER;
        /* A restored or replaced cluster is accepted once all endpoints show it
         * and no belief in the old one is left: no valid lease, no durable
         * session. */
        set_shown(known, endpoint, ret_id);
        if (do_all_show(known, ret_id) && known->endless_count == 0 &&
            now_ns >= known->believed_until_ns) {
            take(known, ret_id);
            view = CLUSTER_FITS;
        }
    }
    leave(known);
    return view;
}

void known_cluster_miss(struct known_cluster *known, uint32_t endpoint)
{
    enter(known);
    set_shown(known, endpoint, "");
    leave(known);
}

void known_cluster_learn(struct known_cluster *known, const char *id)
{
    enter(known);
    if (known->id[0] == '\0' && id[0] != '\0') {
        take(known, id);
    }
    leave(known);
}

void known_cluster_believe(struct known_cluster *known, uint64_t until_ns)
{
    enter(known);
    known->believed_until_ns = u64_max(known->believed_until_ns, until_ns);
    leave(known);
}

void known_cluster_endless(struct known_cluster *known, int operation)
{
    enter(known);
    CHECK(operation > 0 || known->endless_count > 0);
    known->endless_count += (uint32_t)operation;
    leave(known);
}

void known_cluster_id(struct known_cluster *known,
                      char ret_id[CLUSTER_ID_TEXT_SIZE])
{
    enter(known);
    memcpy(ret_id, known->id, sizeof known->id);
    leave(known);
}
