/* SPDX-License-Identifier: MIT */

/* TLS between two ends that talk through buffers: accepted and refused peers,
 * the errors, and bytes in pieces of all sizes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/memory.h"
#include "net/tls_context.h"
#include "tests/unit/tls_world.h"

#define DAY_S (24 * 60 * 60)

struct pair {
    struct tls_world world;
    struct tls_paper node; /* Node 1 of production. */
    struct tls_context *server_context;
    struct tls_context *client_context;
    struct tls *server;
    struct tls *client;
};

static int set_up(void **state)
{
    struct pair *p = memory_new(sizeof *p);
    tls_world_init(&p->world);
    tls_world_node(&p->world, 1, &p->node);
    *state = p;
    return 0;
}

static void part(struct pair *p)
{
    tls_free(p->server);
    tls_free(p->client);
    tls_context_unref(p->server_context);
    tls_context_unref(p->client_context);
    p->server = p->client = NULL;
    p->server_context = p->client_context = NULL;
}

static int tear_down(void **state)
{
    struct pair *p = *state;
    part(p);
    tls_paper_done(&p->node);
    tls_world_done(&p->world);
    free(p);
    return 0;
}

/* Node 1 serves, for 'use'; the connecting end has 'paper', or none. */
static void meet(struct pair *p, enum tls_use use,
                 const struct tls_paper *server, const struct tls_paper *client,
                 uint64_t wanted)
{
    p->server_context = tls_world_context(&p->world, use, server);
    p->client_context = tls_world_context(
        &p->world, use == TLS_FOR_PEERS ? use : TLS_AS_CLIENT, client);
    p->server = tls_new(p->server_context, true, 0);
    p->client = tls_new(p->client_context, false, wanted);
}

static void expect_up(struct pair *p, size_t step)
{
    struct tls *failed = NULL;
    int rv = tls_world_talk(p->client, p->server, step, &failed);
    if (rv != 0) {
        print_message("%s\n", tls_why(failed));
    }
    assert_int_equal(rv, 0);
    assert_true(tls_is_up(p->client) && tls_is_up(p->server));
}

static void both_sides_know_who_is_there(void **state)
{
    struct pair *p = *state;
    struct tls_paper user;
    tls_world_user(&p->world, "app", &user);
    meet(p, TLS_FOR_CLIENTS, &p->node, &user, 0);
    expect_up(p, SIZE_MAX);
    assert_int_equal(tls_identity(p->server)->name.role, TLS_USER);
    assert_string_equal(tls_identity(p->server)->name.user, "app");
    assert_int_equal(tls_identity(p->client)->name.role, TLS_NODE);
    assert_int_equal(tls_identity(p->client)->name.node, 1);
    unsigned char digest[TLS_FINGERPRINT_SIZE];
    unsigned size;
    assert_int_equal(X509_digest(user.certificate, EVP_sha256(), digest, &size),
                     1);
    assert_memory_equal(tls_identity(p->server)->fingerprint, digest, size);
    tls_paper_done(&user);
}

static void a_client_without_a_certificate_is_nobody(void **state)
{
    struct pair *p = *state;
    meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
    expect_up(p, SIZE_MAX);
    assert_int_equal(tls_identity(p->server)->name.role, TLS_NOBODY);
    assert_int_equal(tls_identity(p->client)->name.role, TLS_NODE);
}

/* Sends 'size' bytes from one end to the other in pieces of 'step'. */
static void send_some(struct tls *from, struct tls *to, size_t size,
                      size_t step)
{
    uint8_t *sent = malloc(size), *got = malloc(size + 1);
    size_t total = 0;
    assert_non_null(sent);
    assert_non_null(got);
    for (size_t i = 0; i < size; i++) {
        sent[i] = (uint8_t)(i * 7 + i / 251);
    }
    assert_int_equal(tls_write(from, bytes_of(sent, size)), 0);
    struct buffer *out = tls_output(from);
    for (size_t at = 0; at < out->size; at += step) {
        size_t piece = out->size - at < step ? out->size - at : step;
        assert_int_equal(tls_feed(to, bytes_of(out->data + at, piece)), 0);
        int rv;
        size_t count;
        while ((rv = tls_read(to, got + total, size + 1 - total, &count)) ==
               0) {
            total += count;
        }
        assert_int_equal(rv, HASP_EMORE);
    }
    buffer_clear(out);
    assert_int_equal(total, size);
    assert_memory_equal(sent, got, size);
    free(sent);
    free(got);
}

static void bytes_may_come_one_by_one(void **state)
{
    struct pair *p = *state;
    meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
    expect_up(p, 1);
    send_some(p->client, p->server, 1, 1);
    send_some(p->client, p->server, 20000, 1);
    send_some(p->server, p->client, 100000, 4093);
    send_some(p->client, p->server, 3, 7);
}

static void an_end_is_told_apart_from_silence(void **state)
{
    struct pair *p = *state;
    uint8_t byte;
    size_t size;
    meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
    expect_up(p, SIZE_MAX);
    tls_end(p->client);
    struct buffer *out = tls_output(p->client);
    assert_true(out->size > 0);
    assert_int_equal(tls_feed(p->server, buffer_bytes(out)), 0);
    assert_int_equal(tls_read(p->server, &byte, 1, &size), HASP_ECLOSED);
    assert_int_equal(tls_read(p->server, &byte, 1, &size), HASP_ECLOSED);
}

/* A handshake that is cut anywhere leaves neither end up, and nothing is
 * lost. */
static void a_handshake_that_is_cut_leads_nowhere(void **state)
{
    struct pair *p = *state;
    meet(p, TLS_FOR_PEERS, &p->node, &p->node, 1);
    assert_int_equal(tls_handshake(p->client), HASP_EMORE);
    struct buffer hello = *tls_output(p->client);
    *tls_output(p->client) = (struct buffer){0};
    for (size_t cut = 0; cut < hello.size; cut++) {
        struct tls *server = tls_new(p->server_context, true, 0);
        assert_int_equal(tls_feed(server, bytes_of(hello.data, cut)), 0);
        assert_int_equal(tls_handshake(server), HASP_EMORE);
        assert_int_equal(tls_output(server)->size, 0);
        assert_false(tls_is_up(server));
        tls_free(server);
    }
    buffer_done(&hello);
}

/* Any changed byte is detected, by one side or the other. */
static void a_changed_byte_ends_the_connection(void **state)
{
    struct pair *p = *state;
    uint8_t byte;
    size_t size;
    meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
    expect_up(p, SIZE_MAX);
    assert_int_equal(tls_write(p->client, bytes_of_text("PING\r\n")), 0);
    struct buffer *out = tls_output(p->client);
    out->data[out->size / 2] ^= 1;
    assert_int_equal(tls_feed(p->server, buffer_bytes(out)), 0);
    assert_int_equal(tls_read(p->server, &byte, 1, &size), HASP_EPROTO);
    assert_non_null(strstr(tls_why(p->server), "TLS failed"));
    assert_true(tls_output(p->server)->size > 0); /* The alert. */
}

static void garbage_is_refused(void **state)
{
    struct pair *p = *state;
    uint8_t garbage[2048];
    meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
    for (unsigned seed = 1; seed <= 200; seed++) {
        struct tls *server = tls_new(p->server_context, true, 0);
        srand(seed);
        for (size_t i = 0; i < sizeof garbage; i++) {
            garbage[i] = (uint8_t)rand();
        }
        garbage[0] = TLS_FIRST_BYTE;
        if (seed % 2 == 0) { /* A record with garbage as its content. */
            memcpy(garbage, "\x16\x03\x01\x07\xfb\x01\x00\x07\xf7\x03\x03", 11);
        }
        assert_int_equal(tls_feed(server, bytes_of(garbage, sizeof garbage)),
                         0);
        int rv = tls_handshake(server);
        assert_true(rv == HASP_EPROTO);
        assert_true(strlen(tls_why(server)) > 10);
        tls_free(server);
    }
}

static void an_endless_handshake_is_refused(void **state)
{
    struct pair *p = *state;
    uint8_t byte = 0;
    int rv = 0;
    meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
    /* A ClientHello of 128 KiB is announced, in records of 16 KiB. */
    size_t total = 0;
    uint8_t record[5 + 16384] = {0x16, 0x03, 0x01, 0x40, 0x00,
                                 0x01, 0x01, 0xff, 0xff};
    while (rv == 0 && total < (1u << 20)) {
        rv = tls_feed(p->server, bytes_of(record, sizeof record));
        if (rv == 0) {
            int step = tls_handshake(p->server);
            rv = step == HASP_EMORE ? 0 : step;
        }
        total += sizeof record;
    }
    (void)byte;
    assert_int_equal(rv, HASP_EPROTO);
    assert_true(total <= 4 * sizeof record);
}

/* --- Refused peers -------------------------------------------------------- */

struct refusal {
    struct tls_wish wish;
    enum tls_use use;
    bool is_of_other_ca;
    bool signs_itself;
    const char *text;
};

/* The connecting side shows each; the accepting side reports the error. */
static const struct refusal refusals[] = {
    {{.file = "a", .names = "URI:hasp://test/user/app"},
     TLS_FOR_CLIENTS,
     false,
     false,
     "the client's certificate is for cluster "
     "'test', not 'production'"},
    {{.file = "b", .names = "URI:hasp://production/node/2"},
     TLS_FOR_CLIENTS,
     false,
     false,
     "this is a node's certificate, not a "
     "user's"},
    {{.file = "c", .names = "URI:hasp://production/user/app"},
     TLS_FOR_PEERS,
     false,
     false,
     "this is a user's certificate, not a node's"},
    {{.file = "app"},
     TLS_FOR_CLIENTS,
     false,
     false,
     "the client's certificate has no identity"},
    {{.file = "d",
      .names = "URI:hasp://production/user/app,URI:hasp://production/user/b"},
     TLS_FOR_CLIENTS,
     false,
     false,
     "more than one URI"},
    {{.file = "e", .names = "URI:hasp://production/user/"},
     TLS_FOR_CLIENTS,
     false,
     false,
     "a malformed URI"},
    {{.file = "f", .names = "URI:hasp://production"},
     TLS_FOR_CLIENTS,
     false,
     false,
     "is a CA's, not a user's"},
    {{.file = "g",
      .names = "URI:hasp://production/user/app",
      .from_s = -2 * DAY_S,
      .until_s = -DAY_S},
     TLS_FOR_CLIENTS,
     false,
     false,
     "the client's certificate expired on "},
    {{.file = "h",
      .names = "URI:hasp://production/user/app",
      .from_s = DAY_S / 2},
     TLS_FOR_CLIENTS,
     false,
     false,
     "the client's certificate is not "
     "valid before "},
    {{.file = "i", .names = "URI:hasp://production/node/2"},
     TLS_FOR_PEERS,
     true,
     false,
     "the peer's certificate was made by another "
     "CA than "},
    {{.file = "j", .names = "URI:hasp://production/user/app"},
     TLS_FOR_CLIENTS,
     false,
     true,
     "was made by another CA than "},
    {{.file = "k",
      .names = "URI:hasp://production/node/2",
      .usage = "serverAuth"},
     TLS_FOR_PEERS,
     false,
     false,
     "the peer's certificate cannot be used for this purpose"},
};

static void who_does_not_fit_is_refused_with_the_reason(void **state)
{
    struct pair *p = *state;
    struct tls_paper other_ca;
    tls_world_make(&p->world,
                   &(struct tls_wish){.file = "other",
                                      .names = "URI:hasp://production",
                                      .is_ca = true},
                   NULL, &other_ca);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *refusal = &refusals[i];
        struct tls_paper paper;
        struct tls *failed = NULL;
        tls_world_make(&p->world, &refusal->wish,
                       refusal->signs_itself     ? NULL
                       : refusal->is_of_other_ca ? &other_ca
                                                 : &p->world.ca,
                       &paper);
        p->server_context = tls_world_context(&p->world, refusal->use,
                                              &p->node);
        p->server = tls_new(p->server_context, true, 0);
        p->client_context = tls_world_liar(&p->world, TLS_AS_CLIENT, &paper);
        p->client = tls_new(p->client_context, false, 0);
        int rv = tls_world_talk(p->client, p->server, SIZE_MAX, &failed);
        assert_int_equal(rv, HASP_ECERT);
        assert_ptr_equal(failed, p->server);
        if (strstr(tls_why(p->server), refusal->text) == NULL) {
            fail_msg("%zu: \"%s\" is not in \"%s\"", i, refusal->text,
                     tls_why(p->server));
        }
        assert_int_equal(tls_identity(p->server)->name.role, TLS_NOBODY);
        /* The other side learns of it by an alert, after its own end. */
        assert_int_equal(
            tls_feed(p->client, buffer_bytes(tls_output(p->server))), 0);
        uint8_t byte;
        size_t size;
        assert_int_equal(tls_read(p->client, &byte, 1, &size), HASP_ECERT);
        assert_non_null(strstr(tls_why(p->client), "other side"));
        part(p);
        tls_paper_done(&paper);
    }
    tls_paper_done(&other_ca);
}

/* The accepting side shows it; the connecting side reports the error, as a
 * client and as a node that dials node 3. */
static const struct refusal served[] = {
    {{.file = "a", .names = "URI:hasp://test/node/1"},
     TLS_AS_CLIENT,
     false,
     false,
     "the node's certificate is for cluster "
     "'test', not 'production'"},
    {{.file = "b", .names = "URI:hasp://production/user/app"},
     TLS_AS_CLIENT,
     false,
     false,
     "this is a user's certificate, not a node's"},
    {{.file = "c",
      .names = "URI:hasp://production/node/1",
      .usage = "clientAuth"},
     TLS_AS_CLIENT,
     false,
     false,
     "the node's certificate cannot be used by a server: it is "
     "not a node's"},
    {{.file = "d",
      .names = "URI:hasp://production/node/1",
      .from_s = -2 * DAY_S,
      .until_s = -DAY_S},
     TLS_AS_CLIENT,
     false,
     false,
     "the node's certificate expired on "},
    {{.file = "e", .names = "URI:hasp://production/node/1"},
     TLS_AS_CLIENT,
     true,
     false,
     "the node's certificate was made by another "
     "CA than "},
    {{.file = "f", .names = "URI:hasp://production/node/2"},
     TLS_FOR_PEERS,
     false,
     false,
     "node 2 answers at the address of node 3 "
     "(certificate of node 2)"},
};

static void who_serves_is_looked_at_likewise(void **state)
{
    struct pair *p = *state;
    struct tls_paper other_ca;
    tls_world_make(&p->world,
                   &(struct tls_wish){.file = "other",
                                      .names = "URI:hasp://production",
                                      .is_ca = true},
                   NULL, &other_ca);
    for (size_t i = 0; i < sizeof served / sizeof served[0]; i++) {
        const struct refusal *refusal = &served[i];
        bool dials = refusal->use == TLS_FOR_PEERS;
        struct tls_paper paper;
        struct tls *failed = NULL;
        tls_world_make(&p->world, &refusal->wish,
                       refusal->is_of_other_ca ? &other_ca : &p->world.ca,
                       &paper);
        p->server_context = tls_world_liar(
            &p->world, dials ? TLS_FOR_PEERS : TLS_FOR_CLIENTS, &paper);
        p->server = tls_new(p->server_context, true, 0);
        p->client_context = tls_world_context(&p->world, refusal->use,
                                              dials ? &p->node : NULL);
        p->client = tls_new(p->client_context, false, dials ? 3 : 0);
        int rv = tls_world_talk(p->client, p->server, SIZE_MAX, &failed);
        assert_int_equal(rv, HASP_ECERT);
        assert_ptr_equal(failed, p->client);
        if (strstr(tls_why(p->client), refusal->text) == NULL) {
            fail_msg("%zu: \"%s\" is not in \"%s\"", i, refusal->text,
                     tls_why(p->client));
        }
        part(p);
        tls_paper_done(&paper);
    }
    tls_paper_done(&other_ca);
}

static void a_peer_needs_a_certificate(void **state)
{
    struct pair *p = *state;
    struct tls *failed = NULL;
    p->server_context = tls_world_context(&p->world, TLS_FOR_PEERS, &p->node);
    p->server = tls_new(p->server_context, true, 0);
    p->client_context = tls_world_context(&p->world, TLS_AS_CLIENT, NULL);
    p->client = tls_new(p->client_context, false, 0);
    assert_int_equal(tls_world_talk(p->client, p->server, SIZE_MAX, &failed),
                     HASP_ECERT);
    assert_ptr_equal(failed, p->server);
    assert_string_equal(tls_why(p->server), "it presented no certificate");
    assert_int_equal(tls_feed(p->client, buffer_bytes(tls_output(p->server))),
                     0);
    uint8_t byte;
    size_t size;
    assert_int_equal(tls_read(p->client, &byte, 1, &size), HASP_ECERT);
    assert_string_equal(tls_why(p->client),
                        "the other side requires a certificate");
}

static void who_answers_in_plain_is_named(void **state)
{
    struct pair *p = *state;
    static const char *const answers[] = {
        "-ERR Protocol error: expected '$'\r\n", "HTTP/1.1 400 Bad Request\r\n",
        "\x7f\x00\x00\x00\x01\x00\x00\x00"};
    for (size_t i = 0; i < 2; i++) {
        meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
        assert_int_equal(tls_handshake(p->client), HASP_EMORE);
        assert_int_equal(tls_feed(p->client, bytes_of_text(answers[i])), 0);
        assert_int_equal(tls_handshake(p->client), HASP_ECERT);
        assert_string_equal(tls_why(p->client),
                            "the node does not use TLS: set tls.client there");
        part(p);
    }
    meet(p, TLS_FOR_PEERS, &p->node, &p->node, 1);
    assert_int_equal(tls_handshake(p->client), HASP_EMORE);
    assert_int_equal(tls_feed(p->client, bytes_of(answers[2], 8)), 0);
    assert_int_equal(tls_handshake(p->client), HASP_ECERT);
    assert_string_equal(tls_why(p->client),
                        "the peer does not use TLS: set tls.peer there");
}

/* --- Versions and replays ------------------------------------------------- */

static void older_versions_are_refused(void **state)
{
    struct pair *p = *state;
    struct tls *failed = NULL;
    meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
    SSL_CTX_set_min_proto_version(p->client_context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_max_proto_version(p->client_context->ssl, TLS1_2_VERSION);
    tls_free(p->client);
    p->client = tls_new(p->client_context, false, 0);
    assert_int_equal(tls_world_talk(p->client, p->server, SIZE_MAX, &failed),
                     HASP_EPROTO);
    assert_ptr_equal(failed, p->server);
    assert_string_equal(tls_why(p->server), "it does not support TLS 1.3");
}

/* No ticket is issued, so there is no resumption and no early data. */
static void nothing_can_be_resumed(void **state)
{
    struct pair *p = *state;
    meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
    expect_up(p, SIZE_MAX);
    assert_int_equal(SSL_CTX_get_num_tickets(p->server_context->ssl), 0);
    assert_int_equal(SSL_CTX_get_max_early_data(p->server_context->ssl), 0);
    assert_int_equal(SSL_CTX_sess_number(p->server_context->ssl), 0);
}

/* The recorded bytes of one connection are invalid on another one. */
static void a_recorded_handshake_leads_nowhere(void **state)
{
    struct pair *p = *state;
    struct tls_paper user;
    struct buffer recorded = {0};
    tls_world_user(&p->world, "app", &user);
    meet(p, TLS_FOR_CLIENTS, &p->node, &user, 0);
    assert_int_equal(tls_handshake(p->client), HASP_EMORE);
    for (int flight = 0; flight < 2; flight++) {
        struct buffer *out = tls_output(p->client);
        buffer_put_bytes(&recorded, buffer_bytes(out));
        assert_int_equal(tls_feed(p->server, buffer_bytes(out)), 0);
        assert_int_equal(tls_handshake(p->server),
                         flight == 0 ? HASP_EMORE : 0);
        buffer_clear(out);
        if (flight == 0) {
            assert_int_equal(
                tls_feed(p->client, buffer_bytes(tls_output(p->server))), 0);
            assert_int_equal(tls_handshake(p->client), 0);
            assert_int_equal(tls_write(p->client, bytes_of_text("PING\r\n")),
                             0);
        }
    }
    struct tls *again = tls_new(p->server_context, true, 0);
    assert_int_equal(tls_feed(again, buffer_bytes(&recorded)), 0);
    assert_int_equal(tls_handshake(again), HASP_EPROTO);
    assert_int_equal(tls_identity(again)->name.role, TLS_NOBODY);
    tls_free(again);
    buffer_done(&recorded);
    tls_paper_done(&user);
}

static void key_updates_without_end_are_refused(void **state)
{
    struct pair *p = *state;
    uint8_t byte;
    size_t size;
    int rv = 0;
    int count = 0;
    meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
    expect_up(p, SIZE_MAX);
    SSL *ssl = tls_ssl(p->client);
    while (rv == 0 && count < 100000) {
        assert_int_equal(SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        assert_int_equal(SSL_do_handshake(ssl), 1);
        struct buffer *out = tls_output(p->client);
        rv = tls_feed(p->server, buffer_bytes(out));
        if (rv == 0) {
            assert_int_equal(tls_read(p->server, &byte, 1, &size), HASP_EMORE);
        }
        buffer_clear(out);
        count++;
    }
    assert_int_equal(rv, HASP_EPROTO);
    assert_true(count > 100);
    assert_string_equal(tls_why(p->server),
                        "it sent too many records without data");
}

/* A client of another make names AES-256 first; a client with slow AES names
 * ChaCha20 first. */
static void the_cheapest_cipher_is_taken(void **state)
{
    static const struct {
        const char *offered;
        const char *taken;
    } cases[] = {
        {"TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256",
         "TLS_AES_128_GCM_SHA256"},
        {"TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256",
         "TLS_CHACHA20_POLY1305_SHA256"},
        {"TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"},
    };
    struct pair *p = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        meet(p, TLS_FOR_CLIENTS, &p->node, NULL, 0);
        SSL *ssl = tls_ssl(p->client);
        assert_int_equal(SSL_set_ciphersuites(ssl, cases[i].offered), 1);
        expect_up(p, SIZE_MAX);
        assert_string_equal(SSL_get_cipher_name(ssl), cases[i].taken);
        part(p);
    }
}

/* --- Files ---------------------------------------------------------------- */

static int load(struct pair *p, const char *certificate, const char *key,
                const char *cluster, uint64_t node, char why[HASP_WHY_SIZE])
{
    struct tls_context *context = NULL;
    struct tls_files files = {.ca = p->world.ca.certificate_path,
                              .certificate = certificate,
                              .key = key};
    int rv = tls_context_load(&files, TLS_FOR_PEERS, cluster, node, &context,
                              why);
    tls_context_unref(context);
    return rv;
}

static void expect_bad_set(struct pair *p, const char *certificate,
                           const char *key, const char *cluster, uint64_t node,
                           const char *text)
{
    char why[HASP_WHY_SIZE] = "";
    assert_int_equal(load(p, certificate, key, cluster, node, why), HASP_ECERT);
    if (strstr(why, text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, why);
    }
}

static void a_set_of_files_is_checked(void **state)
{
    struct pair *p = *state;
    const char *certificate = p->node.certificate_path;
    const char *key = p->node.key_path;
    char why[HASP_WHY_SIZE] = "";
    struct tls_paper two, expired, user;
    tls_world_node(&p->world, 2, &two);
    tls_world_user(&p->world, "app", &user);
    tls_world_make(&p->world,
                   &(struct tls_wish){.file = "old",
                                      .names = "URI:hasp://production/node/1",
                                      .from_s = -2 * DAY_S,
                                      .until_s = -DAY_S},
                   &p->world.ca, &expired);
    assert_int_equal(load(p, certificate, key, "production", 1, why), 0);
    expect_bad_set(p, certificate, two.key_path, "production", 1,
                   "does not match the certificate");
    expect_bad_set(p, certificate, key, "test", 1,
                   "is for cluster 'production', not 'test'");
    expect_bad_set(p, certificate, key, "production", 3,
                   "is of node 1, this is node 3");
    expect_bad_set(p, expired.certificate_path, expired.key_path, "production",
                   1, "expired on ");
    expect_bad_set(p, user.certificate_path, user.key_path, "production", 0,
                   "cannot be used for this purpose");
    expect_bad_set(p, "/nowhere.crt", key, "production", 1,
                   "No such file or directory");
    expect_bad_set(p, certificate, "/nowhere.key", "production", 1,
                   "cannot open the key '/nowhere.key'");
    expect_bad_set(p, key, key, "production", 1, "it has none");
    expect_bad_set(p, certificate, certificate, "production", 1, "is mode 0");
    assert_int_equal(chmod(key, 0644), 0);
    expect_bad_set(p, certificate, key, "production", 1,
                   "is mode 0644: chmod 0600 (Kubernetes: defaultMode 0400)");
    assert_int_equal(chmod(key, 0640), 0);
    assert_int_equal(load(p, certificate, key, "production", 1, why), 0);
    tls_paper_done(&two);
    tls_paper_done(&expired);
    tls_paper_done(&user);
}

static void a_client_learns_the_cluster_from_its_ca(void **state)
{
    struct pair *p = *state;
    struct tls_context *context = NULL;
    char why[HASP_WHY_SIZE] = "";
    struct tls_files files = {.ca = p->world.ca.certificate_path};
    struct tls_paper foreign;
    assert_int_equal(
        tls_context_load(&files, TLS_AS_CLIENT, NULL, 0, &context, why), 0);
    assert_string_equal(context->cluster, "production");
    assert_int_equal(tls_context_certificate_until(context), 0);
    assert_true(tls_context_ca_until(context) > 0);
    tls_context_unref(context);
    tls_world_make(&p->world,
                   &(struct tls_wish){.file = "foreign", .is_ca = true}, NULL,
                   &foreign);
    files.ca = foreign.certificate_path;
    assert_int_equal(
        tls_context_load(&files, TLS_AS_CLIENT, NULL, 0, &context, why),
        HASP_ECERT);
    assert_non_null(strstr(why, "does not name its cluster"));
    assert_int_equal(
        tls_context_load(&files, TLS_AS_CLIENT, "production", 0, &context, why),
        0);
    tls_context_unref(context);
    tls_paper_done(&foreign);
}

static void names_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rv;
        enum tls_role role;
    } rows[] = {
        {"hasp://production", 0, TLS_CA},
        {"hasp://production/node/3", 0, TLS_NODE},
        {"hasp://production/user/app", 0, TLS_USER},
        {"hasp://a.b_c-9/user/A.b_c-9", 0, TLS_USER},
        {"https://production/user/app", HASP_ENOENT, 0},
        {"", HASP_ENOENT, 0},
        {"hasp:", HASP_EINVALID, 0},
        {"hasp://", HASP_EINVALID, 0},
        {"hasp:///node/3", HASP_EINVALID, 0},
        {"hasp://production/", HASP_EINVALID, 0},
        {"hasp://production/node/", HASP_EINVALID, 0},
        {"hasp://production/node/0", HASP_EINVALID, 0},
        {"hasp://production/node/03", HASP_EINVALID, 0},
        {"hasp://production/node/+3", HASP_EINVALID, 0},
        {"hasp://production/node/3 ", HASP_EINVALID, 0},
        {"hasp://production/node/99999999999999999999", HASP_EINVALID, 0},
        {"hasp://production/user/", HASP_EINVALID, 0},
        {"hasp://production/user/a/b", HASP_EINVALID, 0},
        {"hasp://production/user/a b", HASP_EINVALID, 0},
        {"hasp://production/role/a", HASP_EINVALID, 0},
        {"hasp://pro duction", HASP_EINVALID, 0},
        {"HASP://production/node/3", HASP_ENOENT, 0},
    };
    struct tls_name name;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int rv = tls_name_parse(bytes_of_text(rows[i].text), &name);
        if (rv != rows[i].rv || (rv == 0 && name.role != rows[i].role)) {
            fail_msg("'%s': %d, role %d", rows[i].text, rv, (int)name.role);
        }
    }
    /* A zero in the middle is not an end. */
    assert_int_equal(
        tls_name_parse(BYTES_LITERAL("hasp://production/user/app\0x"), &name),
        HASP_EINVALID);
    char text[200];
    snprintf(text, sizeof text, "hasp://production/user/%064d", 0);
    assert_int_equal(tls_name_parse(bytes_of_text(text), &name), 0);
    snprintf(text, sizeof text, "hasp://production/user/%065d", 0);
    assert_int_equal(tls_name_parse(bytes_of_text(text), &name), HASP_EINVALID);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(both_sides_know_who_is_there),
        IN_WORLD(a_client_without_a_certificate_is_nobody),
        IN_WORLD(bytes_may_come_one_by_one),
        IN_WORLD(an_end_is_told_apart_from_silence),
        IN_WORLD(a_handshake_that_is_cut_leads_nowhere),
        IN_WORLD(a_changed_byte_ends_the_connection),
        IN_WORLD(garbage_is_refused),
        IN_WORLD(an_endless_handshake_is_refused),
        IN_WORLD(who_does_not_fit_is_refused_with_the_reason),
        IN_WORLD(who_serves_is_looked_at_likewise),
        IN_WORLD(a_peer_needs_a_certificate),
        IN_WORLD(who_answers_in_plain_is_named),
        IN_WORLD(older_versions_are_refused),
        IN_WORLD(nothing_can_be_resumed),
        IN_WORLD(a_recorded_handshake_leads_nowhere),
        IN_WORLD(key_updates_without_end_are_refused),
        IN_WORLD(the_cheapest_cipher_is_taken),
        IN_WORLD(a_set_of_files_is_checked),
        IN_WORLD(a_client_learns_the_cluster_from_its_ca),
        cmocka_unit_test(names_are_read_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
