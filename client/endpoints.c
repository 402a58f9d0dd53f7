/* SPDX-License-Identifier: MIT */

#include "client/endpoints.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/bytes.h"

/* Characters that show that a host is a URL, or a list with other
 * separators. */
#define NO_HOST "/;@[] \t\r\n"

/* As much as fits into an address. */
#define SOCKET_PATH_MAX (sizeof((struct sockaddr_un *)NULL)->sun_path - 1)

static int endpoints_refuse(const char *text, size_t size, const char *reason,
                            char why[HASP_WHY_SIZE])
{
    snprintf(why, HASP_WHY_SIZE,
             "'%.*s' is not an address of a node: %s; write host:port, as in "
             "127.0.0.1:7420",
             (int)(size < 200 ? size : 200), text, reason);
    return HASP_EINVALID;
}

/* Splits 'text' into host and port; the port is empty if there is none. A colon
 * more than one without brackets is an IPv6 address alone. */
static const char *endpoints_split(struct bytes text, struct bytes *ret_host,
                                   struct bytes *ret_port)
{
    const uint8_t *end = text.data + text.size;
    const uint8_t *colon = memrchr(text.data, ':', text.size);
    *ret_port = bytes_of(end, 0);
    if (text.data[0] == '[') {
        const uint8_t *bracket = memchr(text.data, ']', text.size);
        if (bracket == NULL) {
            return "']' is missing";
        }
        *ret_host = bytes_of(text.data + 1, (size_t)(bracket - text.data - 1));
        if (bracket + 1 == end) {
            return NULL;
        }
        if (bracket[1] != ':') {
            return "a colon must follow ']'";
        }
        *ret_port = bytes_of(bracket + 2, (size_t)(end - bracket - 2));
    } else if (colon != NULL &&
               memchr(text.data, ':', (size_t)(colon - text.data)) == NULL) {
        *ret_host = bytes_of(text.data, (size_t)(colon - text.data));
        *ret_port = bytes_of(colon + 1, (size_t)(end - colon - 1));
    } else {
        *ret_host = text;
        return NULL;
    }
    return ret_port->size == 0 ? "the port is missing" : NULL;
}

int endpoint_parse(const char *text, size_t size, struct endpoint *ret_endpoint,
                   char why[HASP_WHY_SIZE])
{
    struct endpoint endpoint = {.port = ENDPOINT_PORT_DEFAULT};
    struct bytes host, port;
    uint64_t number;
    if (size == 0) {
        return endpoints_refuse(text, size, "it is empty", why);
    }
    bool is_socket = size > strlen(ENDPOINT_SOCKET "/") &&
                     memcmp(text, ENDPOINT_SOCKET "/",
                            strlen(ENDPOINT_SOCKET "/")) == 0;
    if (text[0] == '/' || is_socket) {
        size_t max = is_socket ? strlen(ENDPOINT_SOCKET) + SOCKET_PATH_MAX
                               : sizeof endpoint.host - 1;
        if (size > max) {
            return endpoints_refuse(text, size, "the path is too long", why);
        }
        memcpy(endpoint.host, text, size);
        memcpy(endpoint.text, text, size);
        *ret_endpoint = endpoint;
        return 0;
    }
    const char *reason = endpoints_split(bytes_of(text, size), &host, &port);
    if (reason != NULL) {
        return endpoints_refuse(text, size, reason, why);
    }
    if (host.size == 0 || host.size >= sizeof endpoint.host) {
        return endpoints_refuse(text, size, "the host is empty or too long",
                                why);
    }
    /* Characters that a URL or a list has: a mistake is reported here, not as
     * an unknown host. */
    for (size_t i = 0; i < host.size; i++) {
        if (strchr(NO_HOST, host.data[i]) != NULL) {
            return endpoints_refuse(text, size, "no host has such characters",
                                    why);
        }
    }
    memcpy(endpoint.host, host.data, host.size);
    if (port.size > 0) {
        if (!bytes_to_u64(port, &number) || number == 0 || number > 65535) {
            return endpoints_refuse(text, size,
                                    "a port is a number from 1 to 65535", why);
        }
        snprintf(endpoint.port, sizeof endpoint.port, "%u", (unsigned)number);
    }
    bool is_ipv6 = strchr(endpoint.host, ':') != NULL;
    snprintf(endpoint.text, sizeof endpoint.text, is_ipv6 ? "[%s]:%s" : "%s:%s",
             endpoint.host, endpoint.port);
    *ret_endpoint = endpoint;
    return 0;
}

static struct bytes without_blanks(const char *begin, const char *end)
{
    while (begin < end && isspace((unsigned char)*begin)) {
        begin++;
    }
    while (begin < end && isspace((unsigned char)end[-1])) {
        end--;
    }
    return bytes_of(begin, (size_t)(end - begin));
}

int endpoints_parse(const char *text, struct endpoints *ret_endpoints,
                    char why[HASP_WHY_SIZE])
{
    struct endpoints endpoints = {.count = 0};
    for (const char *at = text;;) {
        const char *end = strchrnul(at, ',');
        if (endpoints.count == ENDPOINT_COUNT_MAX) {
            snprintf(why, HASP_WHY_SIZE, "more than %d addresses of nodes",
                     ENDPOINT_COUNT_MAX);
            endpoints_done(&endpoints);
            return HASP_EINVALID;
        }
        struct endpoint *grown = realloc(endpoints.endpoint,
                                         (endpoints.count + 1) *
                                             sizeof *endpoints.endpoint);
        if (grown == NULL) {
            snprintf(why, HASP_WHY_SIZE, "out of memory");
            endpoints_done(&endpoints);
            return HASP_ENOMEM;
        }
        endpoints.endpoint = grown;
        struct bytes one = without_blanks(at, end);
        int error = endpoint_parse((const char *)one.data, one.size,
                                   &endpoints.endpoint[endpoints.count], why);
        if (error != 0) {
            endpoints_done(&endpoints);
            return error;
        }
        endpoints.count++;
        if (*end == '\0') {
            break;
        }
        at = end + 1;
    }
    *ret_endpoints = endpoints;
    return 0;
}

void endpoints_done(struct endpoints *endpoints)
{
    free(endpoints->endpoint);
    *endpoints = (struct endpoints){0};
}
