/* SPDX-License-Identifier: MIT */

/* SESSION.HOLDS: all holds of a session. */

#include "core/commands/commands.h"
#include "core/commands/listing.h"
#include "core/request.h"
#include "core/state.h"

static void hold_row(struct core *core, const struct request *request,
                     const struct treap_node *node, struct resp_writer *writer)
{
    const struct hold *hold = LIST_ENTRY(node, const struct hold, in_order);
    (void)request;
    grant_put(core,
              &(struct grant_of){.session = hold->session->id,
                                 .owner = hold->owner,
                                 .lock = hold->lock->name,
                                 .token = hold->token},
              writer);
}

/* The holds of the acting session, in pages: for a client that may have missed
 * a notice. */
void session_holds_read(struct core *core, struct request *request)
{
    struct listing listing;
    struct treap *set = lockfsm_hold_order(core->fsm, request->session);
    if (set == NULL) {
        request_refuse(core, request, WORD_EXPIRED, "the session has ended");
        return;
    }
    if (!listing_begin(core, request, set, true, hold_row, &listing)) {
        return;
    }
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, 3);
    resp_text(writer, "cursor");
    listing_put_cursor(writer, &listing);
    /* With this number a client can tell a hold that has ended from one that
     * was granted after this answer. */
    resp_key_number(writer, "as_of", lockfsm_newest_token(core->fsm));
    resp_text(writer, "holds");
    rows_put(core, &listing.rows, writer);
    request_done(core, request);
}
