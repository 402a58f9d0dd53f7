/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_shown.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/minmax.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_silence.h"

/* Roundings; the times at which entries were applied are recorded every 10 ms
 * (core/events/history.c). */
#define SLACK_MS 3
#define MARK_MS 10
/* For times in the future: each leader and each entry that moves the log's
 * clock counts in whole milliseconds. */
#define ROUNDED_MS 20

/* An answer, or a map of one, that is being checked. */
struct looking {
    struct sim *sim;
    struct sim_faces *faces;
    const struct resp_reply *reply;
    uint32_t at; /* The map. */
    enum face_kind kind;
    const char *who;
    const struct sim_identity
        *identity; /* Identity of the client that asked. */
    uint64_t from; /* Entries: the newest at the request, and now. */
    uint64_t to;
    uint64_t asked_ns;
    bool is_restored; /* Since the request, so the answer may be of either life.
                       */
    /* Entries at which everything checked so far is true, for a page or a
     * single map; and for the present map. Bytes, from 'from' on. */
    struct buffer moments;
    struct buffer own;
    struct buffer face; /* Of the present map. */
    const char *wrong;  /* What was wrong with a time. */
    uint64_t told_ms;
    uint64_t least_ms;
    uint64_t most_ms;
    bool has_face; /* The present map was true, except for times. */
};

static void begin(struct looking *look, const struct sim_channel *channel,
                  const char *who, enum face_kind kind)
{
    memset(look, 0, sizeof *look);
    look->kind = kind;
    look->sim = channel->sim;
    look->faces = sim_check_faces(channel->sim);
    look->reply = &channel->reply;
    look->who = who;
    look->identity = &channel->wire->shown;
    look->from = channel->sent_newest;
    look->to = sim_check_newest(channel->sim);
    look->asked_ns = channel->sent_ns;
    look->is_restored = sim_check_lives_between(look->sim, look->from,
                                                look->to);
    for (uint64_t i = look->from; i <= look->to; i++) {
        buffer_put_u8(&look->moments, 1);
    }
}

static void end(struct looking *look)
{
    buffer_done(&look->moments);
    buffer_done(&look->own);
    buffer_done(&look->face);
}

/* --- Times ---------------------------------------------------------------- */

/* The time that a clock can have counted in a span of true time, in ms: at
 * least, and at most. */
static uint64_t least_of(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (to_ns - from_ns) / SIM_MS * 9 / 10 : 0;
}

static uint64_t most_of(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (to_ns - from_ns) / SIM_MS * 11 / 10 + 1 : 0;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static bool is_between(struct looking *look, const char *what, uint64_t told_ms,
                       uint64_t least_ms, uint64_t most_ms)
{
    if (told_ms + SLACK_MS >= least_ms && told_ms <= most_ms + SLACK_MS) {
        return true;
    }
    look->wrong = what;
    look->told_ms = told_ms;
    look->least_ms = least_ms;
    look->most_ms = most_ms;
    return false;
}

static uint64_t place_of(const struct looking *look, uint64_t log_index)
{
    return sim_check_place_in(look->sim, look->sim->life, log_index);
}

static bool is_age(struct looking *look, const char *what, uint64_t told_ms,
                   uint64_t log_index)
{
    uint64_t place = place_of(look, log_index);
    uint64_t first_ns = sim_faces_first_ns(look->faces, place);
    uint64_t last_ns = sim_faces_last_ns(look->faces, place, look->asked_ns);
    return is_between(look, what, told_ms, least_of(last_ns, look->asked_ns),
                      most_of(first_ns, look->sim->now_ns) + MARK_MS);
}

/* For what began with an entry. */
static bool is_rest(struct looking *look, const char *what, uint64_t told_ms,
                    uint64_t length_ms, uint64_t log_index)
{
    uint64_t place = place_of(look, log_index);
    uint64_t first_ns = sim_faces_first_ns(look->faces, place);
    uint64_t since_ns = u64_max(
        sim_faces_last_ns(look->faces, place, look->asked_ns),
        sim_faces_reign_ns(look->faces, look->asked_ns));
    return is_between(look, what, told_ms,
                      minus(length_ms, most_of(first_ns, look->sim->now_ns)),
                      minus(length_ms, least_of(since_ns, look->asked_ns)));
}

static bool is_lease(struct looking *look, uint64_t told_ms,
                     const struct face_hold *of)
{
    struct sim *sim = look->sim;
    uint64_t heard_ns = sim_silence_heard_ns(sim_check_silence(sim),
                                             of->session);
    uint64_t beat_ns = sim_faces_beat_ns(look->faces, of->session,
                                         look->asked_ns);
    uint64_t since_ns = u64_max(
        heard_ns, sim_faces_reign_ns(look->faces, look->asked_ns));
    bool promises = beat_ns != 0 && of->linger_ms == 0;
    if (!of->is_leased) {
        return !of->is_over ||
               is_between(look, "the lease of a session that is over", told_ms,
                          0, 0);
    }
    return is_between(
        look, "what is left of a lease", told_ms,
        promises ? minus(of->ttl_ms, most_of(beat_ns, sim->now_ns)) : 0,
        minus(of->ttl_ms,
              heard_ns != 0 ? least_of(since_ns, look->asked_ns) : 0));
}

/* The end of a hold if its holder dies, by what the answer shows. */
static uint64_t end_of(const struct looking *look, uint32_t at,
                       const struct face_hold *hold)
{
    uint64_t end_ms = UINT64_MAX;
    if (sim_face_has_number(look->reply, at, "break_left_ms")) {
        end_ms = sim_face_number(look->reply, at, "break_left_ms");
    } else if (sim_face_has_number(look->reply, at, "lease_left_ms")) {
        end_ms = sim_face_number(look->reply, at, "lease_left_ms");
        if (hold->linger_ms != 0) {
            end_ms = u64_min(end_ms, hold->linger_ms);
        }
    }
    if (hold->hold_ms != 0) {
        end_ms = u64_min(end_ms,
                         sim_face_number(look->reply, at, "hold_left_ms"));
    }
    return end_ms == UINT64_MAX ? end_ms : end_ms + hold->delay_ms;
}

static bool is_earliest(struct looking *look,
                        const struct face_version *version)
{
    uint32_t hold_count;
    uint32_t at = sim_face_array(look->reply, look->at, "holders", &hold_count);
    bool is_first = bytes_equal(sim_face_text(look->reply, look->at, "mode"),
                                BYTES_LITERAL("slots"));
    uint64_t delay_ms = sim_face_number(look->reply, look->at, "delay_left_ms");
    uint64_t best_ms = is_first ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < hold_count; i++) {
        uint64_t end_ms = end_of(look, at, &version->holds[i]);
        best_ms = is_first ? u64_min(best_ms, end_ms)
                           : u64_max(best_ms, end_ms);
        at += look->reply->value[at].span;
    }
    if (hold_count == 0 || (is_first && version->has_free_slots)) {
        best_ms = delay_ms;
    }
    if (best_ms == UINT64_MAX) {
        return !sim_face_has_number(look->reply, look->at, "earliest_ms");
    }
    bool waits = sim_faces_quarantined(look->faces, look->from);
    return is_between(look, "when it could pass on",
                      sim_face_number(look->reply, look->at, "earliest_ms"),
                      best_ms, waits ? UINT64_MAX / 2 : best_ms);
}

static bool are_hold_times(struct looking *look, uint32_t at,
                           const struct face_hold *hold)
{
    const struct resp_reply *reply = look->reply;
    bool is_limited = hold->hold_ms != 0;
    return is_age(look, "since when it is held",
                  sim_face_number(reply, at, "since_ms"),
                  hold->granted_index) &&
           is_lease(look, sim_face_number(reply, at, "lease_left_ms"), hold) &&
           (!is_limited || is_rest(look, "what is left of a limited hold",
                                   sim_face_number(reply, at, "hold_left_ms"),
                                   hold->hold_ms, hold->granted_index));
}

static bool are_lock_times(struct looking *look,
                           const struct face_version *version)
{
    const struct resp_reply *reply = look->reply;
    uint32_t hold_count, wait_count;
    uint32_t hold = sim_face_array(reply, look->at, "holders", &hold_count);
    uint32_t wait = sim_face_array(reply, look->at, "queue", &wait_count);
    uint64_t delay_ms = sim_face_number(reply, look->at, "delay_left_ms");
    if (look->is_restored) {
        return true;
    }
    for (uint32_t i = 0; i < hold_count; i++) {
        if (!are_hold_times(look, hold, &version->holds[i])) {
            return false;
        }
        hold += reply->value[hold].span;
    }
    for (uint32_t i = 0; i < wait_count; i++) {
        if (!is_age(look, "since when somebody waits",
                    sim_face_number(reply, wait, "waiting_ms"),
                    sim_face_number(reply, wait, "index"))) {
            return false;
        }
        wait += reply->value[wait].span;
    }
    bool is_delayed = version->delay_ms != 0;
    bool is_rest_good = is_delayed
                            ? is_rest(look, "what is left of a delay", delay_ms,
                                      version->delay_ms, version->delay_index)
                            : is_between(look, "a delay that is none", delay_ms,
                                         0, 0);
    return is_rest_good && is_earliest(look, version);
}

/* --- Shown times in the future ---------------------------------------------
 */

static void note_lease(struct looking *look, const struct face_hold *of,
                       uint64_t left_ms)
{
    if (of->is_leased && of->linger_ms == 0) {
        sim_faces_lease_told(look->faces, of->session, look->asked_ns,
                             look->asked_ns +
                                 minus(left_ms, ROUNDED_MS) * SIM_MS / 11 * 10);
    }
}

static void note_future(struct looking *look,
                        const struct face_version *version)
{
    struct bytes name = sim_face_text(look->reply, look->at, "name");
    const struct resp_reply *reply = look->reply;
    uint32_t hold_count;
    uint32_t at = sim_face_array(reply, look->at, "holders", &hold_count);
    for (uint32_t i = 0; i < hold_count; i++) {
        const struct face_hold *hold = &version->holds[i];
        note_lease(look, hold, sim_face_number(reply, at, "lease_left_ms"));
        if (hold->hold_ms != 0) {
            uint64_t left_ms = sim_face_number(reply, at, "hold_left_ms");
            sim_faces_hold_told(look->faces, name, hold->session,
                                sim_face_text(reply, at, "owner"),
                                sim_face_number(reply, at, "token"),
                                look->asked_ns + minus(left_ms, ROUNDED_MS) *
                                                     SIM_MS / 9 * 8);
        }
        at += reply->value[at].span;
    }
}

/* --- Moments -------------------------------------------------------------- */

static void mark(struct looking *look, struct buffer *moments,
                 const struct face_version *version, uint8_t is_so)
{
    for (uint64_t i = u64_max(version->from, look->from);
         i <= look->to && i < version->to; i++) {
        moments->data[i - look->from] = is_so;
    }
}

static bool has_any(const struct buffer *moments)
{
    return memchr(moments->data, 1, moments->size) != NULL;
}

/* For a lock that does not exist. */
static bool is_absent(struct looking *look)
{
    static const struct face_version none = {.is_there = false};
    struct buffer empty = {0};
    sim_face_of_lock(&empty, NULL, true);
    bool is_empty = look->kind == FACE_LOCK &&
                    bytes_equal(buffer_bytes(&look->face),
                                buffer_bytes(&empty));
    buffer_done(&empty);
    look->has_face |= is_empty;
    return is_empty && are_lock_times(look, &none);
}

static bool is_version(struct looking *look, const struct face_version *version)
{
    if (!version->is_there) {
        return is_absent(look);
    }
    if (!bytes_equal(buffer_bytes(&look->face), version->face)) {
        return false;
    }
    look->has_face = true;
    if (look->kind == FACE_LOCK) {
        return are_lock_times(look, version);
    }
    return look->is_restored || look->kind == FACE_FENCE ||
           is_lease(look, sim_face_number(look->reply, look->at, "left_ms"),
                    &version->session);
}

static void look_at_version(void *data, const struct face_version *version)
{
    struct looking *look = data;
    bool is_so = is_version(look, version);
    mark(look, &look->own, version, is_so);
    if (look->is_restored) {
        return;
    }
    if (is_so && look->kind == FACE_LOCK) {
        note_future(look, version);
    } else if (is_so && look->kind == FACE_SESSION) {
        note_lease(look, &version->session,
                   sim_face_number(look->reply, look->at, "left_ms"));
    }
}

static void fail_map(const struct looking *look, struct bytes name)
{
    char shown[BYTES_SHOWN_SIZE];
    bytes_shown(name, shown);
    if (look->has_face && look->wrong != NULL) {
        sim_fail(look->sim, ORACLE_LISTINGS,
                 "shown times are true: %s is shown of '%s' %s: %" PRIu64
                 " ms, which is at least %" PRIu64 " and at most %" PRIu64,
                 look->who, shown, look->wrong, look->told_ms, look->least_ms,
                 look->most_ms);
    } else {
        sim_fail(look->sim, ORACLE_LISTINGS,
                 "reads are linearizable: what %s is shown of '%s' was not so "
                 "at any moment between entries %" PRIu64 " and %" PRIu64,
                 look->who, shown, look->from, look->to);
    }
}

/* The address of a holder is visible to its user, and to users that can see all
 * sessions. */
static void look_at_addresses(const struct looking *look)
{
    uint32_t count;
    uint32_t hold = sim_face_array(look->reply, look->at, "holders", &count);
    for (uint32_t i = 0; i < count; i++) {
        sim_users_shown(look->sim, look->who, look->identity,
                        sim_face_text(look->reply, hold, "user"),
                        sim_face_text(look->reply, hold, "address"), look->from,
                        look->to);
        hold += look->reply->value[hold].span;
    }
}

/* The map at look->at. */
static void look_at_map(struct looking *look, struct bytes name, uint64_t id)
{
    buffer_clear(&look->face);
    look->has_face = false;
    look->wrong = NULL;
    if (look->kind == FACE_LOCK) {
        sim_face_of_told_lock(&look->face, look->reply, look->at,
                              !sim_users_are_there(look->sim));
        look_at_addresses(look);
    } else if (look->kind == FACE_SESSION) {
        sim_face_of_told_session(&look->face, look->reply, look->at);
    } else {
        sim_face_of_told_fence(&look->face, look->reply, look->at);
    }
    /* It does not exist before its first version. */
    buffer_clear(&look->own);
    bool is_none = is_absent(look);
    for (size_t i = 0; i < look->moments.size; i++) {
        buffer_put_u8(&look->own, is_none);
    }
    sim_faces_versions(look->faces, look->kind, name, id, look->from, look->to,
                       look_at_version, look);
    if (!has_any(&look->own)) {
        fail_map(look, name);
        return;
    }
    for (size_t i = 0; i < look->moments.size; i++) {
        look->moments.data[i] &= look->own.data[i];
    }
    if (!has_any(&look->moments)) {
        sim_fail(look->sim, ORACLE_LISTINGS,
                 "a page is of one moment: %s is shown '%.*s' beside others as "
                 "all were at no moment between entries %" PRIu64
                 " and %" PRIu64,
                 look->who, (int)name.size, (const char *)name.data, look->from,
                 look->to);
    }
}

void sim_shown_lock(const struct sim_channel *channel, const char *who,
                    struct bytes name)
{
    struct looking look;
    begin(&look, channel, who, FACE_LOCK);
    if (!bytes_equal(sim_face_text(look.reply, 0, "name"), name)) {
        sim_fail(look.sim, ORACLE_LISTINGS, "SHOW answers a map of that lock");
    } else {
        look_at_map(&look, name, 0);
    }
    end(&look);
}

void sim_shown_session(const struct sim_channel *channel, const char *who,
                       uint64_t id)
{
    struct looking look;
    begin(&look, channel, who, FACE_SESSION);
    if (sim_face_number(look.reply, 0, "id") != id) {
        sim_fail(look.sim, ORACLE_LISTINGS,
                 "SHOW answers a map of that session");
    } else {
        look_at_map(&look, sim_face_text(look.reply, 0, "name"), id);
    }
    end(&look);
}

/* --- Pages ---------------------------------------------------------------- */

/* In the order of listings. */
static bool is_behind(struct bytes name, uint64_t id, struct bytes other,
                      uint64_t other_id)
{
    int order = bytes_compare(name, other);
    return order != 0 ? order > 0 : id > other_id;
}

/* A check of all names: has the page left one out? */
struct sweep {
    struct looking *look;
    const struct shown_listing *listing; /* As it was before the page. */
    const struct shown_listing *after;
    struct bytes name;
};

static void take_moments(void *data, const struct face_version *version)
{
    struct sweep *sweep = data;
    if (version->is_there) {
        mark(sweep->look, &sweep->look->moments, version, 0);
    }
}

static struct bytes name_at(const struct looking *look, uint32_t at)
{
    return sim_face_text(look->reply, at,
                         look->kind == FACE_FENCE ? "resource" : "name");
}

static bool is_on_page(const struct sweep *sweep, struct bytes name,
                       uint64_t id)
{
    const struct looking *look = sweep->look;
    uint32_t at = 3;
    for (uint32_t i = 0; i < look->reply->value[2].count; i++) {
        if (bytes_equal(name_at(look, at), name) &&
            sim_face_number(look->reply, at, "id") == id) {
            return true;
        }
        at += look->reply->value[at].span;
    }
    return false;
}

static void look_for(void *data, struct bytes name, uint64_t id)
{
    struct sweep *sweep = data;
    const struct shown_listing *listing = sweep->listing;
    const struct shown_listing *after = sweep->after;
    bool is_asked = bytes_has_prefix(name, bytes_of_text(listing->prefix)) &&
                    (!listing->has_last ||
                     is_behind(name, id, buffer_bytes(&listing->last),
                               listing->last_id));
    bool is_later = !after->is_over &&
                    is_behind(name, id, buffer_bytes(&after->last),
                              after->last_id);
    if (!is_asked || is_later || sweep->look->sim->has_failed ||
        is_on_page(sweep, name, id)) {
        return;
    }
    sim_faces_versions(sweep->look->faces, listing->kind, name, id,
                       sweep->look->from, sweep->look->to, take_moments, sweep);
    if (!has_any(&sweep->look->moments)) {
        sim_fail(
            sweep->look->sim, ORACLE_LISTINGS,
            "a page is complete: %s is not shown '%.*s', which was there "
            "whenever the rest was as it is shown, between entries %" PRIu64
            " and %" PRIu64,
            sweep->look->who, (int)name.size, (const char *)name.data,
            sweep->look->from, sweep->look->to);
    }
}

static void take_last(struct shown_listing *listing, struct bytes name,
                      uint64_t id)
{
    buffer_clear(&listing->last);
    buffer_put_bytes(&listing->last, name);
    listing->last_id = id;
    listing->has_last = true;
}

static void look_at_items(struct looking *look, struct shown_listing *after)
{
    look->at = 3;
    for (uint32_t i = 0;
         i < look->reply->value[2].count && !look->sim->has_failed; i++) {
        struct bytes name = name_at(look, look->at);
        uint64_t id = sim_face_number(look->reply, look->at, "id");
        if (!bytes_has_prefix(name, bytes_of_text(after->prefix)) ||
            (after->has_last && !is_behind(name, id, buffer_bytes(&after->last),
                                           after->last_id))) {
            sim_fail(look->sim, ORACLE_LISTINGS,
                     "a listing is in the order of the names, each once: %s is "
                     "shown '%.*s' in the wrong place",
                     look->who, (int)name.size, (const char *)name.data);
            return;
        }
        look_at_map(look, name, id);
        take_last(after, name, id);
        look->at += look->reply->value[look->at].span;
    }
}

void sim_shown_begin(struct shown_listing *listing, enum face_kind kind,
                     const char *prefix)
{
    buffer_clear(&listing->last);
    listing->kind = kind;
    listing->prefix = prefix;
    listing->has_last = false;
    listing->is_over = false;
}

void sim_shown_done(struct shown_listing *listing)
{
    buffer_done(&listing->last);
}

void sim_shown_page(const struct sim_channel *channel, const char *who,
                    struct shown_listing *listing)
{
    const struct resp_value *value = channel->reply.value;
    struct looking look;
    struct shown_listing after = *listing;
    after.last = (struct buffer){0};
    buffer_put_bytes(&after.last, buffer_bytes(&listing->last));
    after.is_over = bytes_is_word(value[1].bytes, "0");
    begin(&look, channel, who, listing->kind);
    look_at_items(&look, &after);
    struct sweep sweep = {.look = &look, .listing = listing, .after = &after};
    if (!look.sim->has_failed) {
        sim_faces_names(look.faces, listing->kind, look_for, &sweep);
    }
    end(&look);
    buffer_done(&listing->last);
    *listing = after;
}
