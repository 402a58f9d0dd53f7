/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Room for ID:SECRET and the end of the line. */
#define LINE_SIZE_MAX 64

static int credentials_take_text(const struct tool *tool,
                                 struct session_source *source)
{
    if (credentials_parse(source->text, &source->credentials) != 0) {
        return tool_usage(tool, "invalid session '%s': use ID:SECRET",
                          source->text);
    }
    memset(strchr(source->text, ':') + 1, 'x', CLIENT_SECRET_SIZE - 1);
    return 0;
}

static int take_file(struct session_source *source)
{
    char line[LINE_SIZE_MAX + 1];
    struct stat info;
    int fd = open(source->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return tool_fail(EX_NOINPUT, "cannot read '%s': %s", source->path,
                         strerror(errno));
    }
    bool is_known = fstat(fd, &info) == 0;
    bool is_open_to_all = is_known && S_ISREG(info.st_mode) &&
                          (info.st_mode & (S_IRWXG | S_IRWXO)) != 0;
    ssize_t size = read(fd, line, LINE_SIZE_MAX);
    close(fd);
    /* Checked first: no message below may advise to remove a folder, which is
     * not ours. */
    if (is_known && S_ISDIR(info.st_mode)) {
        return tool_fail(EX_NOINPUT,
                         "'%s' is a directory: name a file for the session",
                         source->path);
    }
    if (is_open_to_all) {
        return tool_fail(
            EX_NOPERM,
            "'%s' has a secret that others can read (mode %03o): chmod 0600 it",
            source->path, info.st_mode & 0777u);
    }
    line[size > 0 ? size : 0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (credentials_parse(line, &source->credentials) != 0) {
        return tool_fail(
            EX_DATAERR,
            "no session in '%s': a line ID:SECRET is expected; remove the "
            "file, and 'hasp acquire --session-file' creates it again",
            source->path);
    }
    return 0;
}

int session_source_load(const struct tool *tool, struct session_source *source,
                        bool from_environment)
{
    const char *variable = getenv(CREDENTIALS_VARIABLE);
    if (source->text != NULL && source->path != NULL) {
        return tool_usage(tool,
                          "--session and --session-file cannot be combined");
    }
    if (source->text != NULL) {
        return credentials_take_text(tool, source);
    }
    if (source->path != NULL) {
        return take_file(source);
    }
    if (from_environment && variable != NULL &&
        credentials_parse(variable, &source->credentials) != 0) {
        return tool_usage(tool, CREDENTIALS_VARIABLE " is not ID:SECRET");
    }
    return 0;
}

int session_file_begin(const char *path, bool *ret_is_new)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) {
        return tool_fail(EX_CANTCREAT, "cannot create '%s': %s", path,
                         strerror(errno));
    }
    *ret_is_new = fd >= 0;
    if (fd >= 0) {
        close(fd);
    }
    return 0;
}

int session_file_write(const char *path, const char *credentials)
{
    char line[LINE_SIZE_MAX + 2];
    int size = snprintf(line, sizeof line, "%s\n", credentials);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_good = fd >= 0 && write(fd, line, (size_t)size) == size;
    int code = errno;
    if (fd >= 0 && close(fd) != 0) {
        is_good = false;
        code = errno;
    }
    return is_good ? 0
                   : tool_fail(EX_IOERR, "cannot write '%s': %s", path,
                               strerror(code));
}
