/* SPDX-License-Identifier: MIT */

#include "node/condemned.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "storage/disk.h"

#define FILE_NAME "condemned"

int condemned_write(const char *folder, const char *reason,
                    char why[HASP_WHY_SIZE])
{
    struct buffer text = {0};
    buffer_put_text(&text, reason);
    buffer_put_text(&text, "\n");
    int error = disk_replace_in(folder, FILE_NAME, buffer_bytes(&text), why);
    buffer_done(&text);
    return error;
}

int condemned_check(const char *folder, char why[HASP_WHY_SIZE])
{
    char text[HASP_WHY_SIZE];
    FILE *file;
    int error = disk_open_file(folder, FILE_NAME, &file, why);
    if (error != 0) {
        return error == HASP_ENOENT ? 0 : error;
    }
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    text[strcspn(text, "\n")] = '\0';
    snprintf(why, HASP_WHY_SIZE, "%s",
             size > 0 ? text : "the data directory is condemned");
    return HASP_ECORRUPT;
}
