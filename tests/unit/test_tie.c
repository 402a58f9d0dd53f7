/* SPDX-License-Identifier: MIT */

/* The client's side of ties; this test is the agent. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/tie.h"

#define WORD "0123456789abcdef0123456789abcdef"
#define SOON_MS 20000

static char folder[64];
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int listener = -1;
static int connection = -1;
static char why[HASP_WHY_SIZE];
static int notice_count; /* Atomic access only. */

static void changed(void *data, const char *text)
{
    (void)data;
    if (text != NULL) {
        __atomic_add_fetch(&notice_count, 1, __ATOMIC_SEQ_CST);
    }
}

static void agent_starts(void)
{
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_return_code(
        bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_return_code(listen(listener, 8), 0);
}

/* As when it is killed. */
static void agent_ends(void)
{
    close(connection);
    close(listener);
    unlink(address.sun_path);
}

static void agent_accepts(void)
{
    struct pollfd fd = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, SOON_MS), 1);
    connection = accept(listener, NULL, NULL);
    assert_return_code(connection, 0);
}

/* The next line begins with this word. */
static void agent_reads(const char *verb)
{
    char line[256];
    size_t size = 0;
    do {
        struct pollfd fd = {.fd = connection, .events = POLLIN};
        assert_int_equal(poll(&fd, 1, SOON_MS), 1);
        assert_int_equal(read(connection, line + size, 1), 1);
    } while (line[size++] != '\n' && size < sizeof line);
    line[size - 1] = '\0';
    char expected[64];
    int length = snprintf(expected, sizeof expected, "%s 5 %s START ", verb,
                          WORD);
    if (strncmp(line, expected, (size_t)length) != 0) {
        fail_msg("expected %s..., got %s", expected, line);
    }
}

static bool agent_hears_more(void)
{
    struct pollfd fds[] = {{.fd = connection, .events = POLLIN},
                           {.fd = listener, .events = POLLIN}};
    return poll(fds, 2, 300) > 0;
}

static void agent_answers(const char *line)
{
    assert_int_equal(write(connection, line, strlen(line)), strlen(line));
}

static struct tie *begin(void)
{
    struct credentials word = {.session = 5, .secret = WORD};
    struct tie *tie;
    notice_count = 0;
    assert_int_equal(
        tie_begin(address.sun_path, &word, 60000, changed, NULL, &tie), 0);
    return tie;
}

static struct tie *begin_tied(void)
{
    struct tie *tie = begin();
    agent_accepts();
    agent_reads("TIE");
    assert_int_equal(tie_look(tie, why), TIE_PENDING);
    agent_answers("OK tied\n");
    assert_true(tie_wait(tie, why));
    return tie;
}

static void wait_until_not_tied(struct tie *tie)
{
    uint64_t end_ns = client_now_ns() + SOON_MS * NS_PER_MS;
    while (tie_is_tied(tie) && client_now_ns() < end_ns) {
        usleep(1000);
    }
    assert_false(tie_is_tied(tie));
}

static enum tie_progress undo(struct tie *tie)
{
    uint64_t end_ns = client_now_ns() + SOON_MS * NS_PER_MS;
    enum tie_progress progress;
    while ((progress = tie_undo_step(tie, false, why)) == TIE_PENDING &&
           client_now_ns() < end_ns) {
        usleep(1000);
    }
    return progress;
}

static void a_tie_ends_with_the_agent_and_is_made_again(void **state)
{
    (void)state;
    struct tie *tie = begin_tied();
    agent_ends();
    wait_until_not_tied(tie);
    agent_starts();
    agent_accepts();
    assert_int_equal(__atomic_load_n(&notice_count, __ATOMIC_SEQ_CST), 1);
    agent_reads("TIE");
    assert_false(tie_is_tied(tie));
    agent_answers("OK tied\n");
    uint64_t end_ns = client_now_ns() + SOON_MS * NS_PER_MS;
    while (!tie_is_tied(tie) && client_now_ns() < end_ns) {
        usleep(1000);
    }
    assert_true(tie_is_tied(tie));
    tie_end(tie);
    agent_reads("UNTIE");
}

static void an_untie_without_an_answer_is_none(void **state)
{
    (void)state;
    struct tie *tie = begin_tied();
    assert_int_equal(tie_undo_step(tie, false, why), TIE_PENDING);
    agent_reads("UNTIE");
    close(connection);
    assert_int_equal(undo(tie), TIE_FAILED);
    assert_non_null(strstr(why, address.sun_path));
    assert_false(tie_forgo(tie));
    agent_accepts();
    agent_reads("TIE"); /* As before. */
    tie_end(tie);
    agent_answers("OK tied\n");
}

static void an_answer_that_comes_too_late_counts_the_next_time(void **state)
{
    (void)state;
    struct tie *tie = begin_tied();
    assert_int_equal(tie_undo_step(tie, false, why), TIE_PENDING);
    agent_reads("UNTIE");
    assert_int_equal(tie_undo_step(tie, true, why), TIE_FAILED);
    assert_false(tie_forgo(tie));
    agent_answers("OK untied\n");
    uint64_t end_ns = client_now_ns() + SOON_MS * NS_PER_MS;
    while (!tie_forgo(tie) && client_now_ns() < end_ns) {
        usleep(1000);
    }
    assert_int_equal(undo(tie), TIE_DONE);
    tie_end(tie);
}

static void a_tie_under_way_is_answered_before_it_is_undone(void **state)
{
    (void)state;
    struct tie *tie = begin();
    agent_accepts();
    agent_reads("TIE");
    assert_int_equal(tie_undo_step(tie, false, why), TIE_PENDING);
    assert_false(agent_hears_more());
    agent_answers("OK tied\n");
    assert_true(tie_wait(tie, why));
    assert_int_equal(tie_undo_step(tie, false, why), TIE_PENDING);
    agent_reads("UNTIE");
    agent_answers("OK not tied\n");
    assert_int_equal(undo(tie), TIE_DONE);
    tie_end(tie);
}

static void what_is_untied_stays_untied(void **state)
{
    (void)state;
    struct tie *tie = begin_tied();
    assert_int_equal(tie_undo_step(tie, false, why), TIE_PENDING);
    agent_reads("UNTIE");
    agent_answers("OK untied\n");
    assert_int_equal(undo(tie), TIE_DONE);
    agent_ends();
    connection = -1;
    agent_starts();
    assert_false(agent_hears_more());
    assert_int_equal(tie_look(tie, why), TIE_FAILED);
    assert_int_equal(tie_undo_step(tie, false, why), TIE_DONE);
    tie_end(tie);
}

static void what_was_never_tied_needs_no_agent(void **state)
{
    (void)state;
    agent_ends();
    struct tie *tie = begin();
    assert_false(tie_wait(tie, why));
    assert_non_null(strstr(why, "cannot be reached"));
    assert_int_equal(tie_undo_step(tie, false, why), TIE_DONE);
    tie_end(tie);
    agent_starts();
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/hasp-tie-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/a.sock", folder);
    connection = -1;
    agent_starts();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_ends();
    return rmdir(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tie_ends_with_the_agent_and_is_made_again),
        TEST(an_untie_without_an_answer_is_none),
        TEST(an_answer_that_comes_too_late_counts_the_next_time),
        TEST(a_tie_under_way_is_answered_before_it_is_undone),
        TEST(what_is_untied_stays_untied),
        TEST(what_was_never_tied_needs_no_agent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
