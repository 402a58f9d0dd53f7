/* SPDX-License-Identifier: MIT */

/* PUT and DELETE of a lease: SET NX PX and the scripts of Redis lock clients,
 * and a look at the lock behind that, which has the token. */

#include <string.h>

#include "http/json.h"
#include "http/visit.h"

#define IF_MINE "if redis.call('get',KEYS[1]) == ARGV[1] then return "
#define EXTEND IF_MINE "redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end"
#define DELETE IF_MINE "redis.call('del',KEYS[1]) else return 0 end"

static void put_script(struct visit *visit, struct words *step,
                       const char *script)
{
    words_put_text(step, "EVAL");
    words_put_text(step, script);
    words_put_text(step, "1");
    words_put(step, fields_text(&visit->fields, "name"));
    words_put(step, fields_text(&visit->fields, "holder"));
}

static bool is_taking(const struct visit *visit)
{
    return visit->fields.route->kind == ROUTE_LEASE_TAKE;
}

static bool is_renewing(const struct visit *visit)
{
    return is_taking(visit) && fields_get(&visit->fields, "renew")->number != 0;
}

void lease_begin(struct visit *visit)
{
    struct words *step = visit_step(visit);
    if (!is_taking(visit)) {
        put_script(visit, step, DELETE);
        return;
    }
    uint64_t ttl_ms = fields_get(&visit->fields, "ttl_ms")->number;
    if (is_renewing(visit)) {
        put_script(visit, step, EXTEND);
        words_put_number(step, ttl_ms);
    } else {
        words_put_text(step, "SET");
        words_put(step, fields_text(&visit->fields, "name"));
        words_put(step, fields_text(&visit->fields, "holder"));
        words_put_text(step, "NX");
        words_put_text(step, "PX");
        words_put_number(step, ttl_ms);
        /* Two clients of the same name must not both hold the lock. */
        words_put_text(step, "FRESH");
    }
    step = visit_step(visit);
    words_put_text(step, "LOCK.SHOW");
    words_put(step, fields_text(&visit->fields, "name"));
}

/* Answers 423: who holds the lock, with which token, and until when at least.
 */
static void refuse_held(struct visit *visit, const struct resp_reply *show,
                        uint32_t holder, bool is_ours)
{
    struct problem problem;
    json_t *more = json_object();
    const struct resp_value *earliest = resp_find(show, 0, "earliest_ms");
    if (holder != 0) {
        json_put_text(more, "holder", resp_find(show, holder, "value")->bytes);
        json_put(more, "token",
                 json_integer(resp_find(show, holder, "token")->integer));
        json_put(more, "yours", json_boolean(is_ours));
    }
    if (earliest->type == RESP_INTEGER) {
        json_put(more, "earliest_ms", json_integer(earliest->integer));
    }
    problem_set(&problem, 423, "HELD", NULL,
                holder == 0 && is_renewing(visit)
                    ? "nobody holds it: this lease has ended"
                : holder == 0 ? "nothing is granted now: see earliest_ms"
                : is_ours
                    ? "this holder has it already: an answer of yours was "
                      "lost, or somebody goes by the same name"
                    : "another one holds it");
    visit_refuse(visit, &problem, more);
}

/* Answers after SET or EXTEND; 'is_done' if that succeeded. */
static void answer_taking(struct visit *visit, const struct resp_reply *show,
                          bool is_done)
{
    const struct resp_value *holders = resp_find(show, 0, "holders");
    uint32_t holder = holders->count > 0 ? (uint32_t)(holders - show->value) + 1
                                         : 0;
    bool is_ours = holder != 0 &&
                   bytes_equal(resp_find(show, holder, "value")->bytes,
                               fields_text(&visit->fields, "holder"));
    if (!is_done || !is_ours) {
        refuse_held(visit, show, holder, is_ours);
        return;
    }
    json_int_t trust_ms = (json_int_t)fields_get(&visit->fields, "ttl_ms")
                              ->number;
    visit_answer_json(visit, 200,
                      json_pack("{sI, sI}", "token",
                                resp_find(show, holder, "token")->integer,
                                "trust_ms", trust_ms));
}

void lease_reply(struct visit *visit, const struct resp_reply *reply)
{
    const struct resp_value *value = &reply->value[0];
    bool is_done = value->type == RESP_SIMPLE ||
                   (value->type == RESP_INTEGER && value->integer == 1);
    if (is_taking(visit) && visit->at + 1 < visit->step_count) {
        visit->was_done = is_done;
    } else if (is_taking(visit)) {
        answer_taking(visit, reply, visit->was_done);
    } else if (is_done) {
        visit_answer_json(visit, 200, json_pack("{si}", "released", 1));
    } else {
        struct problem problem;
        problem_set(&problem, 409, "NOTHELD", NULL,
                    "this holder does not hold it");
        visit_refuse(visit, &problem, NULL);
    }
}
