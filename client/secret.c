/* SPDX-License-Identifier: MIT */

#include "client/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    if (S_ISREG(info.st_mode) && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "'%s' has a secret that others can read (mode %03o): chmod "
                 "0600 it",
                 path, info.st_mode & 0777u);
        return HASP_EINVALID;
    }
    if (strncmp(line, "hasp1.", 6) != 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "no secret in '%s': a line hasp1.NAME.... is expected, as "
                 "'hasp secret add' writes it",
                 path);
        return HASP_EINVALID;
    }
    memcpy(ret_secret, line, sizeof line);
    return 0;
}
