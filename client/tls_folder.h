/* SPDX-License-Identifier: MIT */

/* The folder with a client's certificates: ca.crt, and client.crt with
 * client.key if it is to show who it is. */

#ifndef HASP_CLIENT_TLS_FOLDER_H
#define HASP_CLIENT_TLS_FOLDER_H

#include "base/err.h"
#include "net/tls.h"

/* 'folder' NULL: what the environment's HASP_TLS says; "", or nothing there:
 * plain, and '*ret_context' is NULL. 'cluster' NULL: as the CA says. HASP_ECERT
 * with a sentence. */
MUST_CHECK int tls_folder_open(const char *folder, const char *cluster,
                               struct tls_context **ret_context,
                               char why[HASP_WHY_SIZE]);

#define TLS_FOLDER_MARK_SIZE 512

/* What tells the files in it from others, and from those that take their place;
 * "" if nothing is there. */
void tls_folder_mark(const char *folder, char ret_mark[TLS_FOLDER_MARK_SIZE]);

#endif /* HASP_CLIENT_TLS_FOLDER_H */
