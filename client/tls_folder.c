/* SPDX-License-Identifier: MIT */

#include "client/tls_folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL for plain connections. */
static const char *find_folder(const char *folder)
{
    if (folder == NULL) {
        folder = getenv("HASP_TLS");
    }
    return folder != NULL && folder[0] != '\0' ? folder : NULL;
}

int tls_folder_open(const char *folder, const char *cluster,
                    struct tls_context **ret_context, char why[HASP_WHY_SIZE])
{
    char ca[PATH_MAX], certificate[PATH_MAX], key[PATH_MAX];
    struct tls_files files = {.ca = ca};
    folder = find_folder(folder);
    if (folder == NULL) {
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

void tls_folder_mark(const char *folder, char ret_mark[TLS_FOLDER_MARK_SIZE])
{
    static const char *const names[] = {"ca.crt", "client.crt", "client.key"};
    size_t used = 0;
    ret_mark[0] = '\0';
    folder = find_folder(folder);
    for (size_t i = 0; folder != NULL && i < 3; i++) {
        char path[PATH_MAX];
        struct stat info = {0};
        snprintf(path, sizeof path, "%.3000s/%s", folder, names[i]);
        if (stat(path, &info) != 0) {
            memset(&info, 0, sizeof info);
        }
        int size = snprintf(
            ret_mark + used, TLS_FOLDER_MARK_SIZE - used,
            "%llu:%llu:%lld:%lld.%09ld ", (unsigned long long)info.st_dev,
            (unsigned long long)info.st_ino, (long long)info.st_size,
            (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
        used += (size_t)size; /* Of 512, the three have at most 300. */
    }
}
