/* SPDX-License-Identifier: MIT */

/* A connection: OpenSSL on buffers, without a socket. */

#include <inttypes.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "net/tls_context.h"

struct tls {
    SSL *ssl;
    struct tls_context *context;
    struct bytes in; /* Borrowed; not yet read by OpenSSL. */
    struct buffer out;
    uint64_t node; /* The only node whose certificate is accepted; 0: any. */
    size_t silent_size; /* Bytes received since the last data. */
    bool is_server;
    bool is_up;
    bool has_ended; /* The peer has sent close_notify. */
    struct tls_identity identity;
    char why[HASP_WHY_SIZE];
};

/* --- The bytes below ------------------------------------------------------ */

/* OpenSSL's own memory BIO would copy everything once more, and keep its memory
 * while the connection is idle. */
static BIO_METHOD *bytes_method;
static pthread_once_t bytes_once = PTHREAD_ONCE_INIT;

static int bytes_read(BIO *bio, char *to, size_t size, size_t *ret_size)
{
    struct tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (tls->in.size == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    size = size < tls->in.size ? size : tls->in.size;
    memcpy(to, tls->in.data, size);
    tls->in = bytes_of(tls->in.data + size, tls->in.size - size);
    *ret_size = size;
    return 1;
}

static int bytes_write(BIO *bio, const char *from, size_t size,
                       size_t *ret_size)
{
    struct tls *tls = BIO_get_data(bio);
    buffer_put(&tls->out, from, size);
    *ret_size = size;
    return 1;
}

static long bytes_control(BIO *bio, int what, long number, void *data)
{
    (void)bio;
    (void)number;
    (void)data;
    return what == BIO_CTRL_FLUSH ? 1 : 0;
}

static void make_method(void)
{
    bytes_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK,
                                "hasp bytes");
    CHECK(bytes_method != NULL);
    CHECK(BIO_meth_set_read_ex(bytes_method, bytes_read) == 1 &&
          BIO_meth_set_write_ex(bytes_method, bytes_write) == 1 &&
          BIO_meth_set_ctrl(bytes_method, bytes_control) == 1);
}

struct tls *tls_new(struct tls_context *context, bool is_server, uint64_t node)
{
    struct tls *tls = memory_new(sizeof *tls);
    CHECK(pthread_once(&bytes_once, make_method) == 0);
    /* A reload replaces the context; this connection keeps the one that it
     * began with. */
    tls->context = tls_context_ref(context);
    tls->node = node;
    tls->is_server = is_server;
    BIO *bio = BIO_new(bytes_method);
    tls->ssl = SSL_new(context->ssl);
    CHECK(bio != NULL && tls->ssl != NULL);
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_app_data(tls->ssl, tls);
    if (is_server) {
        SSL_set_accept_state(tls->ssl);
    } else {
        SSL_set_connect_state(tls->ssl);
    }
    return tls;
}

void tls_free(struct tls *tls)
{
    if (tls != NULL) {
        SSL_free(tls->ssl);
        tls_context_unref(tls->context);
        buffer_done(&tls->out);
        free(tls);
    }
}

SSL *tls_ssl(const struct tls *tls)
{
    return tls->ssl;
}

/* --- The peer ------------------------------------------------------------- */

static const char *tls_whose(const struct tls *tls)
{
    switch (tls->context->use) {
    case TLS_FOR_PEERS:
        return "the peer's certificate";
    case TLS_FOR_CLIENTS:
    case TLS_FOR_ANYBODY:
        return "the client's certificate";
    case TLS_AS_CLIENT:
        return "the node's certificate";
    }
    UNREACHABLE();
}

static int check_identity(struct tls *tls, X509 *certificate)
{
    struct tls_name *name = &tls->identity.name;
    unsigned size = 0;
    int rv = tls_check_name(tls->context, certificate, tls_whose(tls), false,
                            name, tls->why);
    if (rv == 0 && tls->node != 0 && name->node != tls->node) {
        snprintf(tls->why, sizeof tls->why,
                 "node %" PRIu64 " answers at the address of node %" PRIu64
                 " (certificate of node %" PRIu64 ")",
                 name->node, tls->node, name->node);
        rv = HASP_ECERT;
    }
    if (rv != 0) {
        /* A name that was refused must not be taken for the peer's identity
         * later. */
        *name = (struct tls_name){.role = TLS_NOBODY};
        return rv;
    }
    CHECK(X509_digest(certificate, EVP_sha256(), tls->identity.fingerprint,
                      &size) == 1 &&
          size == TLS_FINGERPRINT_SIZE);
    tls->identity.until = tls_seconds_of(X509_get0_notAfter(certificate));
    return 0;
}

int tls_verified(int is_fine, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store,
                                          SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls *tls = SSL_get_app_data(ssl);
    X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    int depth = X509_STORE_CTX_get_error_depth(store);
    if (is_fine != 1) {
        tls_explain(tls->context, X509_STORE_CTX_get_error(store), depth,
                    certificate, tls_whose(tls), tls->why);
        return 0;
    }
    if (depth == 0 && check_identity(tls, certificate) != 0) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
        return 0;
    }
    return 1;
}

/* --- Errors --------------------------------------------------------------- */

struct sentence {
    int reason; /* OpenSSL's reason. */
    int error;
    const char *text;
};

/* The end of texts about alerts, since the peer that sent one knows more. */
#define ITS_LOG "; its log says why"

static const struct sentence *find_sentence(int reason)
{
    static const struct sentence sentences[] = {
        {SSL_R_TLSV1_ALERT_UNKNOWN_CA, HASP_ECERT,
         "the other side does not know the CA of this side's certificate"},
        {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, HASP_ECERT,
         "the other side reports that this side's certificate has expired: "
         "hasp cert renew (or the clocks differ)"},
        {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, HASP_ECERT,
         "the other side refuses this side's certificate" ITS_LOG},
        {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, HASP_ECERT,
         "the other side refuses this side's certificate" ITS_LOG},
        {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, HASP_ECERT,
         "the other side refuses this side's certificate" ITS_LOG},
        {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, HASP_ECERT,
         "the other side refuses this side's certificate" ITS_LOG},
        {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, HASP_ECERT,
         "the other side requires a certificate"},
        {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, HASP_ECERT,
         "it presented no certificate"},
        {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, HASP_EPROTO,
         "the other side does not support TLS 1.3"},
        {SSL_R_UNSUPPORTED_PROTOCOL, HASP_EPROTO,
         "it does not support TLS 1.3"},
        {SSL_R_NO_SHARED_CIPHER, HASP_EPROTO, "it does not support TLS 1.3"},
        {SSL_R_BAD_SIGNATURE, HASP_ECERT,
         "its key does not match its certificate"},
        {0, HASP_EPROTO, NULL},
    };
    const struct sentence *found = sentences;
    while (found->text != NULL && found->reason != reason) {
        found++;
    }
    return found;
}

/* True if a server answered without TLS. OpenSSL reports one of these reasons,
 * depending on the bytes of the answer. */
static bool is_plain_answer(const struct tls *tls, int reason)
{
    return !tls->is_server && !tls->is_up &&
           (reason == SSL_R_WRONG_VERSION_NUMBER ||
            reason == SSL_R_HTTP_REQUEST ||
            reason == SSL_R_PACKET_LENGTH_TOO_LONG);
}

static int tls_explain_failure(struct tls *tls)
{
    unsigned long code = ERR_peek_last_error();
    int reason = ERR_GET_REASON(code);
    const struct sentence *found = find_sentence(reason);
    ERR_clear_error();
    if (tls->why[0] != '\0') {
        return HASP_ECERT; /* tls_verified() has already set the cause. */
    }
    if (is_plain_answer(tls, reason)) {
        snprintf(tls->why, sizeof tls->why, "%s",
                 tls->context->use == TLS_AS_CLIENT
                     ? "the node does not use TLS: set tls.client there"
                     : "the peer does not use TLS: set tls.peer there");
        return HASP_ECERT;
    }
    if (found->text != NULL) {
        snprintf(tls->why, sizeof tls->why, "%s", found->text);
    } else {
        const char *text = ERR_reason_error_string(code);
        snprintf(tls->why, sizeof tls->why, "TLS failed: %s",
                 text != NULL ? text : "unknown reason");
    }
    return found->error;
}

/* Translates the result of a failed call of OpenSSL. */
static int tls_outcome(struct tls *tls, int rv)
{
    switch (SSL_get_error(tls->ssl, rv)) {
    case SSL_ERROR_WANT_READ:
        CHECK(tls->in.size == 0);
        return HASP_EMORE;
    case SSL_ERROR_ZERO_RETURN:
        tls->has_ended = true;
        return HASP_ECLOSED;
    default:
        return tls_explain_failure(tls);
    }
}

const char *tls_why(const struct tls *tls)
{
    return tls->why;
}

/* --- Use ------------------------------------------------------------------ */

/* OpenSSL's error queue belongs to the thread: an old entry of any connection
 * would turn "more is needed" into a failure. So each call below empties it.
 * Checking first is cheaper than clearing an empty queue for each record. */
static void forget_errors(void)
{
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
}

int tls_feed(struct tls *tls, struct bytes cipher)
{
    CHECK(tls->in.size == 0);
    tls->in = cipher;
    tls->silent_size += cipher.size;
    if (tls->silent_size >
        (tls->is_up ? TLS_SILENT_SIZE_MAX : TLS_HANDSHAKE_SIZE_MAX) +
            cipher.size) {
        snprintf(tls->why, sizeof tls->why,
                 "it sent too many records without data");
        return HASP_EPROTO;
    }
    return 0;
}

struct buffer *tls_output(struct tls *tls)
{
    return &tls->out;
}

/* Stores the fingerprint of the CA, the last in the verified chain. */
static void learn_ca(struct tls *tls)
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(tls->ssl);
    unsigned size = 0;
    CHECK(chain != NULL && sk_X509_num(chain) > 0);
    CHECK(X509_digest(sk_X509_value(chain, sk_X509_num(chain) - 1),
                      EVP_sha256(), tls->identity.ca, &size) == 1 &&
          size == TLS_FINGERPRINT_SIZE);
}

int tls_handshake(struct tls *tls)
{
    if (tls->is_up) {
        return 0;
    }
    forget_errors();
    int rv = SSL_do_handshake(tls->ssl);
    if (rv != 1) {
        return tls_outcome(tls, rv);
    }
    /* Only tls_verified() sets an identity, so a certificate that it has not
     * checked must not be accepted. */
    bool has_shown = SSL_get0_peer_certificate(tls->ssl) != NULL;
    CHECK(SSL_get_verify_result(tls->ssl) == X509_V_OK);
    CHECK(has_shown == (tls->identity.name.role != TLS_NOBODY));
    CHECK(has_shown || tls->context->use == TLS_FOR_CLIENTS ||
          tls->context->use == TLS_FOR_ANYBODY);
    if (has_shown) {
        learn_ca(tls);
    }
    tls->is_up = true;
    tls->silent_size = 0;
    return 0;
}

bool tls_is_up(const struct tls *tls)
{
    return tls->is_up;
}

const struct tls_identity *tls_identity(const struct tls *tls)
{
    return &tls->identity;
}

int tls_read(struct tls *tls, uint8_t *to, size_t size, size_t *ret_size)
{
    CHECK(tls->is_up && size > 0);
    /* OpenSSL reads whole records only, so there is nothing to read; the call
     * would cost as much as a small record. */
    if (tls->in.size == 0 && SSL_pending(tls->ssl) == 0 && !tls->has_ended) {
        return HASP_EMORE;
    }
    forget_errors();
    int rv = SSL_read_ex(tls->ssl, to, size, ret_size);
    if (rv != 1) {
        return tls_outcome(tls, rv);
    }
    tls->silent_size = 0;
    return 0;
}

int tls_write(struct tls *tls, struct bytes plain)
{
    CHECK(tls->is_up);
    while (plain.size > 0) {
        size_t written = 0;
        forget_errors();
        int rv = SSL_write_ex(tls->ssl, plain.data, plain.size, &written);
        if (rv != 1) {
            return tls_outcome(tls, rv);
        }
        plain = bytes_of(plain.data + written, plain.size - written);
    }
    return 0;
}

void tls_end(struct tls *tls)
{
    forget_errors();
    if (tls->is_up) {
        (void)SSL_shutdown(tls->ssl);
        forget_errors();
    }
}
