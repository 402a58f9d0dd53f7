/* SPDX-License-Identifier: MIT */

/* MULTI, DISCARD, UNWATCH. EXEC is decided like a script (commands.c). */

#include "base/check.h"
#include "core/commands/commands.h"
#include "core/conn.h"
#include "core/request.h"
#include "core/transaction.h"

void redis_multi_run(struct core *core, struct request *request)
{
    if (transaction_is_open(request->conn)) {
        request_refuse(core, request, WORD_ERR,
                       "MULTI calls can not be nested");
        return;
    }
    transaction_open(request->conn);
    request_answer_ok(core, request);
}

void redis_discard_run(struct core *core, struct request *request)
{
    if (!transaction_is_open(request->conn)) {
        request_refuse(core, request, WORD_ERR, "DISCARD without MULTI");
        return;
    }
    transaction_forget(core, request->conn);
    request_answer_ok(core, request);
}

void redis_unwatch_run(struct core *core, struct request *request)
{
    CHECK(!transaction_is_open(request->conn)); /* MULTI refuses it. */
    transaction_forget(core, request->conn);
    request_answer_ok(core, request);
}
