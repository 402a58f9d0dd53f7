/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/cert/cert_files.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "cmd/hasp/tool.h"

#define SERIAL_BITS 127

void cert_files_done(struct cert_files *cert_files)
{
    X509_free(cert_files->certificate);
    EVP_PKEY_free(cert_files->key);
    *cert_files = (struct cert_files){0};
}

/* --- Reading -------------------------------------------------------------- */

int cert_files_load(const char *path, struct cert_files *ret_paper)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return tool_fail(EX_NOINPUT, "cannot read '%s': %s", path,
                         strerror(errno));
    }
    X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    if (certificate == NULL) {
        return tool_fail(EX_DATAERR, "'%s' has no certificate in PEM format",
                         path);
    }
    *ret_paper = (struct cert_files){.certificate = certificate};
    return 0;
}

int cert_files_load_folder(const char *folder, struct cert_files *ret_paper)
{
    struct stat status;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3000s/node.crt", folder);
    if (stat(path, &status) != 0) {
        snprintf(path, sizeof path, "%.3000s/client.crt", folder);
    }
    return cert_files_load(path, ret_paper);
}

void cert_files_fingerprint(const X509 *certificate,
                            char ret_hex[2 * TLS_FINGERPRINT_SIZE + 1])
{
    uint8_t digest[TLS_FINGERPRINT_SIZE];
    unsigned size = 0;
    CHECK(X509_digest(certificate, EVP_sha256(), digest, &size) == 1 &&
          size == sizeof digest);
    hex_put(ret_hex, bytes_of(digest, sizeof digest));
}

bool cert_files_name(const X509 *certificate, struct tls_name *ret_name)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name,
                                            NULL, NULL);
    int count = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *one = sk_GENERAL_NAME_value(names, i);
        if (one->type == GEN_URI) {
            const ASN1_IA5STRING *uri = one->d.uniformResourceIdentifier;
            count += tls_name_parse(bytes_of(ASN1_STRING_get0_data(uri),
                                             (size_t)ASN1_STRING_length(uri)),
                                    ret_name) == 0;
        }
    }
    GENERAL_NAMES_free(names);
    return count == 1;
}

static void put_host(struct buffer *out, const GENERAL_NAME *one)
{
    char text[INET6_ADDRSTRLEN];
    const ASN1_OCTET_STRING *ip = one->d.iPAddress;
    if (one->type == GEN_DNS) {
        buffer_printf(out, "%s%.*s", out->size > 0 ? "," : "",
                      ASN1_STRING_length(one->d.dNSName),
                      (const char *)ASN1_STRING_get0_data(one->d.dNSName));
    } else if (one->type == GEN_IPADD &&
               inet_ntop(ASN1_STRING_length(ip) == 4 ? AF_INET : AF_INET6,
                         ASN1_STRING_get0_data(ip), text,
                         sizeof text) != NULL) {
        buffer_printf(out, "%s%s", out->size > 0 ? "," : "", text);
    }
}

char *cert_files_hosts(const X509 *certificate)
{
    struct buffer out = {0};
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name,
                                            NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        put_host(&out, sk_GENERAL_NAME_value(names, i));
    }
    GENERAL_NAMES_free(names);
    buffer_put_u8(&out, '\0');
    return (char *)out.data;
}

static int load_key(const char *path, EVP_PKEY **ret_key)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return tool_fail(EX_NOINPUT,
                         "cannot read the CA's key '%s': %s; make a CA with: "
                         "hasp cert ca --cluster NAME",
                         path, strerror(errno));
    }
    /* Without a passphrase OpenSSL would ask for one on the terminal. */
    *ret_key = PEM_read_PrivateKey(file, NULL, NULL, (void *)"");
    fclose(file);
    return *ret_key != NULL
               ? 0
               : tool_fail(EX_DATAERR,
                           "'%s' has no key in PEM format without a passphrase",
                           path);
}

int cert_files_load_ca(const char *folder, struct cert_files *ret_ca,
                       struct tls_name *ret_name)
{
    char path[PATH_MAX];
    struct cert_files ca = {0};
    snprintf(path, sizeof path, "%.3000s/ca.key", folder);
    int rv = load_key(path, &ca.key);
    if (rv != 0) {
        return rv;
    }
    snprintf(path, sizeof path, "%.3000s/ca.crt", folder);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        cert_files_done(&ca);
        return tool_fail(EX_NOINPUT, "cannot read '%s': %s", path,
                         strerror(errno));
    }
    /* During a change of the CA both are in the file: choose the one of this
     * key. */
    X509 *one;
    while ((one = PEM_read_X509(file, NULL, NULL, NULL)) != NULL) {
        if (ca.certificate == NULL &&
            X509_check_private_key(one, ca.key) == 1) {
            ca.certificate = one;
        } else {
            X509_free(one);
        }
    }
    fclose(file);
    if (ca.certificate == NULL) {
        rv = tool_fail(EX_DATAERR, "no certificate in '%s' matches ca.key",
                       path);
    } else if (!cert_files_name(ca.certificate, ret_name) ||
               ret_name->role != TLS_CA) {
        rv = tool_fail(EX_DATAERR,
                       "'%s' does not name its cluster; make a CA with: hasp "
                       "cert ca --cluster NAME",
                       path);
    }
    if (rv != 0) {
        cert_files_done(&ca);
        return rv;
    }
    *ret_ca = ca;
    return 0;
}

/* --- Making --------------------------------------------------------------- */

static void cert_files_extend(X509 *certificate, X509 *issuer, int nid,
                              const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    CHECK(extension != NULL);
    CHECK(X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static bool cert_files_is_address(const char *host)
{
    uint8_t bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 ||
           inet_pton(AF_INET6, host, bytes) == 1;
}

/* True for letters, digits, '.', '-' and '_'; a comma would begin another name.
 */
static bool is_host_name(const char *host)
{
    return host[0] != '\0' && strlen(host) < 254 &&
           host[strspn(host, "abcdefghijklmnopqrstuvwxyz"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")] ==
               '\0';
}

/* Puts such as "URI:hasp://production/node/1,IP:10.0.0.1,DNS:lock1.lan". */
static int put_names(struct buffer *out, const struct cert_files_wish *wish)
{
    const struct tls_name *name = &wish->name;
    int rv = 0;
    buffer_printf(out, "URI:hasp://%s", name->cluster);
    if (name->role == TLS_NODE) {
        buffer_printf(out, "/node/%" PRIu64, name->node);
    } else if (name->role == TLS_USER) {
        buffer_printf(out, "/user/%s", name->user);
    }
    char *copy = memory_text(wish->hosts != NULL ? wish->hosts : "");
    char *rest = copy;
    for (char *host; rv == 0 && (host = strsep(&rest, ",")) != NULL;) {
        if (cert_files_is_address(host)) {
            buffer_printf(out, ",IP:%s", host);
        } else if (is_host_name(host)) {
            buffer_printf(out, ",DNS:%s", host);
        } else if (wish->hosts != NULL) {
            rv = HASP_EINVALID;
        }
    }
    free(copy);
    buffer_put_u8(out, '\0');
    return rv;
}

static void set_subject(X509 *certificate, const struct tls_name *name)
{
    char text[160];
    if (name->role == TLS_CA) {
        snprintf(text, sizeof text, "hasp CA of %.40s", name->cluster);
    } else if (name->role == TLS_NODE) {
        snprintf(text, sizeof text, "node %" PRIu64 " of %.36s", name->node,
                 name->cluster);
    } else {
        snprintf(text, sizeof text, "%s", name->user);
    }
    X509_NAME *subject = X509_get_subject_name(certificate);
    CHECK(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                     (const unsigned char *)text, -1, -1,
                                     0) == 1);
}

static void set_times(X509 *certificate, uint64_t days, const X509 *ca)
{
    CHECK(X509_gmtime_adj(X509_getm_notBefore(certificate),
                          -CERT_FILES_BACKDATED_S) != NULL);
    CHECK(X509_time_adj_ex(X509_getm_notAfter(certificate), (int)days, 0,
                           NULL) != NULL);
    if (ca != NULL &&
        (days == 0 || ASN1_TIME_compare(X509_get0_notAfter(certificate),
                                        X509_get0_notAfter(ca)) > 0)) {
        CHECK(X509_set1_notAfter(certificate, X509_get0_notAfter(ca)) == 1);
    }
}

static void set_serial(X509 *certificate)
{
    BIGNUM *number = BN_new();
    CHECK(number != NULL && BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ANY,
                                    BN_RAND_BOTTOM_ANY) == 1);
    CHECK(BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) !=
          NULL);
    BN_free(number);
}

static void set_purpose(X509 *certificate, X509 *issuer, enum tls_role role)
{
    bool is_ca = role == TLS_CA;
    cert_files_extend(certificate, issuer, NID_basic_constraints,
                      is_ca ? "critical,CA:TRUE,pathlen:0"
                            : "critical,CA:FALSE");
    cert_files_extend(certificate, issuer, NID_key_usage,
                      is_ca ? "critical,keyCertSign,cRLSign"
                            : "critical,digitalSignature");
    if (!is_ca) {
        cert_files_extend(certificate, issuer, NID_ext_key_usage,
                          role == TLS_NODE ? "serverAuth,clientAuth"
                                           : "clientAuth");
    }
    cert_files_extend(certificate, issuer, NID_subject_key_identifier, "hash");
    if (!is_ca) {
        cert_files_extend(certificate, issuer, NID_authority_key_identifier,
                          "keyid:always");
    }
}

int cert_files_make(const struct cert_files_wish *wish,
                    const struct cert_files *ca, struct cert_files *ret_paper)
{
    AUTO(buffer_done) struct buffer names = {0};
    if (put_names(&names, wish) != 0) {
        return HASP_EINVALID;
    }
    struct cert_files cert_files = {.certificate = X509_new(),
                                    .key = EVP_EC_gen("P-256")};
    X509 *certificate = cert_files.certificate;
    CHECK(certificate != NULL && cert_files.key != NULL);
    X509 *issuer = ca != NULL ? ca->certificate : certificate;
    CHECK(X509_set_version(certificate, X509_VERSION_3) == 1);
    set_serial(certificate);
    set_times(certificate, wish->days, ca != NULL ? ca->certificate : NULL);
    set_subject(certificate, &wish->name);
    CHECK(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) ==
          1);
    CHECK(X509_set_pubkey(certificate, cert_files.key) == 1);
    set_purpose(certificate, issuer, wish->name.role);
    cert_files_extend(certificate, issuer, NID_subject_alt_name,
                      (char *)names.data);
    CHECK(X509_sign(certificate, ca != NULL ? ca->key : cert_files.key,
                    EVP_sha256()) > 0);
    *ret_paper = cert_files;
    return 0;
}

/* --- Writing -------------------------------------------------------------- */

/* A file that is renamed to its name once it is complete. */
struct cert_output {
    const char *path;
    char part[PATH_MAX];
    FILE *file;
};

static int output_begin(struct cert_output *output, const char *path,
                        mode_t mode)
{
    output->path = path;
    snprintf(output->part, sizeof output->part, "%.4000s.new", path);
    /* An interrupted run may have left one. */
    (void)unlink(output->part);
    int fd = open(output->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
        return tool_fail(EX_CANTCREAT, "cannot create '%s': %s", output->part,
                         strerror(errno));
    }
    output->file = fdopen(fd, "w");
    CHECK(output->file != NULL);
    return 0;
}

static int output_end(struct cert_output *output, bool is_good,
                      bool may_replace)
{
    is_good = fflush(output->file) == 0 && fsync(fileno(output->file)) == 0 &&
              is_good;
    is_good = fclose(output->file) == 0 && is_good;
    if (is_good && may_replace) {
        is_good = rename(output->part, output->path) == 0;
    } else if (is_good) {
        is_good = link(output->part, output->path) == 0;
    }
    int code = errno;
    (void)unlink(output->part);
    if (is_good) {
        return 0;
    }
    return code == EEXIST
               ? tool_fail(EX_CANTCREAT,
                           "'%s' exists already; to replace it: hasp cert "
                           "renew; a new CA needs another folder, --dir "
                           "(docs/security.md, A new CA)",
                           output->path)
               : tool_fail(EX_IOERR, "cannot write '%s': %s", output->path,
                           strerror(code));
}

int cert_files_write(const struct cert_files *cert_files,
                     const char *certificate_path, const char *key_path,
                     bool may_replace)
{
    struct cert_output output;
    int rv = output_begin(&output, key_path, 0600);
    if (rv == 0) {
        rv = output_end(&output,
                        PEM_write_PrivateKey(output.file, cert_files->key, NULL,
                                             NULL, 0, NULL, NULL) == 1,
                        may_replace);
    }
    rv = rv ?: output_begin(&output, certificate_path, 0644);
    if (rv == 0) {
        rv = output_end(
            &output, PEM_write_X509(output.file, cert_files->certificate) == 1,
            may_replace);
    }
    return rv;
}

int cert_files_make_folder(const char *path)
{
    return mkdir(path, 0755) == 0 || errno == EEXIST
               ? 0
               : tool_fail(EX_CANTCREAT, "cannot create the folder '%s': %s",
                           path, strerror(errno));
}

int cert_files_copy(const char *from, const char *to, bool may_replace)
{
    struct cert_output output;
    char bytes[4096];
    size_t size;
    FILE *file = fopen(from, "re");
    if (file == NULL) {
        return tool_fail(EX_NOINPUT, "cannot read '%s': %s", from,
                         strerror(errno));
    }
    int rv = output_begin(&output, to, 0644);
    bool is_good = true;
    while (rv == 0 && (size = fread(bytes, 1, sizeof bytes, file)) > 0) {
        is_good = fwrite(bytes, 1, size, output.file) == size && is_good;
    }
    rv = rv ?: output_end(&output, is_good && !ferror(file), may_replace);
    fclose(file);
    return rv;
}
