/* SPDX-License-Identifier: MIT */

/* Certificates with their keys, in folders: made, read, exchanged.
 *
 *     DIR/ca.crt, ca.key       the CA (ca.crt may have others, too)
 *     DIR/node-3/ca.crt, node.crt, node.key          one for each node
 *     DIR/user-app/ca.crt, client.crt, client.key
 *
 * All keys are P-256 and stand in files of mode 0600; signatures are ECDSA with
 * SHA-256, serial numbers random. Functions say on stderr what is wrong and
 * return an exit code, or 0. */

#ifndef HASP_CMD_HASP_CERT_CERT_FILES_H
#define HASP_CMD_HASP_CERT_CERT_FILES_H

#include <limits.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "net/tls.h"

#define CERT_FILES_BACKDATED_S 3600 /* For clocks that differ. */
#define CERT_FILES_DAYS_MAX 36500

struct cert_files {
    X509 *certificate;
    EVP_PKEY *key; /* NULL: it was not wanted. */
};

/* What a new certificate is to say. */
struct cert_files_wish {
    struct tls_name name;
    const char *hosts; /* "10.0.0.1,lock1.lan" of a node; or NULL. */
    uint64_t days;     /* 0: as long as the CA. */
};

void cert_files_done(struct cert_files *cert_files);
/* The CA in the folder; 'name' is what it says of itself. */
int cert_files_load_ca(const char *folder, struct cert_files *ret_ca,
                       struct tls_name *ret_name);
/* The certificate in this file, without its key. */
int cert_files_load(const char *path, struct cert_files *ret_paper);
/* Likewise of a folder: the node's, if there is one, else the user's. */
int cert_files_load_folder(const char *folder, struct cert_files *ret_paper);
/* Its SHA-256, in hex. */
void cert_files_fingerprint(const X509 *certificate,
                            char ret_hex[2 * TLS_FINGERPRINT_SIZE + 1]);
/* The URI of hasp that stands in it; false: none, or several. */
bool cert_files_name(const X509 *certificate, struct tls_name *ret_name);
/* "10.0.0.1,lock1.lan", as a wish has it; to be freed. */
char *cert_files_hosts(const X509 *certificate);

/* 'ca' NULL: it signs itself. HASP_EINVALID if a host's name is none. */
MUST_CHECK int cert_files_make(const struct cert_files_wish *wish,
                               const struct cert_files *ca,
                               struct cert_files *ret_paper);

/* Writes both files. Not 'may_replace': nothing may be there; else each file is
 * exchanged whole. */
int cert_files_write(const struct cert_files *cert_files,
                     const char *certificate_path, const char *key_path,
                     bool may_replace);
int cert_files_make_folder(const char *path);
/* Copies a file that anybody may read. */
int cert_files_copy(const char *from, const char *to, bool may_replace);

#endif /* HASP_CMD_HASP_CERT_CERT_FILES_H */
