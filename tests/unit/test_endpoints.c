/* SPDX-License-Identifier: MIT */

/* The addresses of nodes as people write them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "client/endpoints.h"

static void addresses_are_read(void **state)
{
    static const struct {
        const char *text, *host, *port, *shown;
    } cases[] = {
        {"a", "a", "7420", "a:7420"},
        {"a:1", "a", "1", "a:1"},
        {"127.0.0.1:65535", "127.0.0.1", "65535", "127.0.0.1:65535"},
        {"a:007", "a", "7", "a:7"},
        {"::1", "::1", "7420", "[::1]:7420"},
        {"[::1]", "::1", "7420", "[::1]:7420"},
        {"[::1]:80", "::1", "80", "[::1]:80"},
        {"[a]:80", "a", "80", "a:80"},
        {"/var/lib/hasp", "/var/lib/hasp", "7420", "/var/lib/hasp"},
        {"unix:/run/x", "unix:/run/x", "7420", "unix:/run/x"},
        {"unix:/", "unix", "7420", NULL}, /* No path, and no port. */
        {"unix:7", "unix", "7", "unix:7"},
    };
    char why[HASP_WHY_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct endpoint endpoint;
        int error = endpoint_parse(cases[i].text, strlen(cases[i].text),
                                   &endpoint, why);
        if (cases[i].shown == NULL) {
            assert_int_equal(error, HASP_EINVALID);
            continue;
        }
        assert_int_equal(error, 0);
        assert_string_equal(endpoint.host, cases[i].host);
        assert_string_equal(endpoint.port, cases[i].port);
        assert_string_equal(endpoint.text, cases[i].shown);
    }
}

static void what_is_none_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "it is empty"},
        {"[::1", "']' is missing"},
        {"[::1]x", "a colon must follow ']'"},
        {"[::1]:", "the port is missing"},
        {"a:", "the port is missing"},
        {":1", "the host is empty or too long"},
        {"[]:1", "the host is empty or too long"},
        {"a:0", "a port is a number from 1 to 65535"},
        {"a:65536", "a port is a number from 1 to 65535"},
        {"a:x", "a port is a number from 1 to 65535"},
        {"redis://a", "a port is a number from 1 to 65535"},
        {"redis://a:1", "no host has such characters"},
        {"[redis://a]:1", "no host has such characters"},
        {"user@a:1", "no host has such characters"},
        {"a:1;b:1", "no host has such characters"},
        {"a b:1", "no host has such characters"},
        {" a", "no host has such characters"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct endpoint endpoint;
        char why[HASP_WHY_SIZE], expected[HASP_WHY_SIZE];
        snprintf(expected, sizeof expected,
                 "'%s' is not an address of a node: %s; write host:port, as in "
                 "127.0.0.1:7420",
                 cases[i].text, cases[i].why);
        assert_int_equal(endpoint_parse(cases[i].text, strlen(cases[i].text),
                                        &endpoint, why),
                         HASP_EINVALID);
        assert_string_equal(why, expected);
    }
}

/* The result for this many characters: of a host, of a path, of a socket. */
static int of_length(const char *begin, size_t size)
{
    char text[600];
    char why[HASP_WHY_SIZE];
    struct endpoint endpoint;
    memset(text, 'x', sizeof text);
    memcpy(text, begin, strlen(begin));
    text[size] = '\0';
    int error = endpoint_parse(text, size, &endpoint, why);
    if (error == 0) {
        assert_int_equal(strlen(endpoint.host), size);
        assert_memory_equal(endpoint.host, text, size);
    } else if (size > 200) {
        assert_null(strstr(why, text)); /* It is not shown whole. */
        assert_non_null(strstr(why, "too long"));
        assert_true(strlen(why) > 200);
    }
    return error;
}

static void each_has_a_longest_one(void **state)
{
    (void)state;
    assert_int_equal(of_length("", 255), 0);
    assert_int_equal(of_length("", 256), HASP_EINVALID);
    assert_int_equal(of_length("/", 255), 0);
    assert_int_equal(of_length("/", 256), HASP_EINVALID);
    assert_int_equal(of_length("unix:/", 112), 0); /* 107 of a path. */
    assert_int_equal(of_length("unix:/", 113), HASP_EINVALID);
}

static void doors_are_told_from_addresses(void **state)
{
    struct endpoint endpoint;
    char why[HASP_WHY_SIZE];
    (void)state;
    assert_int_equal(endpoint_parse("/d", 2, &endpoint, why), 0);
    assert_true(endpoint_is_local(&endpoint));
    assert_null(endpoint_socket(&endpoint));
    assert_int_equal(endpoint_parse("unix:/s", 7, &endpoint, why), 0);
    assert_false(endpoint_is_local(&endpoint));
    assert_string_equal(endpoint_socket(&endpoint), "/s");
    assert_int_equal(endpoint_parse("unix:7", 6, &endpoint, why), 0);
    assert_null(endpoint_socket(&endpoint));
}

static void lists_are_read_up_to_a_count(void **state)
{
    char many[2 * (ENDPOINT_COUNT_MAX + 1)]; /* "a,a,a" */
    char why[HASP_WHY_SIZE] = "";
    struct endpoints endpoints;
    (void)state;
    assert_int_equal(endpoints_parse("a:1,[::1]:2,c", &endpoints, why), 0);
    assert_int_equal(endpoints.count, 3);
    assert_string_equal(endpoints.endpoint[0].text, "a:1");
    assert_string_equal(endpoints.endpoint[1].text, "[::1]:2");
    assert_string_equal(endpoints.endpoint[2].text, "c:7420");
    endpoints_done(&endpoints);
    assert_int_equal(endpoints.count, 0);
    assert_int_equal(endpoints_parse(" a:1 , [::1]:2,\tc\n", &endpoints, why),
                     0);
    assert_string_equal(endpoints.endpoint[0].text, "a:1");
    assert_string_equal(endpoints.endpoint[1].text, "[::1]:2");
    assert_string_equal(endpoints.endpoint[2].text, "c:7420");
    endpoints_done(&endpoints);
    assert_int_equal(endpoints_parse("a:1, ,b", &endpoints, why),
                     HASP_EINVALID);
    assert_int_equal(endpoints_parse("a:1,,b", &endpoints, why), HASP_EINVALID);
    assert_int_equal(endpoints_parse("a:1,", &endpoints, why), HASP_EINVALID);
    for (size_t i = 0; i < sizeof many; i++) {
        many[i] = i % 2 == 0 ? 'a' : ',';
    }
    many[sizeof many - 1] = '\0'; /* One too many. */
    assert_int_equal(endpoints_parse(many, &endpoints, why), HASP_EINVALID);
    assert_string_equal(why, "more than 64 addresses of nodes");
    many[sizeof many - 3] = '\0';
    assert_int_equal(endpoints_parse(many, &endpoints, why), 0);
    assert_int_equal(endpoints.count, ENDPOINT_COUNT_MAX);
    endpoints_done(&endpoints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(what_is_none_is_refused_with_the_reason),
        cmocka_unit_test(each_has_a_longest_one),
        cmocka_unit_test(doors_are_told_from_addresses),
        cmocka_unit_test(lists_are_read_up_to_a_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
