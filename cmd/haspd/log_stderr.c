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

#include "base/bytes.h"
#include "base/log.h"

static uint64_t log_node_id;
static bool has_journal;
/* Other threads log, too, while the disk hangs. */
static _Atomic enum hasp_node_log_format log_format = HASP_NODE_LOG_LOGFMT;

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

void log_stderr_use(enum hasp_node_log_format format)
{
    log_format = format;
}

static void log_stderr_put_time(char *out, size_t size)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t at = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out + at, size - at, ".%03ldZ", now.tv_nsec / 1000000);
}

/* --- JSON ----------------------------------------------------------------- */

/* A line of JSON. If it gets too long, values and then fields are cut, and it
 * stays an object. */
struct json_line {
    char *out;
    size_t at;
    size_t end; /* The last three bytes are for "}\n" and the quote. */
};

static void json_put_bytes(struct json_line *line, const char *text,
                           size_t size)
{
    if (line->at + size <= line->end) {
        memcpy(line->out + line->at, text, size);
        line->at += size;
    }
}

/* Puts a text without its quotes. */
static void log_put_escaped(struct json_line *line, const char *text,
                            size_t size)
{
    char escaped[8];
    for (size_t i = 0; i < size;) {
        const uint8_t *in = (const uint8_t *)text + i;
        size_t count = bytes_printable(bytes_of(in, size - i));
        if (*in == '"' || *in == '\\') {
            snprintf(escaped, sizeof escaped, "\\%c", *in);
            json_put_bytes(line, escaped, 2);
            i++;
        } else if (count > 0) {
            json_put_bytes(line, text + i, count);
            i += count;
        } else {
            snprintf(escaped, sizeof escaped, "\\u%04x", *in);
            json_put_bytes(line, escaped, 6);
            i++;
        }
    }
}

/* True for a number that every reader of JSON keeps exact. */
static bool json_is_number(const char *text, size_t size)
{
    size_t sign = size > 0 && text[0] == '-';
    size_t digits = strspn(text + sign, "0123456789");
    return digits == size - sign && digits > 0 && digits <= 15 &&
           (text[sign] != '0' || digits == 1);
}

static void json_put_key(struct json_line *line, const char *key, size_t size,
                         unsigned number)
{
    char suffix[16];
    json_put_bytes(line, ",\"", 2);
    log_put_escaped(line, key, size);
    /* A second field of that name has its number, as in lock_2. */
    snprintf(suffix, sizeof suffix, "_%u", number);
    json_put_bytes(line, suffix, number > 1 ? strlen(suffix) : 0);
    json_put_bytes(line, "\":", 2);
}

/* The length of a value: up to the closing quote, or to the next blank. */
static size_t value_length(const char *text)
{
    size_t at = 1;
    if (text[0] != '"') {
        return strcspn(text, " ");
    }
    while (text[at] != '\0' && text[at] != '"') {
        at += text[at] == '\\' && text[at + 1] != '\0' ? 2 : 1;
    }
    return at + (text[at] == '"');
}

/* Puts a value as log_quote() writes it: \" and \\ are escapes; \xNN, a byte
 * that is not text, stays as it is. */
static void json_put_value(struct json_line *line, const char *text,
                           size_t size)
{
    if (json_is_number(text, size)) {
        json_put_bytes(line, text, size);
        return;
    }
    size_t from = text[0] == '"';
    size_t to = from && size > 1 && text[size - 1] == '"' ? size - 1 : size;
    json_put_bytes(line, "\"", 1);
    for (size_t i = from; i < to; i++) {
        bool is_escape = from && text[i] == '\\' && i + 1 < to &&
                         (text[i + 1] == '"' || text[i + 1] == '\\');
        size_t count = from ? 1 : to - i;
        i += is_escape;
        while (from && !is_escape && i + count < to &&
               text[i + count] != '\\') {
            count++;
        }
        log_put_escaped(line, text + i, count);
        i += count - 1;
    }
    json_put_bytes(line, "\"", 1);
}

/* How many of the first 'count' keys are this one. */
static unsigned count_key(const char *const *keys, const size_t *sizes,
                          unsigned count)
{
    unsigned same = 1;
    for (unsigned i = 0; i < count; i++) {
        same += sizes[i] == sizes[count] &&
                memcmp(keys[i], keys[count], sizes[i]) == 0;
    }
    return same;
}

/* Adds the fields "k=v k=v". */
static void json_put_fields(struct json_line *line, const char *fields)
{
    const char *keys[64];
    size_t sizes[64];
    for (unsigned i = 0; i < 64; i++) {
        fields += strspn(fields, " ");
        size_t size = strcspn(fields, "= ");
        keys[i] = fields;
        sizes[i] = size;
        fields += size;
        const char *value = fields[0] == '=' ? fields + 1 : fields;
        size_t length = fields[0] == '=' ? value_length(value) : 0;
        /* Whole fields or none: 6 is the most that a byte can become. */
        if (size == 0 || line->at + 6 * (size + length) + 32 > line->end) {
            return;
        }
        json_put_key(line, keys[i], size, count_key(keys, sizes, i));
        json_put_value(line, value, length);
        fields = value + length;
    }
}

static size_t log_put_json(char *out, size_t size, const char *level,
                           const char *event, const char *fields)
{
    struct json_line line = {.out = out, .end = size - 3};
    char head[128], time[64];
    log_stderr_put_time(time, sizeof time);
    int count = has_journal
                    ? snprintf(head, sizeof head,
                               "{\"level\":\"%s\",\"node\":%" PRIu64, level,
                               log_node_id)
                    : snprintf(
                          head, sizeof head,
                          "{\"ts\":\"%s\",\"level\":\"%s\",\"node\":%" PRIu64,
                          time, level, log_node_id);
    json_put_bytes(&line, head, (size_t)count);
    json_put_key(&line, "event", 5, 1);
    json_put_bytes(&line, "\"", 1);
    log_put_escaped(&line, event, strlen(event));
    json_put_bytes(&line, "\"", 1);
    json_put_fields(&line, fields);
    out[line.at++] = '}';
    return line.at;
}

/* --- A line --------------------------------------------------------------- */

static size_t log_put_logfmt(char *out, size_t size, const char *level,
                             const char *event, const char *fields)
{
    char time[64] = "", stamp[80] = "";
    log_stderr_put_time(time, sizeof time);
    snprintf(stamp, sizeof stamp, "ts=%s ", time);
    int count = snprintf(out, size - 1,
                         "%slevel=%s node=%" PRIu64 " event=\"%s\"%s%s",
                         has_journal ? "" : stamp, level, log_node_id, event,
                         fields[0] == '\0' ? "" : " ", fields);
    return (size_t)count < size - 1 ? (size_t)count : size - 2;
}

void log_stderr(void *data, enum hasp_node_log_level level, const char *event,
                const char *fields)
{
    static const int priorities[] = {3, 4, 6, 7};
    char line[8192];
    size_t at = 0;
    (void)data;
    const char *name = log_level_name((enum log_level)level);
    if (has_journal) {
        at = (size_t)snprintf(line, sizeof line, "<%d>", priorities[level]);
    }
    at += (log_format == HASP_NODE_LOG_JSON ? log_put_json : log_put_logfmt)(
        line + at, sizeof line - at - 1, name, event, fields);
    line[at++] = '\n';
    (void)!write(STDERR_FILENO, line, at);
}
