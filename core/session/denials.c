/* SPDX-License-Identifier: MIT */

/* Gathers what was denied, and tells it now and then. */

#include "core/session/denials.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "core/command.h"
#include "core/state.h"

/* The place of denials for which there is no key of their own. */
#define OTHERS DENIAL_MAX

void denials_init(struct core *core)
{
    core->measures.denials = (struct denials){0};
}

void denials_done(struct core *core)
{
    free(core->measures.denials.denial);
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

static uint64_t hash_key(uint64_t who, const char *command, struct bytes error)
{
    uint64_t parts[3] = {who, hash_bytes(command, strlen(command)),
                         hash_bytes(error.data, error.size)};
    return hash_bytes(parts, sizeof parts);
}

static uint32_t find(const struct denials *denials, uint64_t key)
{
    uint32_t i = 0;
    while (i < denials->count && denials->key[i] != key) {
        i++;
    }
    return i;
}

/* The place for one more denial of 'who'; OTHERS if 'who' has too many already.
 */
static uint32_t place_for(const struct denials *denials, uint64_t who,
                          uint64_t now_ns)
{
    uint32_t own = 0, place = OTHERS;
    for (uint32_t i = 0; i < denials->count; i++) {
        own += denials->who[i] == who ? 1 : 0;
    }
    if (own < DENIAL_WHO_MAX && denials->count < DENIAL_MAX) {
        return denials->count;
    }
    for (uint32_t i = 0; i < denials->count; i++) {
        const struct core_denial *denial = &denials->denial[i];
        bool may_go = denial->untold_count == 0 &&
                      now_ns - denial->last_ns >= DENIAL_IDLE_NS &&
                      (own < DENIAL_WHO_MAX || denials->who[i] == who);
        if (may_go && (place == OTHERS ||
                       denial->last_ns < denials->denial[place].last_ns)) {
            place = i;
        }
    }
    return place;
}

/* The first line of a text, without what belongs to the protocol. */
static void copy_text(char *out, size_t size, struct bytes text)
{
    size_t n = 0;
    while (n < text.size && n < size - 1 && text.data[n] != '\r') {
        n++;
    }
    memcpy(out, text.data, n);
    out[n] = '\0';
}

static void begin(struct core *core, struct core_denial *denial,
                  const struct request *request, const char *command,
                  struct bytes error)
{
    *denial = (struct core_denial){
        .command = command,
        .tell_ns = UINT64_MAX,
        .period_ns = DENIAL_TELL_NS,
        .first_ms = core->port.wall_ms(core->port.data)};
    const struct user *user = lockfsm_user(core->fsm, request->user);
    if (request->user != USER_ANYONE) {
        copy_text(denial->user, sizeof denial->user,
                  user != NULL ? user->name : BYTES_LITERAL("?"));
    }
    copy_text(denial->why, sizeof denial->why, error);
}

/* Finds the denial that the refused request belongs to, or begins a new one. */
static struct core_denial *
gather(struct core *core, const struct request *request, struct bytes error)
{
    struct denials *denials = &core->measures.denials;
    const char *command = request->command->name;
    uint64_t who = hash_who(request);
    uint64_t key = hash_key(who, command, error);
    uint32_t place = find(denials, key);
    if (place < denials->count) {
        return &denials->denial[place];
    }
    place = place_for(denials, who, core->now_ns);
    struct core_denial *denial = &denials->denial[place];
    if (place == OTHERS) {
        if (denial->command == NULL) {
            begin(core, denial, request, "",
                  BYTES_LITERAL("more than are told one by one"));
            denial->user[0] = '\0';
        }
        return denial;
    }
    denials->key[place] = key;
    denials->who[place] = who;
    denials->count += place == denials->count ? 1 : 0;
    CHECK(denials->count <= DENIAL_MAX);
    begin(core, denial, request, command, error);
    return denial;
}

static bool is_denial(enum core_word word)
{
    return word == WORD_NOPERM || word == WORD_NOAUTH ||
           word == WORD_WRONGPASS || word == WORD_NOTLS;
}

/* What is said of the denial: the reply without its first byte. */
static struct bytes text_of(struct bytes reply)
{
    return reply.size > 0 ? bytes_of(reply.data + 1, reply.size - 1) : reply;
}

void denials_note(struct core *core, const struct request *request,
                  struct bytes reply)
{
    struct denials *denials = &core->measures.denials;
    struct bytes error = text_of(reply);
    if (!is_denial(request->outcome.word)) {
        return;
    }
    /* Nobody is denied a command that does not exist. */
    CHECK(request->conn != NULL && request->command != NULL);
    if (denials->denial == NULL) {
        denials->denial = memory_new((DENIAL_MAX + 1) *
                                     sizeof *denials->denial);
    }
    struct core_denial *denial = gather(core, request, error);
    denial->count++;
    denial->untold_count++;
    denial->last_ns = core->now_ns;
    denial->last_ms = core->port.wall_ms(core->port.data);
    if (denial->command[0] != '\0') {
        copy_text(denial->from, sizeof denial->from,
                  bytes_of_text(request->conn->address));
    }
    if (denial->tell_ns == UINT64_MAX) {
        denial->tell_ns = core->now_ns + denial->period_ns;
    }
    if (denials->next_ns == 0 || denial->tell_ns < denials->next_ns) {
        denials->next_ns = denial->tell_ns;
    }
}

/* --- Telling -------------------------------------------------------------- */

static void tell(struct core *core, struct core_denial *denial)
{
    uint32_t left_out;
    CHECK(denial->command != NULL && denial->untold_count > 0);
    if (log_limit_pass(&core->measures.denials.lines, core->now_ns / NS_PER_MS,
                       &left_out)) {
        struct buffer user = {0}, from = {0};
        buffer_put_text(&user, log_quote(denial->user));
        buffer_put_text(&from, log_quote(denial->from));
        LOG_WARN("denied",
                 "user=%.*s from=%.*s command=%s count=%" PRIu64
                 " why=%s suppressed=%" PRIu32,
                 (int)user.size, (const char *)user.data, (int)from.size,
                 (const char *)from.data, denial->command, denial->untold_count,
                 log_quote(denial->why), left_out);
        buffer_done(&user);
        buffer_done(&from);
    }
    denial->unwritten_count += denial->untold_count;
    denial->untold_count = 0;
}

/* A denial that goes on is reported less and less often. */
static void tell_due(struct core *core, struct core_denial *denial)
{
    if (denial->untold_count == 0) {
        denial->tell_ns = UINT64_MAX;
        denial->period_ns = DENIAL_TELL_NS;
        return;
    }
    tell(core, denial);
    denial->period_ns = u64_min(2 * denial->period_ns, DENIAL_TELL_MAX_NS);
    denial->tell_ns = core->now_ns + denial->period_ns;
}

/* The denial at 'place': a kept one, or that of the others behind them. */
static struct core_denial *at(const struct denials *denials, uint32_t place)
{
    CHECK(place <= denials->count && denials->count <= OTHERS);
    return &denials->denial[place < denials->count ? place : OTHERS];
}

void denials_turn(struct core *core)
{
    struct denials *denials = &core->measures.denials;
    uint64_t next_ns = UINT64_MAX;
    if (denials->next_ns == 0 || core->now_ns < denials->next_ns) {
        return;
    }
    for (uint32_t i = 0; i <= denials->count; i++) {
        struct core_denial *denial = at(denials, i);
        if (denial->command != NULL && denial->tell_ns <= core->now_ns) {
            tell_due(core, denial);
        }
        if (denial->command != NULL) {
            next_ns = u64_min(next_ns, denial->tell_ns);
        }
    }
    denials->next_ns = next_ns == UINT64_MAX ? 0 : next_ns;
}

void denials_tell(struct core *core)
{
    struct denials *denials = &core->measures.denials;
    for (uint32_t i = 0; denials->denial != NULL && i <= denials->count; i++) {
        if (at(denials, i)->untold_count > 0) {
            tell(core, at(denials, i));
        }
    }
}

uint64_t denials_next(const struct core *core)
{
    return core->measures.denials.next_ns != 0 ? core->measures.denials.next_ns
                                               : UINT64_MAX;
}

struct core_denial *core_denial(struct core *core, uint32_t place)
{
    struct denials *denials = &core->measures.denials;
    if (denials->denial == NULL || place > denials->count) {
        return NULL;
    }
    return at(denials, place);
}
