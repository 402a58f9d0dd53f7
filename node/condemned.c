/* SPDX-License-Identifier: MIT */

#include "node/condemned.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "storage/disk.h"

#define FILE_NAME "condemned"

int condemned_write(const char *folder, const char *reason,
                    char why[HASP_WHY_SIZE])
{
    struct buffer text = {0};
    int folder_fd;
    int rv = disk_open_folder(folder, &folder_fd);
    if (rv != 0) {
        return disk_fail(why, rv, "open", folder, NULL);
    }
    buffer_put_text(&text, reason);
    buffer_put_text(&text, "\n");
    rv = disk_replace(folder_fd, FILE_NAME, buffer_bytes(&text));
    buffer_done(&text);
    close(folder_fd);
    return rv != 0 ? disk_fail(why, rv, "write", folder, FILE_NAME) : 0;
}

int condemned_check(const char *folder, char why[HASP_WHY_SIZE])
{
    char path[PATH_MAX];
    char text[HASP_WHY_SIZE];
    if (snprintf(path, sizeof path, "%s/" FILE_NAME, folder) >=
        (int)sizeof path) {
        return disk_fail(why, ENAMETOOLONG, "open", folder, FILE_NAME);
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return errno == ENOENT
                   ? 0
                   : disk_fail(why, errno, "open", folder, FILE_NAME);
    }
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    text[strcspn(text, "\n")] = '\0';
    snprintf(why, HASP_WHY_SIZE, "%s",
             size > 0 ? text : "the data directory is condemned");
    return HASP_ECORRUPT;
}
