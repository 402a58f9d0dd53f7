/* SPDX-License-Identifier: MIT */

/* Records logins at the admin socket in the audit log. */

#include "node/logins.h"

#include "base/check.h"
#include "net/admin_socket.h"
#include "node/node.h"

void logins_init(struct logins *logins, struct hasp_node *node)
{
    *logins = (struct logins){.node = node};
}

void logins_note(struct logins *logins, uint64_t now_ns)
{
    if (now_ns >= logins->quiet_until) {
        logins->is_due = true;
        turn_wake(&logins->node->turn);
    }
}

static void logins_ask(struct logins *logins, uint64_t now_ns)
{
    static const struct identity local = {.way = IDENTITY_LOCAL,
                                          .is_private = true};
    struct core *core = logins->node->core;
    struct bytes word = BYTES_LITERAL("AUDIT.LOGIN");
    struct resp_request request = {.argument = &word, .count = 1};
    CHECK(!logins->is_asking); /* There is only one connection for it. */
    buffer_clear(&logins->answer);
    logins->is_asking = true;
    core_client_opened(core, LOGINS_CONN, ADMIN_SOCKET_ADDRESS, &local, now_ns);
    core_client_request(core, LOGINS_CONN, &request, now_ns);
    turn_wake(&logins->node->turn);
}

static void logins_take_answer(struct logins *logins, uint64_t now_ns)
{
    CHECK(logins->is_asking && logins->answer.size > 0);
    if (logins->answer.data[0] == '-') {
        logins->not_before = now_ns + LOGIN_RETRY_NS;
    } else {
        logins->is_due = false;
        logins->quiet_until = now_ns + LOGIN_QUIET_NS;
    }
    logins->is_asking = false;
    core_client_closed(logins->node->core, LOGINS_CONN, now_ns);
}

void logins_turn(struct logins *logins, uint64_t now_ns)
{
    CHECK(logins->node->has_begun);
    if (logins->is_asking && logins->answer.size > 0) {
        logins_take_answer(logins, now_ns);
    }
    if (logins->is_due && !logins->is_asking && now_ns >= logins->not_before) {
        logins_ask(logins, now_ns);
    }
}

void logins_done(struct logins *logins)
{
    buffer_done(&logins->answer);
}
