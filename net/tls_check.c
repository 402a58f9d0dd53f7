/* SPDX-License-Identifier: MIT */

/* Requirements of certificates, and messages about those that do not meet
 * them. */

#include <inttypes.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <time.h>

#include "net/tls_context.h"

/* Finds the URI of hasp in a certificate. HASP_ENOENT: none; HASP_EEXIST: more
 * than one; HASP_EINVALID: malformed. */
static int find_name(X509 *certificate, struct tls_name *ret_name)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name,
                                            NULL, NULL);
    int rv = HASP_ENOENT;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *one = sk_GENERAL_NAME_value(names, i);
        if (one->type != GEN_URI) {
            continue;
        }
        const ASN1_IA5STRING *uri = one->d.uniformResourceIdentifier;
        int error = tls_name_parse(bytes_of(ASN1_STRING_get0_data(uri),
                                            (size_t)ASN1_STRING_length(uri)),
                                   ret_name);
        if (error == HASP_ENOENT) {
            continue;
        }
        /* With two names the checker and the user of the certificate could
         * disagree on whose it is. */
        rv = rv == HASP_ENOENT ? error : HASP_EEXIST;
    }
    GENERAL_NAMES_free(names);
    return rv;
}

int tls_check_name(const struct tls_context *context, X509 *certificate,
                   const char *whose, bool is_own, struct tls_name *ret_name,
                   char why[HASP_WHY_SIZE])
{
    /* A client's peer is a node and the reverse; nodes' peers are nodes. */
    bool is_user = is_own ? context->use == TLS_AS_CLIENT
                          : context->use == TLS_FOR_CLIENTS;
    struct tls_name name;
    int error = find_name(certificate, &name);
    if (error == HASP_ENOENT) {
        snprintf(why, HASP_WHY_SIZE,
                 "%s has no identity, a URI 'hasp://CLUSTER/...'; make it "
                 "with: hasp cert",
                 whose);
    } else if (error != 0) {
        snprintf(why, HASP_WHY_SIZE, "%s has %s", whose,
                 error == HASP_EEXIST ? "more than one URI of hasp"
                                      : "a malformed URI of hasp");
    } else if (strcmp(name.cluster, context->cluster) != 0) {
        snprintf(why, HASP_WHY_SIZE, "%s is for cluster '%s', not '%s'", whose,
                 name.cluster, context->cluster);
    } else if (name.role == TLS_CA) {
        snprintf(why, HASP_WHY_SIZE, "%s is a CA's, not a %s's", whose,
                 is_user ? "user" : "node");
    } else if (name.role != (is_user ? TLS_USER : TLS_NODE)) {
        snprintf(why, HASP_WHY_SIZE, "%s is a %s's certificate, not a %s's",
                 is_own ? whose : "this", is_user ? "node" : "user",
                 is_user ? "user" : "node");
    } else {
        *ret_name = name;
        return 0;
    }
    return HASP_ECERT;
}

static void format_day(const ASN1_TIME *time, char *out, size_t size)
{
    struct tm tm;
    if (ASN1_TIME_to_tm(time, &tm) != 1 ||
        strftime(out, size, "%Y-%m-%d %H:%M UTC", &tm) == 0) {
        snprintf(out, size, "an invalid date");
    }
}

void tls_explain(const struct tls_context *context, int error, int depth,
                 X509 *certificate, const char *whose, char why[HASP_WHY_SIZE])
{
    char day[64] = "?";
    const char *what = depth > 0 ? "its CA's certificate" : whose;
    switch (error) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        snprintf(why, HASP_WHY_SIZE, "%s was made by another CA than %s", whose,
                 context->ca_path);
        return;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        format_day(X509_get0_notAfter(certificate), day, sizeof day);
        snprintf(why, HASP_WHY_SIZE, "%s expired on %s: %s", what, day,
                 depth > 0 ? "hasp cert ca" : "hasp cert renew");
        return;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        format_day(X509_get0_notBefore(certificate), day, sizeof day);
        snprintf(why, HASP_WHY_SIZE,
                 "%s is not valid before %s; do the clocks differ?", what, day);
        return;
    case X509_V_ERR_INVALID_PURPOSE:
        snprintf(why, HASP_WHY_SIZE,
                 context->use == TLS_AS_CLIENT
                     ? "%s cannot be used by a server: it is not a node's"
                     : "%s cannot be used for this purpose",
                 whose);
        return;
    default:
        snprintf(why, HASP_WHY_SIZE, "%s: %s", what,
                 X509_verify_cert_error_string(error));
        return;
    }
}
