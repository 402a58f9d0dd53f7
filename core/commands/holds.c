/* SPDX-License-Identifier: MIT */

/* SESSION.HOLDS: all holds of a session. */

#include "core/commands/commands.h"
#include "core/commands/listing.h"
#include "core/request.h"
#include "core/state.h"

/* The holds of the acting session, in pages: for a client that may have missed
 * a notice. */
void session_holds_read(struct core *core, struct request *request)
{
    struct listing listing;
    const struct call *call = request->call;
    uint64_t session = request->session;
    struct treap *set = lockfsm_hold_order(core->fsm, session);
    if (set == NULL) {
        request_refuse(core, request, WORD_EXPIRED, "the session has ended");
        return;
    }
    if (!listing_begin(core, request, call, set, true, &listing)) {
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, 3);
    resp_text(writer, "cursor");
    listing_put_cursor(writer, &listing, listing.count);
    /* With this number a client can tell a hold that has ended from one that
     * was granted after this answer. */
    resp_key_number(writer, "as_of", lockfsm_newest_token(core->fsm));
    resp_key_array(writer, "holds", listing.count);
    for (uint32_t i = 0; i < listing.count; i++) {
        const struct hold *hold = LISTED(&listing, i, struct hold, in_order);
        grant_put(core,
                  &(struct grant_of){.session = session,
                                     .owner = hold->owner,
                                     .lock = hold->lock->name,
                                     .token = hold->token},
                  writer);
    }
    listing_done(&listing);
    request_done(core, request);
}
