/* SPDX-License-Identifier: MIT */

#include "client/tls_folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int tls_folder_open(const char *folder, const char *cluster,
                    struct tls_context **ret_context, char why[HASP_WHY_SIZE])
{
    char ca[PATH_MAX], certificate[PATH_MAX], key[PATH_MAX];
    struct tls_files files = {.ca = ca};
    if (folder == NULL) {
        folder = getenv("HASP_TLS");
    }
    if (folder == NULL || folder[0] == '\0') {
        *ret_context = NULL;
        return 0;
    }
    snprintf(ca, sizeof ca, "%.3000s/ca.crt", folder);
    snprintf(certificate, sizeof certificate, "%.3000s/client.crt", folder);
    snprintf(key, sizeof key, "%.3000s/client.key", folder);
    if (access(certificate, F_OK) == 0 || access(key, F_OK) == 0) {
        files.certificate = certificate;
        files.key = key;
    }
    return tls_context_load(&files, TLS_AS_CLIENT, cluster, 0, ret_context,
                            why);
}
