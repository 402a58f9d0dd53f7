/* SPDX-License-Identifier: MIT */

/* The lock of Terraform's and OpenTofu's backend "http". The lock's value is
 * the body of the request as it was sent, their LockInfo, so the holder's
 * LockInfo can be returned to a client that is refused. Without ttl_ms the hold
 * is durable, because these clients never renew.
 *
 * They repeat a request after 429 and 5xx. A repeated LOCK has the same ID and
 * is answered 200, and so is a repeated UNLOCK after which nobody holds the
 * lock. They take 409 and 423 for an answer about the holder, so every other
 * refusal has another status. */

#include <string.h>

#include "base/memory.h"
#include "http/exchange.h"
#include "net/json.h"

#define PREFIX "terraform/"
#define INFO_SIZE_MAX 4096

static bool terraform_is_locking(const struct exchange *exchange)
{
    return exchange->fields.route->kind == ROUTE_TERRAFORM_LOCK;
}

static void terraform_put_name(const struct exchange *exchange,
                               struct words *step)
{
    AUTO(buffer_done) struct buffer name = {0};
    buffer_put_text(&name, PREFIX);
    buffer_put_bytes(&name, fields_text(&exchange->fields, "name"));
    words_put(step, buffer_bytes(&name));
}

/* The ID of a LockInfo, in a document that the caller frees; NULL: the bytes
 * are not one. */
static const char *info_id(struct bytes info, json_t **ret_document)
{
    json_error_t error;
    *ret_document = json_loadb((const char *)info.data, info.size,
                               JSON_REJECT_DUPLICATES, &error);
    const char *id = json_string_value(json_object_get(*ret_document, "ID"));
    return id != NULL && id[0] != '\0' ? id : NULL;
}

static bool have_one_id(struct bytes info, struct bytes other)
{
    json_t *document, *other_document;
    const char *id = info_id(info, &document);
    const char *other_id = info_id(other, &other_document);
    bool is_same = id != NULL && other_id != NULL && strcmp(id, other_id) == 0;
    json_decref(document);
    json_decref(other_document);
    return is_same;
}

static bool is_info(struct bytes bytes)
{
    json_t *document;
    bool is_one = info_id(bytes, &document) != NULL;
    json_decref(document);
    return is_one;
}

static void put_show(struct exchange *exchange)
{
    struct words *step = exchange_step(exchange);
    words_put_text(step, "LOCK.SHOW");
    terraform_put_name(exchange, step);
}

static bool terraform_begin(struct exchange *exchange, struct problem *problem)
{
    struct bytes body = http_body(exchange->raw_exchange);
    const struct value *ttl = fields_get(&exchange->fields, "ttl_ms");
    bool is_forced = !terraform_is_locking(exchange) && body.size == 0;
    if (!is_forced && (body.size > INFO_SIZE_MAX || !is_info(body))) {
        problem_set(problem, 400, "BADARG", NULL,
                    "the body must be a LockInfo: a JSON object with a text "
                    "\"ID\", of at most %d bytes",
                    INFO_SIZE_MAX);
        return false;
    }
    put_show(exchange);
    if (terraform_is_locking(exchange)) {
        struct words *step = exchange_step(exchange);
        words_put_text(step, "SET");
        terraform_put_name(exchange, step);
        words_put(step, body);
        words_put_text(step, "NX");
        words_put_text(step, "AGAIN"); /* The body has a unique ID. */
        words_put_text(step, ttl->is_given ? "PX" : "DURABLE");
        if (ttl->is_given) {
            words_put_number(step, ttl->number);
        }
        put_show(exchange);
    }
    return true;
}

/* Answers with the LockInfo of the holder; 'holder' 0: a made-up one, since
 * these clients print its members. */
static void terraform_refuse_held(struct exchange *exchange, unsigned status,
                                  const struct resp_reply *show,
                                  uint32_t holder)
{
    struct http_reply reply = {.status = status,
                               .content_type = "application/json"};
    struct bytes value = holder != 0 ? resp_find(show, holder, "value")->bytes
                                     : BYTES_LITERAL("");
    if (is_info(value)) {
        buffer_put_bytes(&reply.body, value);
        exchange_answer(exchange, &reply);
        return;
    }
    json_t *info = json_pack("{ss, ss, ss}", "ID",
                             holder != 0 ? "not a lock of Terraform" : "none",
                             "Operation", "", "Info",
                             holder != 0 ? "see: hasp why" : "not granted now");
    if (holder != 0) {
        json_put_text(info, "Who", resp_find(show, holder, "client")->bytes);
    }
    json_put_text(info, "Path", fields_text(&exchange->fields, "name"));
    json_write(info, &reply.body);
    exchange_answer(exchange, &reply);
}

static void answer_released(struct exchange *exchange, bool was_held)
{
    exchange_answer_json(exchange, 200,
                         json_pack("{si}", "released", (int)was_held));
}

/* Adds the step that ends the hold of this LockInfo. */
static void put_release(struct exchange *exchange, struct bytes info)
{
    struct words *step = exchange_step(exchange);
    words_put_text(step, "DELIFEQ");
    terraform_put_name(exchange, step);
    words_put(step, info);
    put_show(exchange);
}

/* A force-unlock does not say which hold it means, so it needs the right to
 * end the holds of others. */
static void put_forced_release(struct exchange *exchange,
                               const struct resp_reply *show, uint32_t holder)
{
    struct words *step = exchange_step(exchange);
    words_put_text(step, "LOCK.RELEASEIF");
    terraform_put_name(exchange, step);
    words_put_text(step, "OWNER");
    words_put(step, resp_find(show, holder, "owner")->bytes);
    words_put_text(step, "TOKEN");
    words_put_number(step, (uint64_t)resp_find(show, holder, "token")->integer);
    put_show(exchange);
}

/* The lock is still held after a forced release: it is another user's. */
static void refuse_force(struct exchange *exchange)
{
    struct problem problem;
    problem_set(&problem, 403, "NOPERM", NULL,
                "UNLOCK without a body ends the hold of another and needs the "
                "right kick; or send the LockInfo of the hold");
    exchange_refuse(exchange, &problem, NULL);
}

static void take_show(struct exchange *exchange, const struct resp_reply *show)
{
    uint32_t holder = show_holder(show, 0);
    struct bytes body = http_body(exchange->raw_exchange);
    struct bytes value = holder != 0 ? resp_find(show, holder, "value")->bytes
                                     : BYTES_LITERAL("");
    bool is_ours = have_one_id(value, body);
    bool is_first = exchange->at == exchange->first_own;
    if (terraform_is_locking(exchange) && is_first) {
        /* Whoever may not read the lock was refused before anything was done.
         * A free lock, and the client's own, is left to SET. */
        if (holder != 0 && !is_ours) {
            terraform_refuse_held(exchange, 423, show, holder);
        }
    } else if (terraform_is_locking(exchange) && is_ours) {
        json_int_t token = resp_find(show, holder, "token")->integer;
        exchange_answer_json(exchange, 200, json_pack("{sI}", "token", token));
    } else if (terraform_is_locking(exchange)) {
        terraform_refuse_held(exchange, 423, show, holder);
    } else if (holder == 0) {
        answer_released(exchange, !is_first);
    } else if (!is_first && !exchange->was_done) {
        /* The hold was not ended: it is another one by now. */
        body.size == 0 ? refuse_force(exchange)
                       : terraform_refuse_held(exchange, 409, show, holder);
    } else if (!is_first) {
        answer_released(exchange, true);
    } else if (body.size == 0) {
        put_forced_release(exchange, show, holder);
    } else if (is_ours) {
        put_release(exchange, value);
    } else {
        terraform_refuse_held(exchange, 409, show, holder);
    }
}

static void terraform_reply(struct exchange *exchange,
                            const struct resp_reply *reply)
{
    const struct resp_value *value = &reply->value[0];
    if (value->type == RESP_MAP) {
        take_show(exchange, reply);
    } else {
        exchange->was_done = value->type == RESP_INTEGER && value->integer > 0;
    }
}

static void terraform_refuse(const struct problem *problem,
                             struct http_reply *reply)
{
    struct problem told = *problem;
    if (strcmp(told.code, "WRONGPASS") == 0) {
        told.status = 403;
    } else if (told.status == 404 || told.status == 409 || told.status == 410 ||
               told.status == 423 || told.status == 429) {
        told.status = 400;
    }
    problem_reply(&told, NULL, reply);
}

const struct door door_terraform = {.name = "terraform",
                                    .begin = terraform_begin,
                                    .reply = terraform_reply,
                                    .refuse = terraform_refuse};
