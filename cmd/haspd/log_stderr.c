/* SPDX-License-Identifier: MIT */

/* Log lines on standard error, with a time or with the journal's priority. */

#include "cmd/haspd/log_stderr.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

static uint64_t log_node_id;
static bool has_journal;

/* systemd.exec(5): JOURNAL_STREAM is "DEVICE:INODE" of the stream it made. */
static bool journal_reads_stderr(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat status;
    return stream != NULL &&
           sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device &&
           status.st_ino == inode;
}

void log_stderr_init(uint64_t node_id)
{
    log_node_id = node_id;
    has_journal = journal_reads_stderr();
}

static size_t log_stderr_put_time(char *out, size_t size)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t at = strftime(out, size, "ts=%Y-%m-%dT%H:%M:%S", &parts);
    return at + (size_t)snprintf(out + at, size - at, ".%03ldZ ",
                                 now.tv_nsec / 1000000);
}

void log_stderr(void *data, enum hasp_node_log_level level, const char *event,
                const char *fields)
{
    static const int priorities[] = {3, 4, 6, 7};
    char line[2560];
    size_t at = 0;
    (void)data;
    if (has_journal) {
        at = (size_t)snprintf(line, sizeof line, "<%d>", priorities[level]);
    } else {
        at = log_stderr_put_time(line, sizeof line);
    }
    int size = snprintf(line + at, sizeof line - at - 1,
                        "level=%s node=%" PRIu64 " event=\"%s\"%s%s",
                        log_level_name((enum log_level)level), log_node_id,
                        event, fields[0] == '\0' ? "" : " ", fields);
    at += (size_t)size < sizeof line - at - 1 ? (size_t)size
                                              : sizeof line - at - 2;
    line[at++] = '\n';
    (void)!write(STDERR_FILENO, line, at);
}
