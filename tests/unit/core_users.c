/* SPDX-License-Identifier: MIT */

#include "tests/unit/core_users.h"

#include "base/sha.h"

const struct identity local_door = {.way = IDENTITY_LOCAL, .is_private = true};

int users_set_up(void **state)
{
    begin_three(state);
    client_open_as(world, leader, ADMIN, &local_door);
    return 0;
}

const char *secret_of(const char *user, char last)
{
    static char text[128];
    snprintf(text, sizeof text,
             "hasp1.%s.aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd%c%c%c", user,
             last, last, last);
    return text;
}

const char *add_secret(const char *user, char last)
{
    uint8_t hash[SHA256_SIZE];
    char digits[2 * SHA256_SIZE + 1];
    const char *secret = secret_of(user, last);
    assert_int_equal(sha256(bytes_of_text(secret), hash), 0);
    hex_put(digits, bytes_of(hash, sizeof hash));
    digits[2 * SHA256_SIZE] = '\0';
    return client_ask(world, leader, ADMIN, "SECRET.ADD %s %s", user, digits);
}

void admin(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *answer = client_ask(world, leader, ADMIN, "%s", text);
    if (answer[0] == '-') {
        fail_msg("%s: %s", text, answer);
    }
}

void make_user(const char *name, const char *grants)
{
    admin("ROLE.SET %s IF 0 GRANTS %s", name, grants);
    admin("USER.SET %s IF 0 ROLES %s", name, name);
    assert_int_equal(add_secret(name, 'x')[0], ':');
    world_run(world, 100);
}

int64_t changed(const char *what, const char *name)
{
    client_ask(world, leader, ADMIN, "%s.SHOW %s", what, name);
    return answer_number(world, leader, ADMIN, "changed");
}

uint64_t first_secret(const char *user)
{
    const char *text = client_ask(world, leader, ADMIN, "USER.SHOW %s", user);
    return strtoull(strstr(strstr(text, "secrets"), "number\r\n:") + 9, NULL,
                    10);
}

void open_as(uint64_t node, uint64_t conn, const struct identity *identity)
{
    client_close(world, node, conn);
    client_open_as(world, node, conn, identity);
}

void open_again(uint64_t node, uint64_t conn)
{
    open_as(node, conn,
            &(struct identity){.way = IDENTITY_NONE, .is_private = true});
}

bool was_cut(uint64_t node, uint64_t conn)
{
    bool was_closed = world->node[node].client[conn].was_closed;
    if (was_closed) {
        client_close(world, node, conn);
        world->node[node].client[conn].was_closed = false;
    }
    return was_closed;
}

void come_as(uint64_t node, uint64_t conn, const char *user)
{
    open_again(node, conn);
    assert_answer(world, node, conn, "+OK\r\n", "AUTH %s",
                  secret_of(user, 'x'));
}
