/* SPDX-License-Identifier: MIT */

#include "net/http_head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/check.h"

/* Headers that determine the end of a request, its host, its user and its
 * rights: a proxy could read a repeated one differently. */
static const char *const once[] = {
    "Host",           "Content-Length", "Transfer-Encoding",
    "Authorization",  "Hasp-Session",   "Origin",
    "Sec-Fetch-Site", "Content-Type",   "X-Consul-Token",
};

#define ONCE_COUNT (sizeof once / sizeof *once)

struct head_reading {
    uint32_t count[ONCE_COUNT];
    uint64_t body_size;
    bool has_odd_name;     /* A name has a blank, e.g. before its colon. */
    bool has_odd_encoding; /* A transfer encoding is not "chunked". */
    bool has_odd_line;     /* A line is not at the expected position. */
    const char *at;        /* Expected start of the next line. */
};

static bool is_odd(const char *name)
{
    size_t size = strlen(name);
    return size == 0 || strcspn(name, " \t\r\n") != size;
}

static const char *end_of(const char *text)
{
    return text + strlen(text);
}

/* Checks the position of the line "name: value" in memory. */
static void follow_line(struct head_reading *reading, const char *name,
                        const char *value)
{
    if (reading->has_odd_line || name != reading->at || value == NULL ||
        strchr(value, '\r') != NULL) {
        reading->has_odd_line = true;
        return;
    }
    const char *at = end_of(name) + 1;
    at += strspn(at, " \t");
    reading->has_odd_line = at != value;
    reading->at = end_of(value) + 2;
}

static enum MHD_Result line_cb(void *data, enum MHD_ValueKind kind,
                               const char *name, const char *value)
{
    struct head_reading *reading = data;
    (void)kind;
    follow_line(reading, name, value);
    value = value != NULL ? value : "";
    reading->has_odd_name |= is_odd(name);
    for (size_t i = 0; i < ONCE_COUNT; i++) {
        reading->count[i] += strcasecmp(name, once[i]) == 0;
    }
    if (strcasecmp(name, "Content-Length") == 0 &&
        !bytes_to_u64(bytes_of_text(value), &reading->body_size)) {
        reading->body_size = UINT64_MAX;
    }
    reading->has_odd_encoding |= strcasecmp(name, "Transfer-Encoding") == 0 &&
                                 strcasecmp(value, "chunked") != 0;
    return MHD_YES;
}

static const char *http_head_ambiguity(const struct head_reading *reading)
{
    static char text[80];
    if (reading->has_odd_line) {
        return "a header line is folded, contains CR or NUL, or does not end "
               "with CR LF";
    }
    if (reading->has_odd_name) {
        return "a header name contains a blank, or has one before its colon";
    }
    if (reading->has_odd_encoding) {
        return "Transfer-Encoding must be chunked";
    }
    for (size_t i = 0; i < ONCE_COUNT; i++) {
        if (reading->count[i] > 1) {
            snprintf(text, sizeof text, "duplicate header %s", once[i]);
            return text;
        }
    }
    /* Two lengths of one body are how requests are smuggled past a proxy (RFC
     * 9112, 6.3). */
    return reading->count[1] + reading->count[2] > 1
               ? "a request cannot have both Content-Length and "
                 "Transfer-Encoding"
               : NULL;
}

const char *http_head_read(struct MHD_Connection *connection,
                           const char *target, size_t target_size,
                           const char *method, const char *version,
                           struct http_head *ret_head)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    CHECK(info != NULL);
    struct head_reading reading = {.at = end_of(version) + 2};
    reading.has_odd_line = target != end_of(method) + 1 ||
                           version != target + target_size + 1;
    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, line_cb,
                                    &reading);
    /* The head ends with an empty line. */
    reading.has_odd_line |= reading.at + 2 != method + info->header_size;
    *ret_head = (struct http_head){.body_size = reading.body_size,
                                   .has_body = reading.body_size > 0 ||
                                               reading.count[2] > 0};
    return http_head_ambiguity(&reading);
}

void http_head_refuse(bool is_plain, unsigned status, const char *title,
                      const char *detail, struct http_reply *ret_reply)
{
    *ret_reply = (struct http_reply){
        .status = is_plain ? MHD_HTTP_BAD_REQUEST : status,
        .content_type = is_plain ? "text/plain" : "application/problem+json",
        .header = {{"Connection", "close"}}};
    if (is_plain) {
        buffer_printf(&ret_reply->body, "%s: %s", title, detail);
    } else {
        buffer_printf(&ret_reply->body,
                      "{\"title\":\"%s\",\"status\":%u,\"code\":\"BADARG\","
                      "\"detail\":\"%s\"}\n",
                      title, status, detail);
    }
}
