/* SPDX-License-Identifier: MIT */

/* FleetLock: machines that update themselves ask before they reboot, and at
 * most N of a group may at once. The N places of a group are durable values
 * "fleetlock/GROUP/0" and so on; the text is the machine's id. One script
 * takes a place or gives it up, so a repeated request never takes a second
 * one. */

#include "http/fleetlock.h"

#include <stdio.h>
#include <string.h>

#include "http/exchange.h"
#include "net/json.h"

#define PREFIX "fleetlock/"
#define ID_SIZE_MAX 128
#define GROUP_SIZE_MAX 128

#define TAKE                                                             \
    "for i = 1, #KEYS do "                                               \
    "if redis.call('get', KEYS[i]) == ARGV[1] then return 1 end end "    \
    "for i = 1, #KEYS do if redis.call('exists', KEYS[i]) == 0 then "    \
    "redis.call('set', KEYS[i], ARGV[1], 'NX', 'DURABLE') return 1 end " \
    "end return 0"
#define DROP                                         \
    "local count = 0 for i = 1, #KEYS do "           \
    "if redis.call('get', KEYS[i]) == ARGV[1] then " \
    "redis.call('del', KEYS[i]) count = count + 1 end end return count"

static bool is_group(struct bytes group)
{
    bool is_good = group.size > 0 && group.size <= GROUP_SIZE_MAX;
    for (size_t i = 0; is_good && i < group.size; i++) {
        uint8_t c = group.data[i];
        is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9') || c == '.' || c == '-';
    }
    return is_good;
}

/* Takes the next "group:number" of a list; false at its end. The number is 0 if
 * the word is not of this form. */
static bool next_group(const char **groups, struct bytes *ret_word,
                       struct bytes *ret_group, uint64_t *ret_slots)
{
    const char *from = *groups != NULL ? *groups : "";
    from += strspn(from, " ");
    size_t size = strcspn(from, " ");
    const char *colon = memchr(from, ':', size);
    size_t name_size = colon != NULL ? (size_t)(colon - from) : size;
    *groups = from + size;
    *ret_word = bytes_of(from, size);
    *ret_group = bytes_of(from, name_size);
    *ret_slots = 0;
    if (colon == NULL || !is_group(*ret_group) ||
        !bytes_to_u64(bytes_of(colon + 1, size - name_size - 1), ret_slots) ||
        *ret_slots > FLEETLOCK_SLOTS_MAX) {
        *ret_slots = 0;
    }
    return size > 0;
}

/* How many of this group may reboot at once; 0: there is no such group. */
static uint32_t fleetlock_slots(const char *groups, struct bytes group)
{
    struct bytes word, one;
    uint64_t slots;
    while (next_group(&groups, &word, &one, &slots)) {
        if (bytes_equal(one, group)) {
            return (uint32_t)slots;
        }
    }
    return 0;
}

bool fleetlock_is_valid(const char *groups, struct bytes *ret_wrong)
{
    struct bytes group;
    uint64_t slots;
    const char *at = groups;
    while (next_group(&at, ret_wrong, &group, &slots)) {
        /* A second word with the name of an earlier one is wrong, too. */
        if (slots == 0 || fleetlock_slots(groups, group) != slots) {
            return false;
        }
    }
    return true;
}

static void send_script(struct exchange *exchange, struct bytes id,
                        struct bytes group, uint32_t slots)
{
    bool is_taking = exchange->fields.route->kind == ROUTE_FLEETLOCK_TAKE;
    struct words *step = exchange_step(exchange);
    char name[sizeof PREFIX + GROUP_SIZE_MAX + 16];
    words_put_text(step, "EVAL");
    words_put_text(step, is_taking ? TAKE : DROP);
    words_put_number(step, slots);
    for (uint32_t i = 0; i < slots; i++) {
        snprintf(name, sizeof name, PREFIX "%.*s/%u", (int)group.size,
                 (const char *)group.data, (unsigned)i);
        words_put_text(step, name);
    }
    words_put(step, id);
}

static struct bytes text_of(const json_t *object, const char *name)
{
    const json_t *text = json_object_get(object, name);
    return json_is_string(text)
               ? bytes_of(json_string_value(text), json_string_length(text))
               : BYTES_LITERAL("");
}

static bool fleetlock_begin(struct exchange *exchange, struct problem *problem)
{
    struct bytes body = http_body(exchange->raw_exchange);
    const char *groups = exchange->gateway->fleetlock;
    json_error_t error;
    json_t *document = json_loadb((const char *)body.data, body.size,
                                  JSON_REJECT_DUPLICATES, &error);
    const json_t *params = json_object_get(document, "client_params");
    struct bytes id = text_of(params, "id");
    struct bytes group = text_of(params, "group");
    uint32_t slots = is_group(group) ? fleetlock_slots(groups, group) : 0;
    const char *header = http_header(exchange->raw_exchange,
                                     "Fleet-Lock-Protocol");
    bool is_good = false;
    if (header == NULL || strcmp(header, "true") != 0) {
        /* No page of a browser can send it without asking first. */
        problem_set(problem, 400, "BADARG", NULL,
                    "the header fleet-lock-protocol must be true");
    } else if (id.size == 0 || id.size > ID_SIZE_MAX || !is_group(group)) {
        problem_set(problem, 400, "BADARG", NULL,
                    "the body must be {\"client_params\":{\"id\":ID,\"group\":"
                    "GROUP}}: an ID of 1 to %d bytes, a GROUP of letters, "
                    "digits, '.' and '-'",
                    ID_SIZE_MAX);
    } else if (slots == 0) {
        problem_set(problem, 400, "BADARG", "group",
                    "unknown group '%.*s'; add it to http.fleetlock, such as "
                    "%.*s:1, at every node",
                    (int)group.size, (const char *)group.data, (int)group.size,
                    (const char *)group.data);
    } else {
        send_script(exchange, id, group, slots);
        is_good = true;
    }
    json_decref(document);
    return is_good;
}

static void fleetlock_reply(struct exchange *exchange,
                            const struct resp_reply *reply)
{
    struct problem problem;
    bool is_taking = exchange->fields.route->kind == ROUTE_FLEETLOCK_TAKE;
    bool is_done = reply->value[0].type == RESP_INTEGER &&
                   reply->value[0].integer > 0;
    if (is_taking && !is_done) {
        problem_set(&problem, 409, "HELD", NULL,
                    "as many machines of this group reboot as may at once");
        exchange_refuse(exchange, &problem, NULL);
        return;
    }
    exchange_answer_json(exchange, 200, json_pack("{sb}", "ok", (int)true));
}

/* The kinds, of which clients make labels of their metrics. */
static const char *refusal_kind(const struct problem *problem)
{
    if (strcmp(problem->code, "HELD") == 0) {
        return "failed_lock_semaphore_full";
    }
    if (problem->field != NULL && strcmp(problem->field, "group") == 0) {
        return "unknown_group";
    }
    switch (problem->status) {
    case 401:
    case 403:
        return "not_authorized";
    case 504:
        return "outcome_unknown";
    default:
        return problem->status < 500 ? "bad_request" : "unavailable";
    }
}

static void fleetlock_refuse(const struct problem *problem,
                             struct http_reply *reply)
{
    json_t *document = json_object();
    reply->status = problem->status;
    reply->content_type = "application/json";
    json_put(document, "kind", json_string(refusal_kind(problem)));
    json_put_text(document, "value", bytes_of_text(problem->detail));
    json_write(document, &reply->body);
}

const struct door door_fleetlock = {.name = "fleetlock",
                                    .begin = fleetlock_begin,
                                    .reply = fleetlock_reply,
                                    .refuse = fleetlock_refuse,
                                    .has_own_guard = true};
