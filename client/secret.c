/* SPDX-License-Identifier: MIT */

#include "client/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "hasp1."
#define RANDOM_SIZE ((size_t)43)

size_t secret_user_size(const char *secret)
{
    size_t size = strlen(secret);
    return size > RANDOM_SIZE ? size - RANDOM_SIZE : 0;
}

/* True for "hasp1.", a name, a dot and 43 characters: none that is half
 * written. */
static bool is_secret(const char *line)
{
    size_t size = strlen(line);
    size_t around = sizeof PREFIX + RANDOM_SIZE; /* With the dot. */
    return strncmp(line, PREFIX, sizeof PREFIX - 1) == 0 && size > around &&
           line[size - RANDOM_SIZE - 1] == '.' &&
           strspn(line + size - RANDOM_SIZE,
                  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                  "0123456789-_") == RANDOM_SIZE;
}

int secret_read(const char *path, char ret_secret[CLIENT_USER_SECRET_SIZE],
                char why[HASP_WHY_SIZE])
{
    char line[CLIENT_USER_SECRET_SIZE];
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot read the secret in '%s': %s", path,
                 strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return HASP_ENOENT;
    }
    ssize_t size = read(fd, line, sizeof line - 1);
    close(fd);
    line[size > 0 ? size : 0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    /* The mode is that of the open file, not of the path, which could be
     * replaced in between. A pipe has no mode of interest. */
    if (S_ISREG(info.st_mode) && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "'%s' has a secret that others can read (mode %03o): chmod "
                 "0600 it",
                 path, info.st_mode & 0777u);
        return HASP_EINVALID;
    }
    if (!is_secret(line)) {
        snprintf(why, HASP_WHY_SIZE,
                 "no secret in '%s': a line hasp1.NAME.... is expected, as "
                 "'hasp secret add' writes it",
                 path);
        return HASP_EINVALID;
    }
    memcpy(ret_secret, line, sizeof line);
    return 0;
}
