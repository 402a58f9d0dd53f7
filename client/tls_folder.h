/* SPDX-License-Identifier: MIT */

/* The folder with a client's certificates: ca.crt and, for authentication,
 * client.crt with client.key. */

#ifndef HASP_CLIENT_TLS_FOLDER_H
#define HASP_CLIENT_TLS_FOLDER_H

#include "base/bytes.h"
#include "base/err.h"
#include "net/tls.h"

/* Contents of the files. */
struct tls_texts {
    struct buffer ca;
    struct buffer certificate;
    struct buffer key;
};

/* Reads all files from one directory: in a secret mounted by Kubernetes,
 * "..data" is a link to a directory, which is replaced as a whole. HASP_ECERT
 * with a sentence. */
MUST_CHECK int tls_folder_read(const char *folder, struct tls_texts *ret_texts,
                               char why[HASP_WHY_SIZE]);
/* Overwrites and frees them. */
void tls_texts_done(struct tls_texts *texts);

/* Makes a context from them. 'cluster' NULL: from the CA. HASP_ECERT with a
 * sentence, in which the files have the names that they have in 'folder'. */
MUST_CHECK int tls_folder_load(const char *folder,
                               const struct tls_texts *texts,
                               const char *cluster,
                               struct tls_context **ret_context,
                               char why[HASP_WHY_SIZE]);

#endif /* HASP_CLIENT_TLS_FOLDER_H */
