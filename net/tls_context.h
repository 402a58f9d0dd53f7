/* SPDX-License-Identifier: MIT */

/* Contents of a context; only for net/tls*.c. */

#ifndef HASP_NET_TLS_CONTEXT_H
#define HASP_NET_TLS_CONTEXT_H

#include <openssl/ssl.h>
#include <stdatomic.h>

#include "net/tls.h"

struct tls_context {
    SSL_CTX *ssl;
    atomic_int count;
    enum tls_use use;
    char cluster[TLS_CLUSTER_SIZE];
    char user[TLS_USER_SIZE]; /* In its own certificate. */
    char ca_path[256];        /* For messages. */
    int64_t certificate_until;
    int64_t ca_until;
};

/* Checks whether the context accepts 'certificate' for the peer (or, if
 * 'is_own', as its own), and returns its name. 'whose' is the subject of the
 * sentence: "the node's certificate". HASP_ECERT. */
MUST_CHECK int tls_check_name(const struct tls_context *context,
                              X509 *certificate, const char *whose, bool is_own,
                              struct tls_name *ret_name,
                              char why[HASP_WHY_SIZE]);
/* Explains an error of X509_verify_cert() (X509_V_ERR_...) at 'certificate',
 * 'depth' steps above the end of the chain. */
void tls_explain(const struct tls_context *context, int error, int depth,
                 X509 *certificate, const char *whose, char why[HASP_WHY_SIZE]);
int64_t tls_seconds_of(const ASN1_TIME *time);
/* In tls.c: OpenSSL's callback to verify the peer. */
int tls_verified(int is_fine, X509_STORE_CTX *store);
/* In tls.c, for tests. */
SSL *tls_ssl(const struct tls *tls);

#endif /* HASP_NET_TLS_CONTEXT_H */
