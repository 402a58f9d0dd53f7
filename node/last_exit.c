/* SPDX-License-Identifier: MIT */

#include "node/last_exit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#define FILE_NAME "last_exit"

/* The first word of the line, too; "running" is that of a process that has not
 * written another. */
static const char *const names[] = {[LAST_EXIT_NONE] = "none",
                                    [LAST_EXIT_CLEAN] = "clean",
                                    [LAST_EXIT_KILLED] = "running",
                                    [LAST_EXIT_ERROR] = "error",
                                    [LAST_EXIT_CRASH] = "crash"};

const char *last_exit_name(enum last_exit_kind kind)
{
    return kind == LAST_EXIT_KILLED ? "killed" : names[kind];
}

void last_exit_init(struct last_exit *last_exit)
{
    *last_exit = (struct last_exit){.fd = -1};
}

static enum last_exit_kind parse_kind(const char *text, const char **ret_rest)
{
    for (int kind = 0; kind < LAST_EXIT_KIND_COUNT; kind++) {
        size_t size = strlen(names[kind]);
        if (strncmp(text, names[kind], size) == 0 &&
            (text[size] == ' ' || text[size] == '\0')) {
            *ret_rest = text + size + (text[size] == ' ');
            return (enum last_exit_kind)kind;
        }
    }
    /* The file was cut short, or somebody else wrote it. */
    *ret_rest = "";
    return LAST_EXIT_KILLED;
}

static void log_last(enum last_exit_kind kind, const char *rest)
{
    if (kind == LAST_EXIT_CRASH) {
        LOG_WARN("the last run crashed",
                 "report=%s hint=\"please report it, with the lines of the log "
                 "before this start\"",
                 log_quote(rest));
    } else if (kind == LAST_EXIT_ERROR) {
        LOG_WARN("the last run ended with an error", "why=%s", log_quote(rest));
    } else if (kind == LAST_EXIT_KILLED) {
        LOG_WARN("the last run was killed",
                 "hint=\"by a signal, for lack of memory, or the machine went "
                 "down: journalctl -k, dmesg\"");
    }
}

void last_exit_open(struct last_exit *last_exit, const char *directory)
{
    char path[PATH_MAX], text[LAST_EXIT_SIZE];
    const char *rest = "";
    snprintf(path, sizeof path, "%.4000s/" FILE_NAME, directory);
    last_exit->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (last_exit->fd < 0) {
        return;
    }
    ssize_t size = pread(last_exit->fd, text, sizeof text - 1, 0);
    if (size > 0) {
        text[size] = '\0';
        text[strcspn(text, "\n")] = '\0';
        last_exit->kind = parse_kind(text, &rest);
    }
    log_last(last_exit->kind, rest);
    last_exit_write(last_exit, LAST_EXIT_KILLED, "", 0);
}

void last_exit_write(const struct last_exit *last_exit,
                     enum last_exit_kind kind, const char *text, size_t size)
{
    char line[LAST_EXIT_SIZE];
    size_t at = strlen(names[kind]);
    if (last_exit->fd < 0) {
        return;
    }
    memcpy(line, names[kind], at);
    if (size > 0) {
        line[at++] = ' ';
    }
    size = size < sizeof line - at - 1 ? size : sizeof line - at - 1;
    memcpy(line + at, text, size);
    at += size;
    line[at++] = '\n';
    if (pwrite(last_exit->fd, line, at, 0) == (ssize_t)at) {
        (void)!ftruncate(last_exit->fd, (off_t)at);
    }
}

void last_exit_close(struct last_exit *last_exit)
{
    if (last_exit->fd >= 0) {
        close(last_exit->fd);
        last_exit->fd = -1;
    }
}
