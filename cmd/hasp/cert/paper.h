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

#ifndef HASP_CMD_HASP_CERT_PAPER_H
#define HASP_CMD_HASP_CERT_PAPER_H

#include <limits.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "net/tls.h"

#define PAPER_BACKDATED_S 3600 /* For clocks that differ. */
#define PAPER_DAYS_MAX 36500

struct paper {
    X509 *certificate;
    EVP_PKEY *key; /* NULL: it was not wanted. */
};

/* What a new certificate is to say. */
struct paper_wish {
    struct tls_name name;
    const char *hosts; /* "10.0.0.1,lock1.lan" of a node; or NULL. */
    uint64_t days;     /* 0: as long as the CA. */
};

void paper_done(struct paper *paper);
/* The CA in the folder; 'name' is what it says of itself. */
int paper_load_ca(const char *folder, struct paper *ret_ca,
                  struct tls_name *ret_name);
/* The certificate in this file, without its key. */
int paper_load(const char *path, struct paper *ret_paper);
/* Likewise of a folder: the node's, if there is one, else the user's. */
int paper_load_folder(const char *folder, struct paper *ret_paper);
/* Its SHA-256, in hex. */
void paper_fingerprint(const X509 *certificate,
                       char ret_hex[2 * TLS_FINGERPRINT_SIZE + 1]);
/* The URI of hasp that stands in it; false: none, or several. */
bool paper_name(const X509 *certificate, struct tls_name *ret_name);
/* "10.0.0.1,lock1.lan", as a wish has it; to be freed. */
char *paper_hosts(const X509 *certificate);

/* 'ca' NULL: it signs itself. HASP_EINVALID if a host's name is none. */
MUST_CHECK int paper_make(const struct paper_wish *wish, const struct paper *ca,
                          struct paper *ret_paper);

/* Writes both files. Not 'may_replace': nothing may be there; else each file is
 * exchanged whole. */
int paper_write(const struct paper *paper, const char *certificate_path,
                const char *key_path, bool may_replace);
int paper_make_folder(const char *path);
/* Copies a file that anybody may read. */
int paper_copy(const char *from, const char *to, bool may_replace);

#endif /* HASP_CMD_HASP_CERT_PAPER_H */
