/* SPDX-License-Identifier: MIT */

/* How the last process with this data directory ended: one line in the file
 * last_exit, which the next start logs and counts (hasp_last_exit).
 *
 * At the start the line becomes "running", so a process that was killed, or a
 * machine that lost power, leaves that. The file stays open, and nothing is
 * flushed: it is a help for people, and nothing depends on it. A disk that
 * fails is no reason to stop the node here. */

#ifndef HASP_NODE_LAST_EXIT_H
#define HASP_NODE_LAST_EXIT_H

#include <stddef.h>

/* The kinds are numbers in RAFT.STATUS and words in the metrics. */
enum last_exit_kind {
    LAST_EXIT_NONE,  /* There was no earlier process. */
    LAST_EXIT_CLEAN, /* Stopped on request. */
    LAST_EXIT_KILLED,
    LAST_EXIT_ERROR, /* It ended itself, with an exit code. */
    LAST_EXIT_CRASH, /* A CHECK failed, or a fatal signal. */
    LAST_EXIT_KIND_COUNT
};

#define LAST_EXIT_SIZE 2048

struct last_exit {
    int fd; /* -1: none. */
    enum last_exit_kind kind;
};

void last_exit_init(struct last_exit *last_exit);
/* Reads and logs the line, and begins a new one. */
void last_exit_open(struct last_exit *last_exit, const char *directory);
/* Replaces the line by "KIND text"; async-signal-safe. */
void last_exit_write(const struct last_exit *last_exit,
                     enum last_exit_kind kind, const char *text, size_t size);
void last_exit_close(struct last_exit *last_exit);
const char *last_exit_name(enum last_exit_kind kind);

#endif /* HASP_NODE_LAST_EXIT_H */
