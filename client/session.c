/* SPDX-License-Identifier: MIT */

#include "client/session.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/sha.h"
#include "client/reply.h"

/* A fresh secret, and what is told of it instead: the hash of its digits. */
MUST_CHECK static int make_secret(char secret[CLIENT_SECRET_SIZE],
                                  char proof[2 * SHA256_SIZE + 1])
{
    uint8_t random[(CLIENT_SECRET_SIZE - 1) / 2], hash[SHA256_SIZE];
    if (getrandom(random, sizeof random, 0) != sizeof random) {
        return HASP_EIO;
    }
    hex_put(secret, bytes_of(random, sizeof random));
    int error = sha256(bytes_of_text(secret), hash);
    if (error == 0) {
        hex_put(proof, bytes_of(hash, sizeof hash));
    }
    return error;
}

int client_session_open(struct client *client,
                        const struct session_options *options,
                        uint64_t deadline_ns,
                        struct client_session *ret_session)
{
    struct query query = {0};
    struct client_session session = {0};
    const struct resp_reply *reply;
    char proof[2 * SHA256_SIZE + 1];
    int error = make_secret(session.credentials.secret, proof);
    if (error != 0) {
        return error;
    }
    query_begin(&query, "SESSION.OPEN");
    if (options->ttl_ms != 0) {
        query_text(&query, "TTL");
        query_number(&query, options->ttl_ms);
    }
    if (options->name != NULL) {
        query_text(&query, "NAME");
        query_text(&query, options->name);
    }
    if (options->linger_ms != 0) {
        query_text(&query, "LINGER");
        query_number(&query, options->linger_ms);
    }
    query_text(&query, "PROOF");
    query_text(&query, proof);
    error = client_ask(
        client, &query,
        &(struct client_options){.deadline_ns = deadline_ns, .is_read = true},
        &reply);
    query_done(&query);
    if (error != 0) {
        return error;
    }
    session.credentials.session = reply_number(reply, 0, "id");
    session.ttl_ms = reply_number(reply, 0, "ttl_ms");
    session.linger_ms = reply_number(reply, 0, "linger_ms");
    if (session.credentials.session == 0 || session.ttl_ms == 0) {
        return HASP_EPROTO;
    }
    client_adopt_session(client, &session.credentials);
    *ret_session = session;
    return 0;
}

int client_session_attach(struct client *client,
                          const struct credentials *credentials,
                          uint64_t deadline_ns,
                          struct client_session *ret_session)
{
    struct query query = {0};
    struct client_session session = {.credentials = *credentials};
    const struct resp_reply *reply;
    client_set_session(client, NULL);
    query_begin(&query, "SESSION.ATTACH");
    query_number(&query, credentials->session);
    query_text(&query, credentials->secret);
    query_text(&query, "FULL");
    int error = client_ask(
        client, &query,
        &(struct client_options){.deadline_ns = deadline_ns, .is_read = true},
        &reply);
    query_done(&query);
    if (error != 0) {
        return error;
    }
    session.ttl_ms = reply_number(reply, 0, "ttl_ms");
    session.linger_ms = reply_number(reply, 0, "linger_ms");
    client_adopt_session(client, credentials);
    *ret_session = session;
    return 0;
}

int client_session_keep(struct client *client, struct client_session *session,
                        uint64_t deadline_ns)
{
    struct query query = {0};
    const struct resp_reply *reply;
    query_begin(&query, "SESSION.KEEP");
    query_text(&query, "FULL");
    int error = client_ask(
        client, &query,
        &(struct client_options){.deadline_ns = deadline_ns, .is_read = true},
        &reply);
    query_done(&query);
    if (error != 0) {
        return error;
    }
    uint64_t ttl_ms = reply_number(reply, 0, "ttl_ms");
    if (ttl_ms == 0) {
        return HASP_EPROTO;
    }
    session->ttl_ms = ttl_ms;
    session->linger_ms = reply_number(reply, 0, "linger_ms");
    return 0;
}

int client_session_close(struct client *client, uint64_t deadline_ns,
                         uint64_t *ret_released)
{
    struct query query = {0};
    const struct resp_reply *reply;
    query_begin(&query, "SESSION.CLOSE");
    int error = client_ask(client, &query,
                           &(struct client_options){.deadline_ns = deadline_ns,
                                                    .is_repeatable = true},
                           &reply);
    query_done(&query);
    if (error != 0) {
        return error;
    }
    *ret_released = reply->value[0].type == RESP_INTEGER
                        ? (uint64_t)reply->value[0].integer
                        : 0;
    client_set_session(client, NULL);
    return 0;
}

void client_session_number(struct client_session *session, struct query *query)
{
    uint64_t number = ++session->request_number;
    query_text(query, "REQ");
    query_number(query, number);
    if (number > 1) {
        query_text(query, "ACKED");
        query_number(query, number - 1);
    }
}

int credentials_parse(const char *text, struct credentials *ret_credentials)
{
    struct credentials credentials = {0};
    uint8_t secret[(CLIENT_SECRET_SIZE - 1) / 2];
    const char *colon = strchr(text, ':');
    if (colon == NULL ||
        !bytes_to_u64(bytes_of(text, (size_t)(colon - text)),
                      &credentials.session) ||
        credentials.session == 0 ||
        !hex_get(bytes_of_text(colon + 1), secret, sizeof secret)) {
        return HASP_EINVALID;
    }
    hex_put(credentials.secret, bytes_of(secret, sizeof secret));
    *ret_credentials = credentials;
    return 0;
}
