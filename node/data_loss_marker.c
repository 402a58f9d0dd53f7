/* SPDX-License-Identifier: MIT */

/* The two files that mark a directory with lost data: 'condemned' and
 * 'barred'. */

#include "node/data_loss_marker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/memory.h"
#include "include/hasp/node.h"
#include "storage/datadir.h"
#include "storage/disk.h"

#define CONDEMNED_NAME "condemned"
#define BARRED_NAME "barred"
#define BARRED_FORMAT "acknowledged = %" PRIu64 " %" PRIu64 "\n"
#define BARRED_SCAN "acknowledged = %" SCNu64 " %" SCNu64

int data_loss_marker_write(const char *folder, const char *reason,
                           char why[HASP_WHY_SIZE])
{
    AUTO(buffer_done) struct buffer text = {0};
    CHECK(reason[0] != '\0');
    buffer_printf(&text, "%s\n", reason);
    return disk_replace_in(folder, CONDEMNED_NAME, buffer_bytes(&text), why);
}

/* Reads the reason and the text after it; HASP_ENOENT if the file does not
 * exist. */
static int data_loss_marker_load(const char *folder, const char *name,
                                 char text[1024], const char **ret_rest,
                                 char why[HASP_WHY_SIZE])
{
    int error = disk_load_text(folder, name, text, 1024, why);
    if (error != 0) {
        return error;
    }
    char *end = strchr(text, '\n');
    *ret_rest = end != NULL ? end + 1 : text + strlen(text);
    if (end != NULL) {
        *end = '\0';
    }
    snprintf(why, HASP_WHY_SIZE, "%.500s",
             text[0] != '\0' ? text : "the file has no reason");
    return 0;
}

int data_loss_marker_check(const char *folder, char why[HASP_WHY_SIZE])
{
    char text[1024];
    const char *rest;
    int error = data_loss_marker_load(folder, CONDEMNED_NAME, text, &rest, why);
    return error == HASP_ENOENT ? 0 : error == 0 ? HASP_ECORRUPT : error;
}

int data_loss_marker_bar(const char *folder,
                         const struct core_accusation *accusation,
                         const char *reason, char why[HASP_WHY_SIZE])
{
    AUTO(buffer_done) struct buffer text = {0};
    /* data_loss_marker_load_bar() would take term 0 for damage. */
    CHECK(accusation->term != 0);
    buffer_printf(&text, "%s\n" BARRED_FORMAT, reason, accusation->term,
                  accusation->last_index);
    return disk_replace_in(folder, BARRED_NAME, buffer_bytes(&text), why);
}

int data_loss_marker_unbar(const char *folder, char why[HASP_WHY_SIZE])
{
    return disk_remove_in(folder, BARRED_NAME, why);
}

int data_loss_marker_load_bar(const char *folder,
                              struct core_accusation *ret_accusation,
                              char why[HASP_WHY_SIZE])
{
    char text[1024];
    const char *rest;
    *ret_accusation = (struct core_accusation){0};
    int error = data_loss_marker_load(folder, BARRED_NAME, text, &rest, why);
    if (error == HASP_ENOENT) {
        return 0;
    }
    if (error == 0 && (sscanf(rest, BARRED_SCAN, &ret_accusation->term,
                              &ret_accusation->last_index) != 2 ||
                       ret_accusation->term == 0)) {
        snprintf(why, HASP_WHY_SIZE,
                 "'%.300s/" BARRED_NAME
                 "' is damaged: if you are sure that the "
                 "directory has lost nothing, remove it with haspd "
                 "--uncondemn",
                 folder);
        /* A damaged mark prevents the start: if it were ignored, a node that
         * has lost entries could vote. */
        return HASP_ECORRUPT;
    }
    return error;
}

int hasp_node_uncondemn(const char *directory, char why[HASP_NODE_WHY_SIZE])
{
    static const char *const names[] = {CONDEMNED_NAME, BARRED_NAME};
    char text[1024], said[HASP_WHY_SIZE] = "";
    const char *rest;
    struct datadir *datadir;
    int error = datadir_open_existing(directory, &datadir, why);
    if (error != 0) {
        return error == HASP_ENOENT ? HASP_NODE_CONFIG : HASP_NODE_STORAGE;
    }
    for (int i = 0; i < 2 && error == 0; i++) {
        error = data_loss_marker_load(directory, names[i], text, &rest, why);
        if (error == HASP_ENOENT) {
            error = 0;
            continue;
        }
        if (error == 0) {
            /* 'why' is overwritten if the removal fails. */
            memcpy(said, why, sizeof said);
            error = disk_remove_in(directory, names[i], why);
        }
    }
    datadir_close(datadir);
    if (error != 0) {
        return HASP_NODE_STORAGE;
    }
    memcpy(why, said, sizeof said);
    return 0;
}
