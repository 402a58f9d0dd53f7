/* SPDX-License-Identifier: MIT */

/* PUT and DELETE of a lease: SET NX PX and the scripts of Redis lock clients,
 * between two reads of the lock. The first one refuses a client that may not
 * read it, before anything is done, and answers without an entry of the log if
 * the lock is not free. The second one has the token. */

#include <string.h>

#include "http/exchange.h"
#include "net/json.h"

#define IF_MINE "if redis.call('get',KEYS[1]) == ARGV[1] then return "
#define EXTEND IF_MINE "redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end"
#define DELETE IF_MINE "redis.call('del',KEYS[1]) else return 0 end"

static void put_script(struct exchange *exchange, struct words *step,
                       const char *script)
{
    words_put_text(step, "EVAL");
    words_put_text(step, script);
    words_put_text(step, "1");
    words_put(step, fields_text(&exchange->fields, "name"));
    words_put(step, fields_text(&exchange->fields, "holder"));
}

static bool is_taking(const struct exchange *exchange)
{
    return exchange->fields.route->kind == ROUTE_LEASE_TAKE;
}

static bool is_renewing(const struct exchange *exchange)
{
    return is_taking(exchange) &&
           fields_get(&exchange->fields, "renew")->number != 0;
}

static void lease_put_show(struct exchange *exchange)
{
    struct words *step = exchange_step(exchange);
    words_put_text(step, "LOCK.SHOW");
    words_put(step, fields_text(&exchange->fields, "name"));
}

static bool lease_begin(struct exchange *exchange, struct problem *problem)
{
    (void)problem; /* fields_read() has checked everything. */
    if (!is_taking(exchange)) {
        put_script(exchange, exchange_step(exchange), DELETE);
        return true;
    }
    lease_put_show(exchange);
    struct words *step = exchange_step(exchange);
    uint64_t ttl_ms = fields_get(&exchange->fields, "ttl_ms")->number;
    if (is_renewing(exchange)) {
        put_script(exchange, step, EXTEND);
        words_put_number(step, ttl_ms);
    } else {
        words_put_text(step, "SET");
        words_put(step, fields_text(&exchange->fields, "name"));
        words_put(step, fields_text(&exchange->fields, "holder"));
        words_put_text(step, "NX");
        words_put_text(step, "PX");
        words_put_number(step, ttl_ms);
        /* Two clients with the same name must not both hold the lock. */
        words_put_text(step, "FRESH");
    }
    lease_put_show(exchange);
    return true;
}

/* Answers 423: the holder, its token, and until when it holds the lock at
 * least.
 */
static void refuse_held(struct exchange *exchange,
                        const struct resp_reply *show, uint32_t holder,
                        bool is_ours)
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
                holder == 0 && is_renewing(exchange)
                    ? "it is not held: this lease has ended"
                : holder == 0 ? "no lock is granted now: see earliest_ms"
                : is_ours ? "this holder has it already: an earlier answer was "
                            "lost, or another program uses the same name"
                          : "another holder has it");
    exchange_refuse(exchange, &problem, more);
}

/* The current holder: its place in the answer to LOCK.SHOW; 0: none. */
static uint32_t find_holder(const struct exchange *exchange,
                            const struct resp_reply *show, bool *ret_is_ours)
{
    uint32_t holder = show_holder(show, 0);
    *ret_is_ours = holder != 0 &&
                   bytes_equal(resp_find(show, holder, "value")->bytes,
                               fields_text(&exchange->fields, "holder"));
    return holder;
}

/* Refuses at once what SET or EXTEND would refuse. */
static void take_first_show(struct exchange *exchange,
                            const struct resp_reply *show)
{
    bool is_ours;
    uint32_t holder = find_holder(exchange, show, &is_ours);
    if (is_renewing(exchange) ? !is_ours : holder != 0) {
        refuse_held(exchange, show, holder, is_ours);
    }
}

/* Answers after SET or EXTEND. */
static void answer_taking(struct exchange *exchange,
                          const struct resp_reply *show)
{
    bool is_ours;
    uint32_t holder = find_holder(exchange, show, &is_ours);
    if (!exchange->was_done || !is_ours) {
        refuse_held(exchange, show, holder, is_ours);
        return;
    }
    json_int_t trust_ms = (json_int_t)fields_get(&exchange->fields, "ttl_ms")
                              ->number;
    exchange_answer_json(exchange, 200,
                         json_pack("{sI, sI}", "token",
                                   resp_find(show, holder, "token")->integer,
                                   "trust_ms", trust_ms));
}

static void lease_reply(struct exchange *exchange,
                        const struct resp_reply *reply)
{
    const struct resp_value *value = &reply->value[0];
    bool is_done = value->type == RESP_SIMPLE ||
                   (value->type == RESP_INTEGER && value->integer == 1);
    if (is_taking(exchange) && exchange->at == exchange->first_own) {
        take_first_show(exchange, reply);
    } else if (is_taking(exchange) && value->type != RESP_MAP) {
        exchange->was_done = is_done;
    } else if (is_taking(exchange)) {
        answer_taking(exchange, reply);
    } else if (is_done) {
        exchange_answer_json(exchange, 200, json_pack("{si}", "released", 1));
    } else {
        struct problem problem;
        problem_set(&problem, 409, "NOTHELD", NULL,
                    "this holder does not hold it");
        exchange_refuse(exchange, &problem, NULL);
    }
}

const struct door door_lease = {
    .name = "lease", .begin = lease_begin, .reply = lease_reply};
