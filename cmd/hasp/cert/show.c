/* SPDX-License-Identifier: MIT */

/* hasp cert show and check: prints a certificate, and checks a folder. */

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/hasp/cert/cert_files.h"
#include "cmd/hasp/tool.h"

#define CONNECT_S 5

static const struct view_field fields[] = {
    {"name", "NAME", FIELD_TEXT},
    {"hosts", "HOSTS", FIELD_TEXT},
    {"from", "FROM", FIELD_TEXT},
    {"until", "UNTIL", FIELD_TEXT},
    {"days_left", "DAYS LEFT", FIELD_TEXT},
    {"issuer", "ISSUER", FIELD_TEXT},
    {"fingerprint", "FINGERPRINT", FIELD_TEXT},
    {0},
};

/* --- Showing -------------------------------------------------------------- */

static json_t *day_of(const ASN1_TIME *time)
{
    struct tm tm;
    char text[32];
    if (ASN1_TIME_to_tm(time, &tm) != 1 ||
        strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &tm) == 0) {
        return json_string("");
    }
    return json_string(text);
}

static int64_t days_left(const X509 *certificate)
{
    struct tm tm;
    return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) == 1
               ? tls_days_until((int64_t)timegm(&tm))
               : 0;
}

static json_t *show_name_of(const X509 *certificate)
{
    struct tls_name name;
    if (!cert_files_name(certificate, &name)) {
        return json_string("");
    }
    switch (name.role) {
    case TLS_NODE:
        return json_sprintf("hasp://%s/node/%" PRIu64, name.cluster, name.node);
    case TLS_USER:
        return json_sprintf("hasp://%s/user/%s", name.cluster, name.user);
    default:
        return json_sprintf("hasp://%s", name.cluster);
    }
}

static json_t *show_record_of(const X509 *certificate)
{
    char hex[2 * TLS_FINGERPRINT_SIZE + 1], issuer[200] = "", left[24];
    char *hosts = cert_files_hosts(certificate);
    cert_files_fingerprint(certificate, hex);
    (void)X509_NAME_get_text_by_NID(X509_get_issuer_name(certificate),
                                    NID_commonName, issuer, sizeof issuer);
    snprintf(left, sizeof left, "%" PRId64, days_left(certificate));
    json_t *record = json_pack(
        "{so, ss, so, so, ss, ss, ss}", "name", show_name_of(certificate),
        "hosts", hosts, "from", day_of(X509_get0_notBefore(certificate)),
        "until", day_of(X509_get0_notAfter(certificate)), "days_left", left,
        "issuer", issuer, "fingerprint", hex);
    free(hosts);
    return record;
}

/* --- show ----------------------------------------------------------------- */

/* A socket to the endpoint, with time limits; or -1. */
static int show_dial(const struct endpoint *endpoint)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    struct timeval bound = {.tv_sec = CONNECT_S};
    int fd = -1;
    if (getaddrinfo(endpoint->host, endpoint->port, &hints, &list) != 0) {
        return -1;
    }
    for (const struct addrinfo *to = list; to != NULL && fd < 0;
         to = to->ai_next) {
        fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
        if (connect(fd, to->ai_addr, to->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

/* Loads the node's certificate without verifying it: it is printed, not
 * trusted. */
static int load_from(const char *text, struct cert_files *ret_paper)
{
    struct endpoint endpoint;
    char why[HASP_WHY_SIZE];
    if (endpoint_parse(text, strlen(text), &endpoint, why) != 0) {
        return tool_fail(EX_USAGE, "%s", why);
    }
    int fd = show_dial(&endpoint);
    if (fd < 0) {
        return tool_fail(EX_UNAVAILABLE, "cannot connect to %s: %s", text,
                         strerror(errno));
    }
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = context != NULL ? SSL_new(context) : NULL;
    X509 *certificate = NULL;
    if (ssl != NULL && SSL_set_fd(ssl, fd) == 1 && SSL_connect(ssl) == 1) {
        certificate = SSL_get1_peer_certificate(ssl);
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
    if (certificate == NULL) {
        return tool_fail(EX_PROTOCOL,
                         "%s does not speak TLS: set tls.client there", text);
    }
    *ret_paper = (struct cert_files){.certificate = certificate};
    return 0;
}

int run_cert_show(struct tool *tool, char **argv)
{
    struct stat status;
    struct cert_files cert_files;
    int rv = stat(argv[1], &status) != 0 && strchr(argv[1], ':') != NULL
                 ? load_from(argv[1], &cert_files)
                 : cert_files_load(argv[1], &cert_files);
    if (rv != 0) {
        return rv;
    }
    json_t *record = show_record_of(cert_files.certificate);
    cert_files_done(&cert_files);
    output_record(tool->format, fields, record);
    json_decref(record);
    return 0;
}

/* --- check ---------------------------------------------------------------- */

int run_cert_check(struct tool *tool, char **argv)
{
    char ca[PATH_MAX], certificate[PATH_MAX], key[PATH_MAX];
    char why[HASP_WHY_SIZE];
    struct tls_files files = {.ca = ca, .certificate = certificate, .key = key};
    struct tls_context *context;
    struct tls_name name;
    struct cert_files cert_files;
    struct stat status;
    snprintf(ca, sizeof ca, "%.3000s/ca.crt", argv[1]);
    snprintf(certificate, sizeof certificate, "%.3000s/node.crt", argv[1]);
    bool is_node = stat(certificate, &status) == 0;
    if (!is_node) {
        snprintf(certificate, sizeof certificate, "%.3000s/client.crt",
                 argv[1]);
    }
    snprintf(key, sizeof key, "%.3000s/%s.key", argv[1],
             is_node ? "node" : "client");
    int rv = cert_files_load(certificate, &cert_files);
    if (rv != 0) {
        return rv;
    }
    json_t *record = show_record_of(cert_files.certificate);
    bool has_name = cert_files_name(cert_files.certificate, &name);
    cert_files_done(&cert_files);
    if (tls_context_load(&files, is_node ? TLS_FOR_PEERS : TLS_AS_CLIENT,
                         has_name ? name.cluster : "?", 0, &context,
                         why) != 0) {
        json_decref(record);
        return tool_fail(EX_DATAERR, "%s", why);
    }
    tls_context_unref(context);
    output_record(tool->format, fields, record);
    json_decref(record);
    return 0;
}
