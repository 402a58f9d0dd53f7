/* SPDX-License-Identifier: MIT */

/* Documents with which HTTP refuses. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/problem.h"

static void each_status_has_a_document(void **state)
{
    (void)state;
    for (unsigned status = 400; status < 600; status++) {
        struct problem problem;
        struct http_reply reply = {0};
        problem_set(&problem, status, "LIMIT", NULL, "why %u", status);
        problem_reply(&problem, NULL, &reply);
        assert_int_equal(reply.status, status);
        json_t *document = json_loadb((const char *)reply.body.data,
                                      reply.body.size, 0, NULL);
        assert_non_null(document);
        const char *title = json_string_value(
            json_object_get(document, "title"));
        assert_non_null(title);
        assert_true(title[0] != '\0');
        json_decref(document);
        buffer_done(&reply.body);
    }
}

static void an_answer_that_is_too_large_is_an_error_of_the_server(void **state)
{
    struct problem problem;
    struct http_reply reply = {0};
    (void)state;
    problem_set(&problem, 500, "LIMIT", NULL, "too large");
    problem_reply(&problem, NULL, &reply);
    buffer_put_u8(&reply.body, '\0');
    assert_non_null(
        strstr((const char *)reply.body.data, "\"Internal Server Error\""));
    buffer_done(&reply.body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_status_has_a_document),
        cmocka_unit_test(an_answer_that_is_too_large_is_an_error_of_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
