/* SPDX-License-Identifier: MIT */

/* The generator of requests can draw everything in the tables of commands: an
 * argument, an option or a word of the docs that it cannot draw fails here. */

#include <ctype.h>

#include "core/commands/commands.h"
#include "core/options.h"
#include "tests/unit/core_world.h"
#include "tests/unit/drawn.h"
#include "tests/unit/drawn_requests.h"

#define DRAW_COUNT 3000

static struct drawn drawn;

static uint32_t below(void *data, uint32_t bound)
{
    return drawn_below(data, bound);
}

static const struct choice choice = {below, &drawn, 0};
static struct drawn_request request;
static const struct drawn_heard heard = {.number = {UINT64_C(1) << 40}};

static int set_up(void **state)
{
    (void)state;
    drawn.state = 7;
    return 0;
}

static void draw(const struct command *command)
{
    drawn_request_of(&choice, &heard, command, &request);
    if (request.missing != NULL) {
        fail_msg("%s: the generator has no pool for '%s'", command->name,
                 request.missing);
    }
}

static bool is_understood(const struct command *command, struct call *call)
{
    struct buffer error = {0};
    struct resp_writer writer = {&error, 3};
    bool has_count = command->arity > 0
                         ? request.count == (uint32_t)command->arity
                         : request.count >= (uint32_t)-command->arity;
    bool is_good = has_count && call_parse(call, command, request.word,
                                           request.count, &writer) == WORD_NONE;
    buffer_done(&error);
    return is_good;
}

/* All options of the table come, in a request that is understood. */
static void every_option_of_every_command_is_drawn(void **state)
{
    (void)state;
    struct call *call = memory_new(sizeof *call);
    for (uint32_t i = 0; i < commands_count(); i++) {
        const struct command *command = command_at(i);
        uint64_t given = 0;
        uint32_t good = 0;
        for (int n = 0; n < DRAW_COUNT; n++) {
            draw(command);
            if (is_understood(command, call)) {
                good++;
                given |= call->given;
            }
        }
        /* No node understands EVALSHA of an unknown script, and EXEC is made by
         * the node that is asked. */
        if (strcmp(command->name, "EVALSHA") != 0 &&
            strcmp(command->name, "EXEC") != 0 && good < DRAW_COUNT / 20) {
            fail_msg("%s: %u of %d are understood", command->name, good,
                     DRAW_COUNT);
        }
        for (uint32_t o = 0; o < OPTION_COUNT_ALL; o++) {
            if (command->operands != NULL &&
                ((command->options & ~given) >> o & 1) != 0) {
                fail_msg("%s: option %s is never drawn", command->name,
                         option_word(o));
            }
        }
    }
    free(call);
}

static bool draws_word(const struct command *command, const char *word,
                       size_t size)
{
    for (int n = 0; n < DRAW_COUNT; n++) {
        draw(command);
        for (uint32_t i = 1; i < request.count; i++) {
            if (request.word[i].size == size &&
                memcmp(request.word[i].data, word, size) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* All words that the docs of a command show come, too. */
static void every_word_of_the_docs_is_drawn(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < commands_count(); i++) {
        const struct command *command = command_at(i);
        for (const char *at = command->arguments; *at != '\0';) {
            size_t size = strcspn(at, " []|.");
            if (size > 1 && isupper((unsigned char)*at) &&
                !draws_word(command, at, size)) {
                fail_msg("%s: %.*s is never drawn", command->name, (int)size,
                         at);
            }
            at += size > 0 ? size : 1;
        }
    }
}

static void every_command_is_drawn(void **state)
{
    (void)state;
    uint32_t *count = memory_new(commands_count() * sizeof *count);
    for (uint32_t n = 0; n < 100 * commands_count(); n++) {
        drawn_request(&choice, &heard, &request);
        for (uint32_t i = 0; i < commands_count(); i++) {
            count[i] += bytes_is_word(request.word[0], command_at(i)->name);
        }
    }
    for (uint32_t i = 0; i < commands_count(); i++) {
        assert_true(count[i] > 0);
    }
    free(count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_option_of_every_command_is_drawn, set_up),
        cmocka_unit_test_setup(every_word_of_the_docs_is_drawn, set_up),
        cmocka_unit_test_setup(every_command_is_drawn, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
