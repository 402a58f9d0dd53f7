/* SPDX-License-Identifier: MIT */

/* tests/vectors/scripts.txt: scripts of Redis clients and the answer to each,
 * in the form that the file's head describes; scripts_drawn.txt: others, drawn
 * by chance. REWRITE=1 replaces the answers.
 *
 * A case is a script, "----", its answer on one line, and an empty line. The
 * answer is the bytes of RESP with a blank for each end of a line. */

#include "tests/unit/core_world.h"
#include "tests/unit/vectors.h"

static void ask_words(struct world *world, const char *const *words)
{
    struct world_client *client = &world->node[1].client[1];
    uint32_t count = 0;
    while (words[count] != NULL) {
        count++;
    }
    client_clear(world, 1, 1);
    resp_request_begin(&client->waiting, count);
    for (uint32_t i = 0; i < count; i++) {
        resp_request_argument(&client->waiting, bytes_of_text(words[i]));
    }
    client_feed(&world->node[1], 1);
    for (int i = 0; i < 5000 && client->output.size == 0; i++) {
        world_run(world, 1);
    }
}

/* On one line. */
static void put_answer(struct buffer *out, struct bytes answer)
{
    for (size_t i = 0; i + 2 < answer.size; i++) {
        uint8_t c = answer.data[i];
        if (c == '\r' && answer.data[i + 1] == '\n') {
            buffer_put_u8(out, ' ');
            i++;
        } else if (c < ' ' || c >= 0x7f || c == '\\') {
            buffer_printf(out, "\\x%02x", c);
        } else {
            buffer_put_u8(out, c);
        }
    }
}

static void run_case(struct world *world, const char *text, struct buffer *out)
{
    const char *take[] = {"SET",   "a",  "token", "NX",
                          "AGAIN", "PX", "30000", NULL};
    const char *run[] = {"EVAL",  text,   "2", "a", "b",
                         "token", "1000", "3", NULL};
    ask_words(world, take);
    assert_string_equal(client_text(world, 1, 1), "+OK\r\n");
    ask_words(world, run);
    buffer_printf(out, "%s\n----\n", text);
    put_answer(out, buffer_bytes(&world->node[1].client[1].output));
    buffer_put_text(out, "\n\n");
}

static void scripts_are_answered_as_the_file_says(void **state)
{
    const char *path = *state;
    struct buffer out = {0};
    struct buffer file = {0};
    struct world *world = world_new(1);
    world_found(world);
    world_elect(world);
    client_open(world, 1, 1);
    vectors_read(path, &file);
    buffer_put_u8(&file, 0);
    char *at = strstr((char *)file.data, "\n\n");
    assert_non_null(at); /* The head. */
    buffer_put(&out, file.data, (size_t)(at + 2 - (char *)file.data));
    uint32_t count = 0;
    for (at += 2; *at != '\0'; count++) {
        char *end = strstr(at, "\n----\n");
        assert_non_null(end);
        *end = '\0';
        run_case(world, at, &out);
        at = strstr(end + 5, "\n\n");
        assert_non_null(at);
        at += 2;
    }
    assert_in_range(count, 200, 1000);
    vectors_compare(path, buffer_bytes(&out));
    buffer_done(&out);
    buffer_done(&file);
    world_free(world);
}

int main(void)
{
    static char by_hand[] = "tests/vectors/scripts.txt";
    static char drawn[] = "tests/vectors/scripts_drawn.txt";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(scripts_are_answered_as_the_file_says,
                                  by_hand),
        cmocka_unit_test_prestate(scripts_are_answered_as_the_file_says, drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
