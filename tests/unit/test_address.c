/* SPDX-License-Identifier: MIT */

/* "host:port": taken apart and shown. */

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/stream.h"

static void addresses_are_split(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        const char *host;
        uint16_t port;
    } good[] = {{"127.0.0.1:7420", "127.0.0.1", 7420},
                {"[::1]:0", "::1", 0},
                {"node-1.example:65535", "node-1.example", 65535}};
    static const char *const bad[] = {
        "",        ":1",        "a",      "a:",
        "a:65536", "a:-1",      "a:1x",   "::1:7420",
        "[::1]",   "[::1]7420", "[::1:1", "[]:1",
        "a b:1",   "a:+1",      "a\n:1",  "a:99999999999999999999"};
    char host[32];
    uint16_t port;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(
            address_split(good[i].address, host, sizeof host, &port), 0);
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (address_split(bad[i], host, sizeof host, &port) != HASP_EINVALID) {
            fail_msg("'%s' was split", bad[i]);
        }
    }
    assert_int_equal(address_split("abcd:1", host, 4, &port), HASP_EINVALID);
    assert_int_equal(address_split("abc:1", host, 4, &port), 0);
}

static void loopback_is_known(void **state)
{
    (void)state;
    assert_true(address_is_loopback("127.0.0.1"));
    assert_true(address_is_loopback("127.255.0.9"));
    assert_true(address_is_loopback("::1"));
    assert_true(address_is_loopback("localhost"));
    assert_true(address_is_loopback("::ffff:127.0.0.1"));
    assert_false(address_is_loopback("128.0.0.1"));
    assert_false(address_is_loopback("0.0.0.0"));
    assert_false(address_is_loopback("::"));
    assert_false(address_is_loopback("::ffff:10.0.0.1"));
    assert_false(address_is_loopback("localhost.evil.example"));
    assert_false(address_is_loopback(""));
}

static void addresses_are_shown(void **state)
{
    (void)state;
    char text[STREAM_ADDRESS_SIZE];
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(7)};
    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.1.2.3", &v6.sin6_addr), 1);
    address_format((struct sockaddr *)&v6, text);
    assert_string_equal(text, "10.1.2.3:7");
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &v6.sin6_addr), 1);
    address_format((struct sockaddr *)&v6, text);
    assert_string_equal(text, "[2001:db8::1]:7");
}

/* A client with one address of an IPv6 network can use all of them. */
static void an_origin_is_a_host_or_a_network(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        const char *origin;
    } known[] = {{"10.1.2.3:7", "10.1.2.3"},
                 {"10.1.2.4:7", "10.1.2.4"},
                 {"[2001:db8:1:2:3:4:5:6]:7", "2001:db8:1:2::"},
                 {"[2001:db8:1:2:ffff::]:9", "2001:db8:1:2::"},
                 {"[2001:db8:1:3::1]:9", "2001:db8:1:3::"},
                 {"?", "?"}};
    char origin[STREAM_ADDRESS_SIZE], zero[STREAM_ADDRESS_SIZE] = {0};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        memset(origin, 'x', sizeof origin);
        address_origin(known[i].address, origin);
        assert_string_equal(origin, known[i].origin);
        size_t size = strlen(origin);
        assert_memory_equal(origin + size, zero, sizeof origin - size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_split),
        cmocka_unit_test(loopback_is_known),
        cmocka_unit_test(addresses_are_shown),
        cmocka_unit_test(an_origin_is_a_host_or_a_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
