/* SPDX-License-Identifier: MIT */

/* Makes a context from a set of files, or a sentence that says why not. */

#include "net/tls_context.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"

#define CHAIN_DEPTH_MAX 3
#define DAY_S (24 * 60 * 60)
/* The cheapest first; a server uses its own order, unless the client's machine
 * has no AES instructions. */
#define CIPHERS                                     \
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384" \
    ":TLS_CHACHA20_POLY1305_SHA256"

/* The context that is being loaded. */
struct context_loading {
    struct tls_context *context;
    const struct tls_files *files;
    uint64_t node;
    char *why;
};

static int tls_context_refuse(const struct context_loading *loading,
                              const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int tls_context_refuse(const struct context_loading *loading,
                              const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(loading->why, HASP_WHY_SIZE, format, args);
    va_end(args);
    ERR_clear_error();
    return HASP_ECERT;
}

int64_t tls_seconds_of(const ASN1_TIME *time)
{
    struct tm tm;
    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

/* --- The CAs -------------------------------------------------------------- */

/* Sets the cluster's name from the CA's certificate, if it was not
 * configured. */
static void learn_cluster(struct tls_context *context, X509 *ca)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(ca, NID_subject_alt_name, NULL,
                                            NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *one = sk_GENERAL_NAME_value(names, i);
        struct tls_name name;
        if (one->type != GEN_URI || context->cluster[0] != '\0') {
            continue;
        }
        const ASN1_IA5STRING *uri = one->d.uniformResourceIdentifier;
        if (tls_name_parse(bytes_of(ASN1_STRING_get0_data(uri),
                                    (size_t)ASN1_STRING_length(uri)),
                           &name) == 0 &&
            name.role == TLS_CA) {
            memcpy(context->cluster, name.cluster, sizeof context->cluster);
        }
    }
    GENERAL_NAMES_free(names);
}

/* Opens a file or its text; NULL: errno is set. */
static BIO *open_text(const char *path, struct bytes text)
{
    return text.data != NULL ? BIO_new_mem_buf(text.data, (int)text.size)
                             : BIO_new_file(path, "re");
}

/* After reading PEM: true if the end was reached, and not inside a
 * certificate. */
static bool is_at_end(void)
{
    unsigned long code = ERR_peek_last_error();
    return ERR_GET_LIB(code) == ERR_LIB_PEM &&
           ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
}

static int load_cas(const struct context_loading *loading)
{
    struct tls_context *context = loading->context;
    const char *path = loading->files->ca;
    BIO *bio = open_text(path, loading->files->ca_text);
    if (bio == NULL) {
        return tls_context_refuse(loading, "cannot open the CA '%.300s': %s",
                                  path, strerror(errno));
    }
    X509_STORE *store = SSL_CTX_get_cert_store(context->ssl);
    X509 *ca;
    int count = 0;
    while ((ca = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        int64_t until = tls_seconds_of(X509_get0_notAfter(ca));
        if (X509_STORE_add_cert(store, ca) == 1) {
            learn_cluster(context, ca);
            if (count++ == 0 || until < context->ca_until) {
                context->ca_until = until;
            }
        }
        X509_free(ca);
    }
    BIO_free(bio);
    bool is_whole = is_at_end();
    ERR_clear_error();
    /* During a change of CA the file has two: a truncated one would silently
     * lack the second. */
    if (count > 0 && !is_whole) {
        return tls_context_refuse(
            loading, "the CA '%.300s' is truncated or damaged", path);
    }
    if (count == 0) {
        return tls_context_refuse(
            loading, "'%.300s' has no certificate of a CA (PEM)", path);
    }
    if (context->cluster[0] == '\0') {
        return tls_context_refuse(
            loading,
            "the CA '%.300s' does not name its cluster, since it was not "
            "made by hasp cert: name the cluster",
            path);
    }
    return 0;
}

/* --- Its own certificate -------------------------------------------------- */

/* Explains why a file cannot be used. */
static const char *fault_of(const char *path)
{
    return access(path, R_OK) == 0 ? "it has none" : strerror(errno);
}

int tls_check_key_mode(const char *path, unsigned mode, char why[HASP_WHY_SIZE])
{
    if ((mode & (S_IRWXO | S_IWGRP)) == 0) {
        return 0;
    }
    snprintf(why, HASP_WHY_SIZE,
             "key file '%.300s' is mode %04o: chmod 0600 (Kubernetes: "
             "defaultMode 0400)",
             path, mode & 07777);
    return HASP_ECERT;
}

static int check_mode(const struct context_loading *loading)
{
    const char *path = loading->files->key;
    struct stat status;
    if (loading->files->key_text.data != NULL) {
        return 0; /* The caller, who read it, has checked that. */
    }
    if (stat(path, &status) != 0) {
        return tls_context_refuse(loading, "cannot open the key '%.300s': %s",
                                  path, strerror(errno));
    }
    return tls_check_key_mode(path, status.st_mode, loading->why);
}

/* Uses a certificate and the intermediate ones; false: an error of OpenSSL. */
static bool use_chain(SSL_CTX *ssl, BIO *bio)
{
    X509 *one = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL);
    bool is_fine = one != NULL && SSL_CTX_use_certificate(ssl, one) == 1;
    X509_free(one);
    while (is_fine &&
           (one = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        is_fine = SSL_CTX_add0_chain_cert(ssl, one) == 1;
    }
    if (is_fine && !is_at_end()) {
        return false;
    }
    ERR_clear_error();
    return is_fine;
}

static bool use_certificate(const struct context_loading *loading)
{
    const struct tls_files *files = loading->files;
    BIO *bio = open_text(files->certificate, files->certificate_text);
    bool is_fine = bio != NULL && use_chain(loading->context->ssl, bio);
    BIO_free(bio);
    return is_fine;
}

/* Passes an empty passphrase, since OpenSSL would otherwise ask for one on the
 * terminal. */
static bool use_key(const struct context_loading *loading)
{
    const struct tls_files *files = loading->files;
    BIO *bio = open_text(files->key, files->key_text);
    EVP_PKEY *key = bio != NULL
                        ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)"")
                        : NULL;
    bool is_fine = key != NULL &&
                   SSL_CTX_use_PrivateKey(loading->context->ssl, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(bio);
    return is_fine;
}

/* Checks whether a peer would accept the certificate. */
static int check_chain(const struct context_loading *loading, X509 *own)
{
    struct tls_context *context = loading->context;
    char whose[300];
    STACK_OF(X509) *chain = NULL;
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    CHECK(check != NULL);
    SSL_CTX_get0_chain_certs(context->ssl, &chain);
    CHECK(X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context->ssl), own,
                              chain) == 1);
    /* A node also acts as a client, but its certificate is made for both
     * uses. */
    CHECK(X509_STORE_CTX_set_default(check, context->use == TLS_AS_CLIENT
                                                ? "ssl_client"
                                                : "ssl_server") == 1);
    X509_VERIFY_PARAM_set_depth(X509_STORE_CTX_get0_param(check),
                                CHAIN_DEPTH_MAX);
    int rv = 0;
    if (X509_verify_cert(check) != 1) {
        snprintf(whose, sizeof whose, "the certificate '%.250s'",
                 loading->files->certificate);
        tls_explain(context, X509_STORE_CTX_get_error(check),
                    X509_STORE_CTX_get_error_depth(check),
                    X509_STORE_CTX_get_current_cert(check), whose,
                    loading->why);
        ERR_clear_error();
        rv = HASP_ECERT;
    }
    X509_STORE_CTX_free(check);
    return rv;
}

static int check_own(const struct context_loading *loading)
{
    struct tls_context *context = loading->context;
    X509 *own = SSL_CTX_get0_certificate(context->ssl);
    char whose[300];
    struct tls_name name;
    CHECK(own != NULL);
    context->certificate_until = tls_seconds_of(X509_get0_notAfter(own));
    snprintf(whose, sizeof whose, "the certificate '%.250s'",
             loading->files->certificate);
    /* A certificate that others would refuse is refused at the start, not at
     * the first connection. */
    int rv = check_chain(loading, own);
    rv = rv ?: tls_check_name(context, own, whose, true, &name, loading->why);
    if (rv == 0 && name.role == TLS_USER) {
        memcpy(context->user, name.user, sizeof context->user);
    }
    if (rv == 0 && loading->node != 0 && name.node != loading->node) {
        return tls_context_refuse(
            loading, "%s is of node %" PRIu64 ", this is node %" PRIu64, whose,
            name.node, loading->node);
    }
    return rv;
}

static int load_own(const struct context_loading *loading)
{
    const struct tls_files *files = loading->files;
    if (files->certificate == NULL || files->key == NULL) {
        return loading->context->use == TLS_AS_CLIENT
                   ? 0
                   : tls_context_refuse(
                         loading, "a node needs a certificate and its key");
    }
    int rv = check_mode(loading);
    if (rv != 0) {
        return rv;
    }
    if (!use_certificate(loading)) {
        return tls_context_refuse(
            loading, "cannot read the certificate '%.300s' (PEM): %s",
            files->certificate, fault_of(files->certificate));
    }
    if (!use_key(loading)) {
        unsigned long code = ERR_peek_last_error();
        bool differs = ERR_GET_LIB(code) == ERR_LIB_X509 &&
                       ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH;
        if (files->key_text.data == NULL && access(files->key, R_OK) != 0) {
            return tls_context_refuse(
                loading,
                "cannot open the key '%.300s': %s: chown it to the "
                "user that runs this program (uid %u)",
                files->key, strerror(errno), (unsigned)geteuid());
        }
        return tls_context_refuse(
            loading,
            differs ? "the key '%.200s' does not match the "
                      "certificate '%.200s'"
                    : "cannot read the key '%.200s' (PEM without a "
                      "passphrase) of '%.200s'",
            files->key, files->certificate);
    }
    return check_own(loading);
}

/* --- The whole ------------------------------------------------------------ */

static void tls_context_demand(struct tls_context *context)
{
    SSL_CTX *ssl = context->ssl;
    CHECK(SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    CHECK(SSL_CTX_set_num_tickets(ssl, 0) == 1);
    CHECK(SSL_CTX_set_ciphersuites(ssl, CIPHERS) == 1);
    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE |
                                       SSL_OP_PRIORITIZE_CHACHA);
    (void)SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* Releasing the buffers after each record costs a seventh of its time, but
     * a node has many idle clients, and not enough memory for all their
     * buffers. */
    if (context->use == TLS_FOR_CLIENTS || context->use == TLS_FOR_ANYBODY) {
        (void)SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    }
    SSL_CTX_set_verify_depth(ssl, CHAIN_DEPTH_MAX);
    SSL_CTX_set_verify(ssl,
                       context->use == TLS_FOR_PEERS
                           ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                       : context->use == TLS_FOR_ANYBODY ? SSL_VERIFY_NONE
                                                         : SSL_VERIFY_PEER,
                       tls_verified);
}

int tls_context_load(const struct tls_files *files, enum tls_use use,
                     const char *cluster, uint64_t node,
                     struct tls_context **ret_context, char why[HASP_WHY_SIZE])
{
    struct tls_context *context = memory_new(sizeof *context);
    struct context_loading loading = {context, files, node, why};
    CHECK(use == TLS_AS_CLIENT || cluster != NULL);
    context->use = use;
    atomic_init(&context->count, 1);
    snprintf(context->ca_path, sizeof context->ca_path, "%s", files->ca);
    snprintf(context->cluster, sizeof context->cluster, "%s",
             cluster != NULL ? cluster : "");
    /* An older error of this thread would be taken for the reason. */
    ERR_clear_error();
    context->ssl = SSL_CTX_new(TLS_method());
    if (context->ssl == NULL) {
        free(context);
        return tls_context_refuse(
            &loading, "cannot initialize OpenSSL: %s",
            ERR_reason_error_string(ERR_peek_last_error()));
    }
    tls_context_demand(context);
    int rv = load_cas(&loading);
    rv = rv ?: load_own(&loading);
    if (rv != 0) {
        tls_context_unref(context);
        return rv;
    }
    *ret_context = context;
    return 0;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
    atomic_fetch_add(&context->count, 1);
    return context;
}

void tls_context_unref(struct tls_context *context)
{
    if (context != NULL && atomic_fetch_sub(&context->count, 1) == 1) {
        SSL_CTX_free(context->ssl);
        free(context);
    }
}

const char *tls_context_user(const struct tls_context *context)
{
    return context != NULL ? context->user : "";
}

int64_t tls_context_certificate_until(const struct tls_context *context)
{
    return context->certificate_until;
}

int64_t tls_context_ca_until(const struct tls_context *context)
{
    return context->ca_until;
}

int64_t tls_days_until(int64_t when_s)
{
    int64_t left_s = when_s - (int64_t)time(NULL);
    return left_s >= 0 ? left_s / DAY_S : -1 - (-left_s - 1) / DAY_S;
}
