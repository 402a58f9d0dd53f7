/* SPDX-License-Identifier: MIT */

/* What a client learns about a hold that it was granted: which tokens name it,
 * and for how long it may trust it. */

#include "core/command.h"

#include "base/check.h"
#include "base/minmax.h"
#include "core/request.h"
#include "core/state.h"

/* What is left of the hold's limit, of which the client trusts 0.8 (rule 16),
 * rounded down. Only the serving leader knows it. */
static void put_left(struct core *core, const struct hold *hold, bool is_pushed,
                     struct resp_writer *writer)
{
    resp_text(writer, "hold_left_ms");
    if (hold != NULL && hold->hold_ms == 0) {
        resp_null(writer);
    } else if (hold == NULL || is_pushed || !is_serving(core)) {
        resp_integer(writer, 0);
    } else {
        uint64_t left_ns = timers_hold_left(core->timers, core->fsm,
                                            hold->lock->name, hold->session->id,
                                            hold->owner, core->now_ns);
        resp_integer(writer, (int64_t)(left_ns / NS_PER_MS));
    }
}

void grant_put(struct core *core, const struct grant_of *grant,
               struct resp_writer *writer)
{
    const struct lock *lock = lockfsm_lock(core->fsm, grant->lock);
    const struct hold *hold = lock == NULL
                                  ? NULL
                                  : lockfsm_hold(core->fsm, lock,
                                                 grant->session, grant->owner);
    if (hold != NULL && !hold_is(hold, grant->token)) {
        hold = NULL; /* This is another hold of the same owner. */
    }
    resp_map(writer, 9);
    resp_key_bulk(writer, "lock", grant->lock);
    resp_key_bulk(writer, "owner", grant->owner);
    resp_key_number(writer, "token", grant->token);
    resp_key_number(writer, "first",
                    hold != NULL ? hold->first_token : grant->token);
    resp_key_text(writer, "mode",
                  hold != NULL ? lock_mode_name(hold->mode) : "free");
    resp_key_number(writer, "count", hold != NULL ? hold->count : 0);
    put_left(core, hold, grant->is_pushed, writer);
    resp_key_number(writer, "delay_ms", hold != NULL ? hold->delay_ms : 0);
    resp_key_number(writer, "as_of", lockfsm_newest_token(core->fsm));
}

void grants_answer(struct core *core, struct request *request,
                   const struct result *result)
{
    /* The arguments were released when the entry was proposed. */
    bool is_understood = request_understand(core, request);
    CHECK(is_understood); /* They could be parsed before. */
    const struct call *call = request->call;
    struct resp_writer *writer = request_reply(core, request);
    struct grant_of grant = {.session = request->session,
                             .owner = call_text(call, OPTION_OWNER)};
    bool is_list = request->command->reply_kind == REPLY_TOKENS;
    if (is_list) {
        resp_array(writer, result->token_count);
    }
    for (uint32_t i = 0; i < (is_list ? result->token_count : 1); i++) {
        CHECK(i < call->name_count);
        grant.lock = call->names[i];
        grant.token = is_list ? result->tokens[i] : result->token;
        grant_put(core, &grant, writer);
    }
    request_done(core, request);
}
