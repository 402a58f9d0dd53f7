/* SPDX-License-Identifier: MIT */

/* Host, Origin, Sec-Fetch-Site, Content-Type. */

#include "http/origin_check.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOST_SIZE_MAX 256

static bool origin_check_is_address(const char *host)
{
    struct in6_addr address;
    return inet_pton(AF_INET, host, &address) == 1 ||
           inet_pton(AF_INET6, host, &address) == 1;
}

/* True for the empty text, or a port such as ":7422". */
static bool is_port(const char *text)
{
    return *text == '\0' ||
           (*text == ':' && text[1 + strspn(text + 1, "0123456789")] == '\0');
}

/* The host without port and brackets; false if there is none. */
static bool host_of(const char *header, char out[HOST_SIZE_MAX])
{
    bool is_v6 = header[0] == '[';
    const char *from = is_v6 ? header + 1 : header;
    size_t size = strcspn(from, is_v6 ? "]" : ":");
    const char *rest = from + size;
    if (size == 0 || size >= HOST_SIZE_MAX || (is_v6 && *rest != ']') ||
        !is_port(is_v6 ? rest + 1 : rest)) {
        return false;
    }
    memcpy(out, from, size);
    out[size] = '\0';
    return true;
}

static bool origin_check_is_named(const char *host, const char *names)
{
    size_t size = strlen(host);
    while (names != NULL && *names != '\0') {
        size_t one = strcspn(names, " ");
        if (one == size && strncasecmp(names, host, size) == 0) {
            return true;
        }
        names += one + strspn(names + one, " ");
    }
    return false;
}

/* HTTP/1.0 has no Host, and browsers do not use it. */
static bool is_our_host(const char *header, const char *names)
{
    char host[HOST_SIZE_MAX];
    return header == NULL ||
           (host_of(header, host) && (origin_check_is_address(host) ||
                                      strcasecmp(host, "localhost") == 0 ||
                                      origin_check_is_named(host, names)));
}

/* True if the page is from this node: the scheme and the Host are the same. */
static bool is_our_origin(const char *origin, const char *host, bool is_secure)
{
    const char *mark = strstr(origin, "://");
    return mark != NULL &&
           (!is_secure || strncasecmp(origin, "https:", 6) == 0) &&
           host != NULL && strcasecmp(mark + 3, host) == 0;
}

static bool is_json(const char *content_type)
{
    static const char json[] = "application/json";
    size_t size = sizeof json - 1;
    return content_type != NULL && strncasecmp(content_type, json, size) == 0 &&
           strchr("; \t", content_type[size]) != NULL;
}

bool origin_check_admits(const struct origin_check_request *request,
                         const char *names, struct problem *ret_problem)
{
    const char *site = request->fetch_site;
    bool is_reading = strcmp(request->method, "GET") == 0 ||
                      strcmp(request->method, "HEAD") == 0;
    /* DNS rebinding: a web page could reach this node under a name of its
     * own. */
    if (!is_our_host(request->host, names)) {
        problem_set(ret_problem, 421, "NOPERM", NULL,
                    "host '%.200s' is not in http.names: use the node's "
                    "address, or add the name there",
                    request->host);
        return false;
    }
    if (!is_reading &&
        ((request->origin != NULL &&
          !is_our_origin(request->origin, request->host, request->is_secure)) ||
         (site != NULL && strcmp(site, "same-origin") != 0 &&
          strcmp(site, "none") != 0))) {
        problem_set(ret_problem, 403, "NOPERM", NULL,
                    "a page of another origin may not change anything here");
        return false;
    }
    return true;
}

bool origin_check_takes_body(const struct origin_check_request *request,
                             struct problem *ret_problem)
{
    /* Otherwise a page of any origin could send such a request, and no browser
     * would ask first (a CORS preflight). */
    bool needs_json = request->has_body || strcmp(request->method, "POST") == 0;
    if (needs_json && !is_json(request->content_type)) {
        problem_set(ret_problem, 415, "BADARG", NULL,
                    "Content-Type must be application/json (curl --json)");
        return false;
    }
    return true;
}
