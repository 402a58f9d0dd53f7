/* SPDX-License-Identifier: MIT */

#include "node/volume.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/core.h"

bool volume_is_marked(const char *directory)
{
    char path[PATH_MAX], marker[PATH_MAX + sizeof REPLACE_MARKER + 1];
    struct stat own, found;
    if (snprintf(path, sizeof path, "%s", directory) >= (int)sizeof path ||
        stat(path, &own) != 0) {
        return false;
    }
    snprintf(marker, sizeof marker, "%s/" REPLACE_MARKER, dirname(path));
    return stat(marker, &found) == 0 && S_ISREG(found.st_mode) &&
           found.st_dev == own.st_dev;
}
