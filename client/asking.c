/* SPDX-License-Identifier: MIT */

/* A request of an asker: how it begins, what its attempts end with, and how it
 * ends. */

#include "client/asking.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "base/units.h"
#include "client/asker.h"

/* Between two rounds over the endpoints: short at first, since an election
 * takes a fraction of a second, and with a random part, since all clients of a
 * dead leader come at once. */
#define BACKOFF_FIRST_MS 20
#define BACKOFF_LAST_MS 400

uint64_t asker_pause_ns(struct asker *asker, uint32_t round)
{
    uint64_t limit_ms = BACKOFF_FIRST_MS;
    while (round-- > 1 && limit_ms != BACKOFF_LAST_MS) {
        limit_ms = u64_min(2 * limit_ms, BACKOFF_LAST_MS);
    }
    asker->random = asker->random * 6364136223846793005u + 1442695040888963407u;
    return (limit_ms / 2 + (asker->random >> 33) % limit_ms) * NS_PER_MS;
}

void asking_begin(struct asker *asker, struct asking *ask)
{
    CHECK(!ask->is_asked && ask->done != NULL);
    ask->is_asked = true;
    ask->is_sent = false;
    ask->tried = ask->seen = 0;
    ask->not_before_ns = ask->begun_ns = asker->now.monotonic_ns;
}

static void leave_flight(struct asker *asker, const struct asking *ask)
{
    for (uint32_t i = 0; i < asker->flight_count; i++) {
        if (asker->flight[i] == ask) {
            asker->flight[i] = NULL;
        }
    }
}

void asking_cancel(struct asker *asker, struct asking *ask)
{
    if (ask->is_asked) {
        leave_flight(asker, ask);
        list_remove(&ask->in_asker);
        ask->is_asked = ask->is_sent = false;
    }
}

/* --- What an attempt ended with ------------------------------------------- */

void asker_note(struct asker *asker, const char *format, ...)
{
    va_list args;
    if (asker->is_moved) {
        return; /* The address is none of those that were given. */
    }
    va_start(args, format);
    vsnprintf(asker->last[asker->at], sizeof asker->last[0], format, args);
    va_end(args);
}

/* Splits "CODE text" of an error reply. */
static void keep_error(struct asker *asker, struct bytes text)
{
    const uint8_t *blank = text.size == 0 ? NULL
                                          : memchr(text.data, ' ', text.size);
    size_t size = blank != NULL ? (size_t)(blank - text.data) : text.size;
    size_t rest = blank != NULL ? text.size - size - 1 : 0;
    snprintf(asker->code, sizeof asker->code, "%.*s", (int)size,
             (const char *)text.data);
    snprintf(asker->why, sizeof asker->why, "%.*s",
             (int)(rest > 0 ? rest : text.size),
             (const char *)(rest > 0 ? blank + 1 : text.data));
}

enum outcome asker_read_error(struct asker *asker, struct bytes text)
{
    char why[HASP_WHY_SIZE];
    keep_error(asker, text);
    if (strcmp(asker->code, "NOLEADER") == 0) {
        /* The reason; that nothing was done is said of all together. */
        asker_note(asker, "%.*s", (int)strcspn(asker->why, ";"), asker->why);
        return OUTCOME_NO_LEADER;
    }
    if (strcmp(asker->code, "BUSY") == 0) {
        /* The text says with what, and perhaps for how long. */
        asker_note(asker, "%s", asker->why);
        return OUTCOME_BUSY;
    }
    if (strcmp(asker->code, "UNKNOWN") == 0) {
        asker_note(asker, "does not know the outcome");
        return OUTCOME_UNKNOWN;
    }
    if (strcmp(asker->code, "MOVED") == 0) {
        const char *address = strrchr(asker->why, ' ');
        address = address != NULL ? address + 1 : asker->why;
        if (endpoint_parse(address, strlen(address), &asker->moved, why) == 0) {
            asker_note(asker, "sent us to %s", asker->moved.text);
            return OUTCOME_MOVED;
        }
        return OUTCOME_NO_LEADER;
    }
    return OUTCOME_REFUSED;
}

void asking_count(struct asking *ask, enum outcome outcome)
{
    if (outcome == OUTCOME_UNKNOWN && ask->is_read) {
        outcome = OUTCOME_UNREACHABLE;
    }
    if (outcome != OUTCOME_NONE) {
        ask->seen |= 1u << outcome;
    }
}

bool asking_may_go_on(const struct asking *ask)
{
    bool is_unknown = (ask->seen & 1u << OUTCOME_UNKNOWN) != 0;
    return !ask->is_once && (!is_unknown || ask->is_repeatable);
}

bool asker_is_refusal_of_asker(const struct asker *asker)
{
    return strcmp(asker->code, "NOAUTH") == 0 ||
           strcmp(asker->code, "WRONGPASS") == 0 ||
           strcmp(asker->code, "NOTLS") == 0;
}

/* What is told of who asks, and not of what is asked, or that the leader has no
 * room on its disk, is no entry's result: it tells nothing of an earlier
 * sending, which may have been done, or be on its way to the log. */
bool asking_is_open_still(const struct asker *asker, const struct asking *ask)
{
    bool is_disk = strcmp(asker->code, "LIMIT") == 0 &&
                   strncmp(asker->why, "disk", 4) == 0;
    return (ask->was_sent || (ask->seen & 1u << OUTCOME_UNKNOWN) != 0) &&
           (asker_is_refusal_of_asker(asker) || is_disk);
}

/* --- How a request ends --------------------------------------------------- */

void asking_finish(struct asker *asker, struct asking *ask, int error)
{
    struct asking_end end = {.error = error, .code = "", .why = ""};
    leave_flight(asker, ask);
    list_remove(&ask->in_asker);
    ask->is_asked = ask->is_sent = false;
    if (ask->member != NULL) {
        asker_touch(ask->member);
    }
    if (error == 0) {
        end.reply = &asker->reply;
    } else {
        end.code = asker->code;
        end.why = asker->why;
    }
    ask->done(ask, &end);
}

/* "127.0.0.1:7420: Connection refused; 127.0.0.1:7430: no leader was found" */
static void list_endpoints(const struct asker *asker, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < asker->count && used < size; i++) {
        int count = snprintf(out + used, size - used, "%s%s: %s",
                             i > 0 ? "; " : "", asker->endpoint[i].text,
                             asker->last[i][0] != '\0' ? asker->last[i]
                                                       : "not asked");
        used += count > 0 ? (size_t)count : 0;
    }
}

int asking_judge(struct asker *asker, struct asking *ask)
{
    static const struct {
        enum outcome outcome;
        int error;
        const char *text;
    } ends[] = {
        {OUTCOME_UNKNOWN, HASP_ETIMEDOUT,
         "no answer in time, it may have been done or not"},
        {OUTCOME_BUSY, HASP_EBUSY, "busy, nothing was done"},
        {OUTCOME_NO_LEADER, HASP_ENOTLEADER, "no leader, nothing was done"},
        {OUTCOME_MOVED, HASP_ENOTLEADER, "no leader, nothing was done"},
        {OUTCOME_STRANGER, HASP_EPROTO, "what answers is no node of hasp"},
        {OUTCOME_DISTRUSTED, HASP_ECERT, "no trust between client and node"},
        {OUTCOME_UNREACHABLE, HASP_ECONNECT, "no node answers"},
    };
    char list[HASP_WHY_SIZE - 80];
    size_t i = 0;
    if (ask->is_sent || ask->seen == 0) {
        if (asker->state != ASKER_REST) {
            asker_note(asker, "no answer");
        }
        ask->seen |= 1u << (ask->is_sent && !ask->is_read
                                ? OUTCOME_UNKNOWN
                                : OUTCOME_UNREACHABLE);
    }
    while ((ask->seen & 1u << ends[i].outcome) == 0) {
        i++;
        CHECK(i < sizeof ends / sizeof ends[0]);
    }
    list_endpoints(asker, list, sizeof list);
    asker->code[0] = '\0';
    snprintf(asker->why, sizeof asker->why, "%s (%s)", ends[i].text, list);
    return ends[i].error;
}

void asking_give_up(struct asker *asker, struct asking *ask)
{
    int error = asking_judge(asker, ask);
    asking_finish(asker, ask, error);
}

void asking_take_refused(struct asker *asker, const struct asker_member *member,
                         struct asking_refused *ret_refused)
{
    list_init(&ret_refused->asks);
    memcpy(ret_refused->code, asker->code, sizeof ret_refused->code);
    memcpy(ret_refused->why, asker->why, sizeof ret_refused->why);
    LIST_EACH_SAFE (node, &asker->asks) {
        struct asking *ask = LIST_ENTRY(node, struct asking, in_asker);
        if (member != NULL && (ask->member != member || ask->is_apart)) {
            continue;
        }
        if (asking_is_open_still(asker, ask)) {
            asking_count(ask, OUTCOME_UNKNOWN);
        } else {
            list_remove(node);
            list_push_back(&ret_refused->asks, node);
        }
    }
}

void asking_end_refused(struct asker *asker, struct asking_refused *refused)
{
    while (!list_is_empty(&refused->asks)) {
        memcpy(asker->code, refused->code, sizeof asker->code);
        memcpy(asker->why, refused->why, sizeof asker->why);
        asking_finish(asker,
                      LIST_FIRST(&refused->asks, struct asking, in_asker),
                      HASP_EREPLY);
    }
}
