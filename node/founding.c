/* SPDX-License-Identifier: MIT */

/* Decides which nodes may found a cluster (without I/O), and stores the record
 * of the founders. */

#include "node/founding.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "base/memory.h"
#include "storage/disk.h"

#define FILE_NAME "founding"

void founding_init(struct founding *founding, uint64_t own_id,
                   uint64_t own_incarnation, const char *name,
                   const struct replica_members *members,
                   const struct lockfsm_limits *limits)
{
    /* 0 would mean that this founder has not greeted yet. */
    CHECK(own_id != 0 && own_incarnation != 0);
    CHECK(members->count <= MEMBER_COUNT_MAX);
    *founding = (struct founding){.own_id = own_id};
    for (int key = 0; key < LIMIT_COUNT; key++) {
        founding->limits.of[key] = limits->of[key] != 0
                                       ? limits->of[key]
                                       : lockfsm_default_limits.of[key];
    }
    snprintf(founding->name, sizeof founding->name, "%s", name);
    for (uint32_t i = 0; i < members->count; i++) {
        uint64_t id = members->member[i].id;
        founding->founder[founding->count++] = (struct founder){
            .id = id, .incarnation = id == own_id ? own_incarnation : 0};
    }
    founding->members = *members;
}

static struct founder *founding_find(struct founding *founding, uint64_t id)
{
    for (uint32_t i = 0; i < founding->count; i++) {
        if (founding->founder[i].id == id) {
            return &founding->founder[i];
        }
    }
    return NULL;
}

/* Appends the members as configured. */
static void founding_put_members(const struct founding *founding,
                                 struct buffer *out)
{
    MEMBER_EACH (member, &founding->members) {
        buffer_put_u64(out, member->id);
        buffer_put_run(out, bytes_of_text(member->address));
    }
}

void founding_show(const struct founding *founding,
                   struct frame_terms *ret_terms)
{
    _Static_assert(LIMIT_COUNT <= FRAME_LIMIT_MAX, "a HELLO has all limits");
    *ret_terms = (struct frame_terms){.limit_count = LIMIT_COUNT};
    memcpy(ret_terms->limit, founding->limits.of, sizeof founding->limits.of);
    AUTO(buffer_done) struct buffer members = {0};
    founding_put_members(founding, &members);
    digest_of(buffer_bytes(&members), ret_terms->members);
    snprintf(ret_terms->name, sizeof ret_terms->name, "%s", founding->name);
    ret_terms->is_access_required = founding->is_access_required;
}

/* The limits are compared one by one, since another version may have more or
 * fewer of them. */
int founding_compare(const struct founding *founding, uint64_t id,
                     const struct frame_terms *terms, char why[HASP_WHY_SIZE])
{
    struct frame_terms own;
    founding_show(founding, &own);
    if (terms->limit_count == 0) {
        return 0;
    }
    if (strcmp(terms->name, own.name) != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "founders differ: cluster.name is '%s' at node %" PRIu64
                 " and '%s' at node %" PRIu64 "; use the same in both files",
                 terms->name, id, own.name, founding->own_id);
        return HASP_EREFUSED;
    }
    for (uint32_t i = 0; i < own.limit_count && i < terms->limit_count; i++) {
        if (own.limit[i] != terms->limit[i]) {
            snprintf(why, HASP_WHY_SIZE,
                     "founders differ: limits.%s is %" PRIu64
                     " at node %" PRIu64 " and %" PRIu64 " at node %" PRIu64
                     "; use the same in both files",
                     limit_rules[i].name, terms->limit[i], id, own.limit[i],
                     founding->own_id);
            return HASP_EREFUSED;
        }
    }
    if (terms->is_access_required != own.is_access_required) {
        snprintf(why, HASP_WHY_SIZE,
                 "founders differ: security.access is %s at node %" PRIu64
                 "; use the same in both files",
                 own.is_access_required ? "required here and open"
                                        : "open here and required",
                 id);
        return HASP_EREFUSED;
    }
    /* The members last, since a greeting has only their digest: the message
     * cannot name the difference. */
    if (memcmp(terms->members, own.members, sizeof own.members) != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "founders differ: nodes %" PRIu64 " and %" PRIu64
                 " have different cluster.member lines; use the same in both "
                 "files",
                 id, founding->own_id);
        return HASP_EREFUSED;
    }
    return 0;
}

/* True if another founder has this incarnation. Two founders cannot share a
 * directory: the first entry would name one directory twice. */
static bool is_of_another(const struct founding *founding, uint64_t id,
                          uint64_t incarnation)
{
    for (uint32_t i = 0; i < founding->count; i++) {
        if (founding->founder[i].id != id &&
            founding->founder[i].incarnation == incarnation) {
            return true;
        }
    }
    return false;
}

void founding_heard(struct founding *founding, uint64_t id,
                    uint64_t incarnation,
                    const uint8_t cluster_id[CLUSTER_ID_SIZE], uint64_t now_ns)
{
    struct founder *founder = founding_find(founding, id);
    if (founding->is_over || id == founding->own_id) {
        return;
    }
    if (founder != NULL && !is_of_another(founding, id, incarnation)) {
        founder->incarnation = incarnation;
    }
    if (cluster_id_is_known(cluster_id)) {
        if (!founding->saw_cluster) {
            founding->saw_since_ns = now_ns;
        }
        founding->saw_cluster = true;
        memcpy(founding->seen_id, cluster_id, CLUSTER_ID_SIZE);
    }
}

static bool all_are_heard(const struct founding *founding)
{
    for (uint32_t i = 0; i < founding->count; i++) {
        if (founding->founder[i].incarnation == 0) {
            return false;
        }
    }
    return true;
}

enum founding_verdict founding_decide(const struct founding *founding,
                                      uint64_t now_ns)
{
    bool is_founder = false;
    for (uint32_t i = 0; i < founding->count; i++) {
        is_founder = is_founder || founding->founder[i].id == founding->own_id;
    }
    if (!is_founder) {
        return FOUNDING_JOIN;
    }
    if (all_are_heard(founding)) {
        uint8_t id[CLUSTER_ID_SIZE];
        founding_cluster_id(founding, id);
        /* Another id means that the cluster exists without this directory:
         * founding would make a second one. */
        return !founding->saw_cluster ||
                       memcmp(id, founding->seen_id, sizeof id) == 0
                   ? FOUNDING_FOUND
                   : FOUNDING_JOIN;
    }
    return founding->saw_cluster &&
                   now_ns >= founding->saw_since_ns + FOUNDING_GRACE_NS
               ? FOUNDING_JOIN
               : FOUNDING_WAIT;
}

bool founding_is_same(const struct founding *founding)
{
    bool is_same = all_are_heard(founding) && founding->count > 0 &&
                   founding->count == founding->members.count;
    for (uint32_t i = 0; is_same && i < founding->count; i++) {
        is_same = replica_members_find(&founding->members,
                                       founding->founder[i].id) != NULL;
    }
    if (is_same) {
        uint8_t id[CLUSTER_ID_SIZE];
        founding_cluster_id(founding, id);
        is_same = memcmp(id, founding->seen_id, sizeof id) == 0;
    }
    return is_same;
}

void founding_cluster_id(const struct founding *founding,
                         uint8_t ret_id[CLUSTER_ID_SIZE])
{
    AUTO(buffer_done) struct buffer text = {0};
    CHECK(all_are_heard(founding));
    _Static_assert(CLUSTER_ID_SIZE == DIGEST_SIZE, "a digest is an id");
    buffer_put_run(&text, bytes_of_text(founding->name));
    founding_first_entry(founding, &text);
    digest_of(buffer_bytes(&text), ret_id);
}

void founding_first_entry(const struct founding *founding, struct buffer *out)
{
    struct replica_members members = founding->members;
    for (uint32_t i = 0; i < members.count; i++) {
        for (uint32_t j = 0; j < founding->count; j++) {
            if (founding->founder[j].id == members.member[i].id) {
                members.member[i].incarnation = founding->founder[j]
                                                    .incarnation;
            }
        }
    }
    replica_members_encode(&members, out);
}

void founding_found(struct founding *founding)
{
    founding_cluster_id(founding, founding->seen_id);
    founding->is_over = true;
}

void founding_missing(const struct founding *founding, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < founding->count; i++) {
        if (founding->founder[i].incarnation == 0 && at < size) {
            at += (size_t)snprintf(out + at, size - at, "%s%" PRIu64,
                                   at == 0 ? "" : ", ",
                                   founding->founder[i].id);
        }
    }
}

static void founding_put_hex(struct buffer *text,
                             const uint8_t digest[DIGEST_SIZE])
{
    for (size_t i = 0; i < DIGEST_SIZE; i++) {
        buffer_printf(text, "%02x", digest[i]);
    }
    buffer_put_text(text, "\n");
}

int founding_save(const struct founding *founding, const char *folder,
                  char why[HASP_WHY_SIZE])
{
    AUTO(buffer_done) struct buffer text = {0};
    uint8_t digest[DIGEST_SIZE];
    CHECK(founding->is_over);
    buffer_put_text(&text,
                    "# founders of the cluster: member = ID INCARNATION\n");
    for (uint32_t i = 0; i < founding->count; i++) {
        buffer_printf(&text, "member = %" PRIu64 " %016" PRIx64 "\n",
                      founding->founder[i].id,
                      founding->founder[i].incarnation);
    }
    buffer_printf(&text, "cluster = ");
    founding_put_hex(&text, founding->seen_id);
    /* With a damaged record, an interrupted founding could continue with other
     * founders; the digest shows the damage. */
    digest_of(buffer_bytes(&text), digest);
    buffer_put_text(&text, "digest = ");
    founding_put_hex(&text, digest);
    return disk_replace_in(folder, FILE_NAME, buffer_bytes(&text), why);
}

static bool founding_parse_line(struct founding *founding, const char *line)
{
    uint64_t id, incarnation;
    if (line[0] == '#' || line[0] == '\0') {
        return true;
    }
    if (strncmp(line, "cluster = ", 10) == 0) {
        return hex_get(bytes_of_text(line + 10), founding->seen_id,
                       CLUSTER_ID_SIZE);
    }
    if (sscanf(line, "member = %" SCNu64 " %" SCNx64, &id, &incarnation) != 2 ||
        founding->count == MEMBER_COUNT_MAX) {
        return false;
    }
    founding->founder[founding->count++] = (struct founder){
        .id = id, .incarnation = incarnation};
    return true;
}

int founding_load(struct founding *founding, const char *folder,
                  char why[HASP_WHY_SIZE])
{
    char text[4096];
    uint8_t digest[DIGEST_SIZE];
    AUTO(buffer_done) struct buffer hex = {0};
    int error = disk_load_text(folder, FILE_NAME, text, sizeof text, why);
    if (error != 0) {
        return error;
    }
    bool is_bad = false;
    /* The record replaces the configured founders: a founding continues with
     * the same ones or not at all. */
    founding->count = 0;
    char *end = strstr(text, "digest = ");
    if (end != NULL) {
        digest_of(bytes_of(text, (size_t)(end - text)), digest);
        founding_put_hex(&hex, digest);
        is_bad = strncmp(end + strlen("digest = "), (const char *)hex.data,
                         hex.size) != 0;
        *end = '\0';
    }
    char *rest = text;
    for (char *line; end != NULL && (line = strsep(&rest, "\n")) != NULL;) {
        is_bad = is_bad || !founding_parse_line(founding, line);
    }
    if (is_bad || end == NULL) {
        snprintf(why, HASP_WHY_SIZE,
                 "'%.300s/" FILE_NAME "' is damaged: remove this member from "
                 "the cluster and add it again with an empty directory",
                 folder);
        return HASP_ECORRUPT;
    }
    founding->is_over = true;
    return 0;
}
