/* SPDX-License-Identifier: MIT */

/* Certificates with their keys, in folders: created, read, replaced.
 *
 *     DIR/ca.crt, ca.key       the CA (ca.crt may have others, too)
 *     DIR/node-3/ca.crt, node.crt, node.key          one for each node
 *     DIR/user-app/ca.crt, client.crt, client.key
 *
 * All keys are P-256 in files of mode 0600; signatures are ECDSA with SHA-256,
 * serial numbers random. Functions print errors to stderr and return an exit
 * code, or 0. */

#ifndef HASP_CMD_HASP_CERT_CERT_FILES_H
#define HASP_CMD_HASP_CERT_CERT_FILES_H

#include <limits.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "net/tls.h"

#define CERT_FILES_BACKDATED_S 3600 /* Tolerance for clocks that differ. */
#define CERT_FILES_DAYS_MAX 36500

struct cert_files {
    X509 *certificate;
    EVP_PKEY *key; /* NULL: not requested. */
};

/* Contents of a new certificate. */
struct cert_files_wish {
    struct tls_name name;
    const char *hosts; /* "10.0.0.1,lock1.lan" for a node; or NULL. */
    uint64_t days;     /* 0: until the CA expires. */
};

void cert_files_done(struct cert_files *cert_files);
/* The CA in the folder; 'name' is the cluster that it names. */
int cert_files_load_ca(const char *folder, struct cert_files *ret_ca,
                       struct tls_name *ret_name);
/* The certificate in this file, without its key. */
int cert_files_load(const char *path, struct cert_files *ret_paper);
/* The certificate in a folder: the node's, or else the user's. */
int cert_files_load_folder(const char *folder, struct cert_files *ret_paper);
/* Its SHA-256, in hex. */
void cert_files_fingerprint(const X509 *certificate,
                            char ret_hex[2 * TLS_FINGERPRINT_SIZE + 1]);
/* The hasp URI in the certificate; false if it has none or several. */
bool cert_files_name(const X509 *certificate, struct tls_name *ret_name);
/* "10.0.0.1,lock1.lan", as in a wish; the caller frees it. */
char *cert_files_hosts(const X509 *certificate);

/* 'ca' NULL: self-signed. HASP_EINVALID if a host name is invalid. */
MUST_CHECK int cert_files_make(const struct cert_files_wish *wish,
                               const struct cert_files *ca,
                               struct cert_files *ret_paper);

/* Writes both files. Without 'may_replace' it fails if one exists; with it
 * each file is replaced atomically. */
int cert_files_write(const struct cert_files *cert_files,
                     const char *certificate_path, const char *key_path,
                     bool may_replace);
int cert_files_make_folder(const char *path);
/* Copies a world-readable file. */
int cert_files_copy(const char *from, const char *to, bool may_replace);

#endif /* HASP_CMD_HASP_CERT_CERT_FILES_H */
