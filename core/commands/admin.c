/* SPDX-License-Identifier: MIT */

/* BLACKLIST.*, LIMITS.* */

#include "base/check.h"
#include "core/commands/commands.h"
#include "core/commands/listing.h"
#include "core/request.h"
#include "core/state.h"

bool blacklist_check(struct call *call, struct resp_writer *writer)
{
    if (call_has(call, OPTION_SESSION) == call_has(call, OPTION_CLIENT)) {
        return call_fail(call, writer, "SESSION or CLIENT is missing");
    }
    return true;
}

/* How many entries are passed over for what one that is shown costs. */
#define PASSED_PER_SHOWN 32

static void blacklist_put(struct core *core, const struct blacklisting *entry,
                          struct resp_writer *writer)
{
    resp_map(writer, 6);
    resp_key_number(writer, "session", entry->session);
    resp_key_bulk(writer, "client", entry->client);
    resp_key_bulk(writer, "reason", entry->reason);
    resp_key_bulk(writer, "by", entry->by);
    resp_key_number(writer, "for_ms", entry->for_ms);
    resp_text(writer, "since_ms");
    resp_integer(writer, (int64_t)age_ms(core, entry->since_index));
}

/* Pages in the order of addition; the cursor is the index of the last entry
 * that was shown. */
void blacklist_list_read(struct core *core, struct request *request)
{
    const struct list *list = lockfsm_blacklist(core->fsm);
    const struct list *at = list->next;
    struct rows rows;
    uint64_t passed = 0;
    uint64_t after, last = 0;
    if (!listing_number_cursor(core, request, &after)) {
        return;
    }
    while (at != list &&
           LIST_ENTRY(at, struct blacklisting, in_order)->since_index <=
               after) {
        at = at->next;
        passed++;
    }
    rows_begin(&rows, request, call_page(request->call), ROWS_SIZE_MAX);
    for (; at != list && rows_have_room(&rows); at = at->next) {
        const struct blacklisting *entry = LIST_ENTRY(at, struct blacklisting,
                                                      in_order);
        blacklist_put(core, entry, &rows.writer);
        if (!rows_keep(&rows)) {
            break;
        }
        last = entry->since_index;
    }
    /* Entries that are only passed cost time, too: a client that pages through
     * the list pays for them. */
    listing_spend(core, passed / PASSED_PER_SHOWN + rows.count);
    struct resp_writer *writer = request_reply(core, request);
    resp_array(writer, 2);
    listing_put_number_cursor(writer, at != list ? last : 0);
    rows_put(core, &rows, writer);
    request_done(core, request);
}

void limits_list_read(struct core *core, struct request *request)
{
    struct resp_writer *writer = request_reply(core, request);
    resp_array(writer, LIMIT_COUNT);
    for (int i = 0; i < LIMIT_COUNT; i++) {
        enum limit_key key = (enum limit_key)i;
        resp_map(writer, 5);
        resp_key_text(writer, "name", limit_rules[key].name);
        resp_key_number(writer, "value", lockfsm_limit(core->fsm, key));
        resp_text(writer, "used");
        if (limit_is_bound(key)) {
            resp_null(writer);
        } else {
            resp_integer(writer, (int64_t)lockfsm_limit_use(core->fsm, key));
        }
        resp_key_number(writer, "min", limit_rules[key].min);
        resp_key_number(writer, "max", limit_rules[key].max);
    }
    request_done(core, request);
}
