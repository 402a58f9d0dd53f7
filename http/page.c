/* SPDX-License-Identifier: MIT */

/* The page, and what a browser may do with it. */

#include "http/page.h"

#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/check.h"
#include "base/embed.h"
#include "base/memory.h"
#include "base/sha.h"

EMBED_TEXT(hasp_page, "http/index.html");

/* The bytes between <tag> and </tag>, which the page has exactly once. */
static struct bytes page_inside(const char *tag)
{
    char begin[16], end[16];
    snprintf(begin, sizeof begin, "<%s>", tag);
    snprintf(end, sizeof end, "</%s>", tag);
    const char *from = strstr(hasp_page, begin);
    CHECK(from != NULL);
    from += strlen(begin);
    const char *to = strstr(from, end);
    CHECK(to != NULL);
    return bytes_of(from, (size_t)(to - from));
}

MUST_CHECK static int put_digest(struct buffer *out, const char *tag)
{
    uint8_t digest[SHA256_SIZE];
    int rv = sha256(page_inside(tag), digest);
    if (rv == 0) {
        buffer_printf(out, "; %s-src 'sha256-", tag);
        base64_put(out, bytes_of(digest, sizeof digest));
        buffer_put_u8(out, '\'');
    }
    return rv;
}

/* Writes the Content-Security-Policy; without the digests no script runs. */
MUST_CHECK static int put_policy(struct buffer *out)
{
    buffer_put_text(out,
                    "default-src 'none'; connect-src 'self'; img-src data:; "
                    "base-uri 'none'; form-action 'none'; "
                    "frame-ancestors 'none'; "
                    "require-trusted-types-for 'script'; trusted-types 'none'");
    int rv = put_digest(out, "script");
    rv = rv ?: put_digest(out, "style");
    buffer_put_u8(out, '\0');
    return rv;
}

void page_answer(struct http_exchange *raw_exchange, struct buffer *policy)
{
    struct http_reply reply = {.status = 200,
                               .content_type = "text/html; charset=utf-8"};
    if (policy->size > 0 || put_policy(policy) == 0) {
        reply.constant = bytes_of_text(hasp_page);
    } else {
        buffer_clear(policy);
        buffer_put_u8(policy, '\0');
        reply.status = 503;
        buffer_put_text(&reply.body,
                        "the policy of this machine forbids SHA-256\n");
    }
    reply.header[0] = (struct http_header){"Content-Security-Policy",
                                           (const char *)policy->data};
    reply.header[1] = (struct http_header){"Referrer-Policy", "no-referrer"};
    http_answer(raw_exchange, &reply);
    if (reply.status != 200) {
        buffer_clear(policy);
    }
}
