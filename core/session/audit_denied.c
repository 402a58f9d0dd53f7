/* SPDX-License-Identifier: MIT */

/* Groups denials, and reports them from time to time. */

#include "core/session/audit_denied.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "core/command.h"
#include "core/state.h"

/* The place for denials without a key of their own. */
#define OTHERS AUDIT_DENIED_MAX

void audit_denied_init(struct core *core)
{
    core->stats.audit_denied = (struct audit_denied){0};
}

void audit_denied_done(struct core *core)
{
    free(core->stats.audit_denied.denial);
}

/* --- Keys ----------------------------------------------------------------- */

static uint64_t hash_who(const struct request *request)
{
    char host[ADDRESS_SIZE] = "";
    if (request->user != USER_ANYONE) {
        return hash_bytes(&request->user, sizeof request->user);
    }
    address_origin(request->conn->address, host);
    return hash_bytes(host, strlen(host));
}

static uint64_t hash_key(uint64_t who, const char *command, enum core_word word,
                         struct bytes error)
{
    /* The text has the figures of that moment. */
    if (word == WORD_QUOTA) {
        error = BYTES_LITERAL("quota");
    }
    uint64_t parts[3] = {who, hash_bytes(command, strlen(command)),
                         hash_bytes(error.data, error.size)};
    return hash_bytes(parts, sizeof parts);
}

static uint32_t audit_denied_find(const struct audit_denied *audit_denied,
                                  uint64_t key)
{
    uint32_t i = 0;
    while (i < audit_denied->count && audit_denied->key[i] != key) {
        i++;
    }
    return i;
}

/* The place for another denial of 'who'; OTHERS if it has too many already. */
static uint32_t place_for(const struct audit_denied *audit_denied, uint64_t who,
                          uint64_t now_ns)
{
    uint32_t own = 0, place = OTHERS;
    for (uint32_t i = 0; i < audit_denied->count; i++) {
        own += audit_denied->who[i] == who ? 1 : 0;
    }
    if (own < AUDIT_DENIED_WHO_MAX && audit_denied->count < AUDIT_DENIED_MAX) {
        return audit_denied->count;
    }
    for (uint32_t i = 0; i < audit_denied->count; i++) {
        const struct core_denial *denial = &audit_denied->denial[i];
        /* Only a reported, idle denial gives up its place, and a subject with
         * its full share replaces only its own: otherwise one client could push
         * out all others. */
        bool may_go = denial->unreported_count == 0 &&
                      now_ns - denial->last_ns >= AUDIT_DENIED_IDLE_NS &&
                      (own < AUDIT_DENIED_WHO_MAX ||
                       audit_denied->who[i] == who);
        if (may_go && (place == OTHERS ||
                       denial->last_ns < audit_denied->denial[place].last_ns)) {
            place = i;
        }
    }
    return place;
}

/* Copies the first line of a text, without its protocol bytes. */
static void audit_denied_copy_text(char *out, size_t size, struct bytes text)
{
    size_t n = 0;
    while (n < text.size && n < size - 1 && text.data[n] != '\r') {
        n++;
    }
    memcpy(out, text.data, n);
    out[n] = '\0';
}

static void audit_denied_begin(struct core *core, struct core_denial *denial,
                               const struct request *request,
                               const char *command, struct bytes error)
{
    *denial = (struct core_denial){
        .command = command,
        .tell_ns = UINT64_MAX,
        .period_ns = AUDIT_DENIED_TELL_NS,
        .first_ms = core->port.wall_ms(core->port.data)};
    const struct user *user = lockfsm_user(core->fsm, request->user);
    if (request->user != USER_ANYONE) {
        audit_denied_copy_text(denial->user, sizeof denial->user,
                               user != NULL ? user->name : BYTES_LITERAL("?"));
    }
    audit_denied_copy_text(denial->why, sizeof denial->why, error);
}

/* Finds the denial that the refused request belongs to, or starts a new one. */
static struct core_denial *audit_denied_gather(struct core *core,
                                               const struct request *request,
                                               enum core_word word,
                                               struct bytes error)
{
    struct audit_denied *audit_denied = &core->stats.audit_denied;
    const char *command = request->command->name;
    uint64_t who = hash_who(request);
    uint64_t key = hash_key(who, command, word, error);
    uint32_t place = audit_denied_find(audit_denied, key);
    if (place < audit_denied->count) {
        return &audit_denied->denial[place];
    }
    place = place_for(audit_denied, who, core->now_ns);
    struct core_denial *denial = &audit_denied->denial[place];
    /* Keys are bounded, so that a client with many names cannot use up memory
     * or hide the denials of others. */
    if (place == OTHERS) {
        if (denial->command == NULL) {
            audit_denied_begin(core, denial, request, "",
                               BYTES_LITERAL("users that are not listed one "
                                             "by one"));
            denial->user[0] = '\0';
        }
        return denial;
    }
    audit_denied->key[place] = key;
    audit_denied->who[place] = who;
    audit_denied->count += place == audit_denied->count ? 1 : 0;
    CHECK(audit_denied->count <= AUDIT_DENIED_MAX);
    audit_denied_begin(core, denial, request, command, error);
    return denial;
}

static bool is_denial(enum core_word word)
{
    return word == WORD_NOPERM || word == WORD_NOAUTH ||
           word == WORD_WRONGPASS || word == WORD_NOTLS || word == WORD_QUOTA;
}

/* The text of a denial: the reply without its first byte. */
static struct bytes audit_denied_text_of(struct bytes reply)
{
    return reply.size > 0 ? bytes_of(reply.data + 1, reply.size - 1) : reply;
}

void audit_denied_note(struct core *core, const struct request *request,
                       enum core_word word, struct bytes reply)
{
    struct audit_denied *audit_denied = &core->stats.audit_denied;
    struct bytes error = audit_denied_text_of(reply);
    if (!is_denial(word)) {
        return;
    }
    /* A command that does not exist is not denied. */
    CHECK(request->conn != NULL && request->command != NULL);
    if (audit_denied->denial == NULL) {
        audit_denied->denial = memory_new((AUDIT_DENIED_MAX + 1) *
                                          sizeof *audit_denied->denial);
    }
    struct core_denial *denial = audit_denied_gather(core, request, word,
                                                     error);
    denial->count++;
    denial->unreported_count++;
    denial->last_ns = core->now_ns;
    denial->last_ms = core->port.wall_ms(core->port.data);
    if (denial->command[0] != '\0') {
        audit_denied_copy_text(denial->from, sizeof denial->from,
                               bytes_of_text(request->conn->address));
    }
    if (denial->command[0] != '\0' && word == WORD_QUOTA) {
        audit_denied_copy_text(denial->why, sizeof denial->why, error);
    }
    if (denial->tell_ns == UINT64_MAX) {
        denial->tell_ns = core->now_ns + denial->period_ns;
    }
    if (audit_denied->next_ns == 0 || denial->tell_ns < audit_denied->next_ns) {
        audit_denied->next_ns = denial->tell_ns;
    }
}

/* --- Reports -------------------------------------------------------------- */

static void audit_denied_report(struct core *core, struct core_denial *denial)
{
    uint32_t left_out;
    CHECK(denial->command != NULL && denial->unreported_count > 0);
    if (log_limit_pass(&core->stats.audit_denied.lines,
                       core->now_ns / NS_PER_MS, &left_out)) {
        struct buffer user = {0}, from = {0};
        buffer_put_text(&user, log_quote(denial->user));
        buffer_put_text(&from, log_quote(denial->from));
        LOG_WARN("denied",
                 "user=%.*s from=%.*s command=%s count=%" PRIu64
                 " why=%s suppressed=%" PRIu32,
                 (int)user.size, (const char *)user.data, (int)from.size,
                 (const char *)from.data, denial->command,
                 denial->unreported_count, log_quote(denial->why), left_out);
        buffer_done(&user);
        buffer_done(&from);
    }
    /* A suppressed line counts as reported, since the next line says how many
     * were suppressed. */
    denial->unwritten_count += denial->unreported_count;
    denial->unreported_count = 0;
}

/* A denial that continues is reported less and less often. */
static void tell_due(struct core *core, struct core_denial *denial)
{
    if (denial->unreported_count == 0) {
        denial->tell_ns = UINT64_MAX;
        denial->period_ns = AUDIT_DENIED_TELL_NS;
        return;
    }
    audit_denied_report(core, denial);
    denial->period_ns = u64_min(2 * denial->period_ns,
                                AUDIT_DENIED_TELL_MAX_NS);
    denial->tell_ns = core->now_ns + denial->period_ns;
}

/* The denial at 'place': one with a key, or after these the one for the
 * others. */
static struct core_denial *
audit_denied_at(const struct audit_denied *audit_denied, uint32_t place)
{
    CHECK(place <= audit_denied->count && audit_denied->count <= OTHERS);
    return &audit_denied->denial[place < audit_denied->count ? place : OTHERS];
}

void audit_denied_turn(struct core *core)
{
    struct audit_denied *audit_denied = &core->stats.audit_denied;
    uint64_t next_ns = UINT64_MAX;
    if (audit_denied->next_ns == 0 || core->now_ns < audit_denied->next_ns) {
        return;
    }
    for (uint32_t i = 0; i <= audit_denied->count; i++) {
        struct core_denial *denial = audit_denied_at(audit_denied, i);
        if (denial->command != NULL && denial->tell_ns <= core->now_ns) {
            tell_due(core, denial);
        }
        if (denial->command != NULL) {
            next_ns = u64_min(next_ns, denial->tell_ns);
        }
    }
    audit_denied->next_ns = next_ns == UINT64_MAX ? 0 : next_ns;
}

void audit_denied_tell(struct core *core)
{
    struct audit_denied *audit_denied = &core->stats.audit_denied;
    for (uint32_t i = 0;
         audit_denied->denial != NULL && i <= audit_denied->count; i++) {
        if (audit_denied_at(audit_denied, i)->unreported_count > 0) {
            audit_denied_report(core, audit_denied_at(audit_denied, i));
        }
    }
}

uint64_t audit_denied_next(const struct core *core)
{
    return core->stats.audit_denied.next_ns != 0
               ? core->stats.audit_denied.next_ns
               : UINT64_MAX;
}

struct core_denial *core_denial(struct core *core, uint32_t place)
{
    struct audit_denied *audit_denied = &core->stats.audit_denied;
    if (audit_denied->denial == NULL || place > audit_denied->count) {
        return NULL;
    }
    return audit_denied_at(audit_denied, place);
}
