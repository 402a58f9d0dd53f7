/* SPDX-License-Identifier: MIT */

/* The folder with a client's certificates: ca.crt, and client.crt with
 * client.key if it is to show who it is. */

#ifndef HASP_CLIENT_TLS_FOLDER_H
#define HASP_CLIENT_TLS_FOLDER_H

#include "base/bytes.h"
#include "base/err.h"
#include "net/tls.h"

/* What is in the files. */
struct tls_texts {
    struct buffer ca;
    struct buffer certificate;
    struct buffer key;
};

/* Reads all files in one directory: where Kubernetes mounts a secret "..data"
 * is a link to that, which is swapped for a new one. HASP_ECERT with a
 * sentence. */
MUST_CHECK int tls_folder_read(const char *folder, struct tls_texts *ret_texts,
                               char why[HASP_WHY_SIZE]);
/* Overwrites and frees them. */
void tls_texts_done(struct tls_texts *texts);

/* Makes a context of them. 'cluster' NULL: as the CA says. HASP_ECERT with a
 * sentence, in which the files have the names that they have in 'folder'. */
MUST_CHECK int tls_folder_load(const char *folder,
                               const struct tls_texts *texts,
                               const char *cluster,
                               struct tls_context **ret_context,
                               char why[HASP_WHY_SIZE]);

#endif /* HASP_CLIENT_TLS_FOLDER_H */
