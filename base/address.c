/* SPDX-License-Identifier: MIT */

#include "base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/bytes.h"

bool address_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcmp(host, "localhost") == 0) {
        return true;
    }
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6) ||
               (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
    }
    return false;
}

bool address_is_number(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    return inet_pton(AF_INET, host, &v4) == 1 ||
           inet_pton(AF_INET6, host, &v6) == 1;
}

static bool parse_port(const char *text, uint16_t *ret_port)
{
    uint64_t port;
    if (!bytes_to_u64(bytes_of_text(text), &port) || port > UINT16_MAX) {
        return false;
    }
    *ret_port = (uint16_t)port;
    return true;
}

int address_split(const char *address, char *ret_host, size_t host_size,
                  uint16_t *ret_port)
{
    const char *host = address;
    const char *colon;
    size_t size;
    if (address[0] == '[') {
        host++;
        const char *bracket = strchr(host, ']');
        if (bracket == NULL || bracket[1] != ':') {
            return HASP_EINVALID;
        }
        size = (size_t)(bracket - host);
        colon = bracket + 1;
    } else {
        colon = strrchr(address, ':');
        /* A second colon: an IPv6 address without brackets. */
        if (colon == NULL || strchr(address, ':') != colon) {
            return HASP_EINVALID;
        }
        size = (size_t)(colon - host);
    }
    if (size == 0 || size >= host_size) {
        return HASP_EINVALID;
    }
    for (size_t i = 0; i < size; i++) {
        if ((uint8_t)host[i] <= ' ' || host[i] == 0x7f) {
            return HASP_EINVALID;
        }
    }
    if (!parse_port(colon + 1, ret_port)) {
        return HASP_EINVALID;
    }
    memcpy(ret_host, host, size);
    ret_host[size] = '\0';
    return 0;
}

void address_origin(const char *address, char ret_origin[ADDRESS_SIZE])
{
    char host[ADDRESS_SIZE] = "";
    struct in6_addr v6;
    const char *colon = strrchr(address, ':');
    size_t size = colon == NULL ? strlen(address) : (size_t)(colon - address);
    bool is_v6 = size > 2 && address[0] == '[' && address[size - 1] == ']';
    address += is_v6 ? 1 : 0;
    size -= is_v6 ? 2 : 0;
    memcpy(host, address, size < sizeof host ? size : sizeof host - 1);
    memset(ret_origin, 0, ADDRESS_SIZE);
    if (is_v6 && inet_pton(AF_INET6, host, &v6) == 1) {
        memset(&v6.s6_addr[8], 0, 8);
        inet_ntop(AF_INET6, &v6, ret_origin, ADDRESS_SIZE);
    } else {
        memcpy(ret_origin, host, sizeof host);
    }
}
