/* SPDX-License-Identifier: MIT */

/* From the protocol's words to status codes and documents. */

#include "http/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "core/core.h"
#include "net/json.h"

/* A word without a status of its own is a bad request, like ERR. */
static const struct {
    const char *word;
    unsigned status;
} words[] = {
#define STATUS_OF(word, denies, status) {#word, status},
    CORE_WORDS(STATUS_OF)
#undef STATUS_OF
};

static const struct {
    unsigned status;
    const char *title;
} titles[] = {
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {409, "Conflict"},
    {410, "Gone"},
    {415, "Unsupported Media Type"},
    {421, "Misdirected Request"},
    {423, "Locked"},
    {429, "Too Many Requests"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
};

static const char *title_of(unsigned status)
{
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        if (titles[i].status == status) {
            return titles[i].title;
        }
    }
    return status < 500 ? "Request Refused" : "Server Error";
}

void problem_set(struct problem *problem, unsigned status, const char *code,
                 const char *field, const char *format, ...)
{
    va_list args;
    *problem = (struct problem){.status = status, .code = code, .field = field};
    va_start(args, format);
    vsnprintf(problem->detail, sizeof problem->detail, format, args);
    va_end(args);
}

void problem_of_error(struct problem *problem, struct bytes error)
{
    *problem = (struct problem){.status = 400, .code = "ERR"};
    const uint8_t *blank = error.size > 0 ? memchr(error.data, ' ', error.size)
                                          : NULL;
    size_t size = blank != NULL ? (size_t)(blank - error.data) : error.size;
    struct bytes text = error;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i].status != 0 &&
            bytes_is_word(bytes_of(error.data, size), words[i].word)) {
            problem->status = words[i].status;
            problem->code = words[i].word;
            size = blank != NULL ? size + 1 : size;
            text = bytes_of(error.data + size, error.size - size);
        }
    }
    snprintf(problem->detail, sizeof problem->detail, "%s%.*s",
             strcmp(problem->code, "LIMIT") == 0
                 ? "a limit or a quota is reached: "
                 : "",
             (int)text.size, (const char *)text.data);
}

void problem_reply(const struct problem *problem, json_t *more,
                   struct http_reply *reply)
{
    int headers = 0;
    json_t *document = json_pack(
        "{ss, sI, ss}", "title", title_of(problem->status), "status",
        (json_int_t)problem->status, "code", problem->code);
    json_put_text(document, "detail", bytes_of_text(problem->detail));
    if (problem->field != NULL) {
        json_put(document, "field", json_string(problem->field));
    }
    if (more != NULL) {
        CHECK(json_object_update_new(document, more) == 0);
    }
    reply->status = problem->status;
    reply->content_type = "application/problem+json";
    if (problem->status == 429 || problem->status == 503) {
        reply->header[headers++] = (struct http_header){"Retry-After", "1"};
    }
    if (problem->status == 401) {
        reply->header[headers++] = (struct http_header){"WWW-Authenticate",
                                                        "Bearer"};
    }
    json_write(document, &reply->body);
}
