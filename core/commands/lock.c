/* SPDX-License-Identifier: MIT */

/* The commands that change locks: from arguments to entries. */

#include "base/check.h"
#include "core/commands/commands.h"
#include "core/propose.h"

static struct bytes no_bytes = {NULL, 0};

/* A wait without a limit has the time 0. */
static void read_wait(const struct call *call, bool *ret_is_waiting,
                      uint64_t *ret_wait_ms)
{
    uint64_t wait = call_number(call, OPTION_WAIT, 0);
    *ret_is_waiting = wait != 0;
    *ret_wait_ms = wait == WAIT_FOREVER ? 0 : wait;
    CHECK(*ret_wait_ms <= TIME_MS_MAX); /* The range of the option WAIT. */
}

/* A client that requests a push must have RESP3 to receive it, and a number
 * with which it can ask for the result. */
static bool check_push(struct call *call, struct resp_writer *writer)
{
    if (call_has(call, OPTION_PUSH) &&
        (!call_has(call, OPTION_REQ) || writer->version == 2)) {
        return call_fail(call, writer, "PUSH needs REQ and RESP3 (HELLO 3)");
    }
    return true;
}

bool lock_acquire_check(struct call *call, struct resp_writer *writer)
{
    if (call_has(call, OPTION_SHARED) && call_has(call, OPTION_SLOTS)) {
        return call_fail(call, writer, "SHARED and SLOTS exclude each other");
    }
    return check_push(call, writer);
}

void lock_acquire_propose(struct core *core, struct request *request,
                          const struct call *call)
{
    struct acquire_command acquire = {
        .origin = call_origin(request, call),
        .names = call->names,
        .name_count = call->name_count,
        .mode = call_has(call, OPTION_SHARED)  ? LOCK_SHARED
                : call_has(call, OPTION_SLOTS) ? LOCK_SLOTS
                                               : LOCK_EXCLUSIVE,
        .slots = (uint32_t)call_number(call, OPTION_SLOTS, 0),
        .is_barging = call_has(call, OPTION_BARGE),
        .value = call_text(call, OPTION_VALUE),
        .delay_ms = call_number(call, OPTION_DELAY, 0),
        .hold_ms = call_number(call, OPTION_HOLD, 0),
    };
    CHECK(call->name_count > 0);
    read_wait(call, &acquire.is_waiting, &acquire.wait_ms);
    (void)traceparent_parse(call_text(call, OPTION_TRACE), acquire.trace);
    propose_acquire(core, request, &acquire);
}

void lock_release_propose(struct core *core, struct request *request,
                          const struct call *call)
{
    struct release_command release = {
        .origin = call_origin(request, call),
        .names = call->names,
        .name_count = call->name_count,
        .is_counting = call->command->reply_kind == REPLY_RELEASED,
    };
    CHECK(call->name_count > 0);
    if (call_has(call, OPTION_TOKENS)) {
        release.tokens = call->tokens;
        release.token_count = call->name_count;
    } else if (call_has(call, OPTION_TOKEN)) {
        release.tokens = &call->number[OPTION_TOKEN];
        release.token_count = 1;
    }
    propose_release(core, request, &release);
}

bool lock_release_if_check(struct call *call, struct resp_writer *writer)
{
    if (!call_has(call, OPTION_OWNER)) {
        return call_fail(call, writer, "OWNER is missing");
    }
    if (call->text[OPTION_OWNER].size == 0 && !call_has(call, OPTION_TOKEN)) {
        return call_fail(call, writer, "an empty OWNER needs TOKEN");
    }
    return true;
}

/* OWNER and SESSION name the hold that is released, not the client that asks.
 */
void lock_release_if_propose(struct core *core, struct request *request,
                             const struct call *call)
{
    struct release_if_command release = {
        .origin = call_origin(request, call),
        .name = call->name,
        .session = call_number(call, OPTION_SESSION, 0),
        .owner = call_text(call, OPTION_OWNER),
        .token = call_number(call, OPTION_TOKEN, 0),
    };
    CHECK(release.owner.size > 0 || release.token != 0);
    release.origin.owner = no_bytes;
    propose_release_if(core, request, &release);
}

bool lock_convert_check(struct call *call, struct resp_writer *writer)
{
    if (call_has(call, OPTION_SHARED) == call_has(call, OPTION_EXCLUSIVE)) {
        return call_fail(call, writer, "SHARED or EXCLUSIVE is missing");
    }
    return check_push(call, writer);
}

void lock_convert_propose(struct core *core, struct request *request,
                          const struct call *call)
{
    struct convert_command convert = {
        .origin = call_origin(request, call),
        .name = call->name,
        .to = call_has(call, OPTION_SHARED) ? LOCK_SHARED : LOCK_EXCLUSIVE,
        .token = call_number(call, OPTION_TOKEN, 0),
    };
    CHECK(!call_has(call, OPTION_SHARED) || !call_has(call, OPTION_EXCLUSIVE));
    read_wait(call, &convert.is_waiting, &convert.wait_ms);
    propose_convert(core, request, &convert);
}

bool lock_break_check(struct call *call, struct resp_writer *writer)
{
    return call_has(call, OPTION_AFTER) ||
           call_fail(call, writer,
                     "AFTER ms is missing: how long the holder may object");
}
