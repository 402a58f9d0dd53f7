/* SPDX-License-Identifier: MIT */

/* What tests of users begin with: an administrator, and users who come and
 * go. */

#ifndef HASP_TESTS_UNIT_CORE_USERS_H
#define HASP_TESTS_UNIT_CORE_USERS_H

#include "tests/unit/core_fixture.h"

#define ADMIN 1 /* The connection to the leader by its local door. */
#define APP 2

/* Who may do all. */
extern const struct identity local_door;

/* Three nodes that serve, and ADMIN. */
int users_set_up(void **state);
/* A secret of the user that ends so; of this form are all. Static memory. */
const char *secret_of(const char *user, char last);
/* Returns the answer. */
const char *add_secret(const char *user, char last);
/* ADMIN asks, and is not refused. */
void admin(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* With a role of his name, and the secret that ends with x. */
void make_user(const char *name, const char *grants);
/* The member 'changed' of a "USER" or "ROLE". */
int64_t changed(const char *what, const char *name);
uint64_t first_secret(const char *user);
/* In place of whoever had that number. */
void open_as(uint64_t node, uint64_t conn, const struct identity *identity);
void open_again(uint64_t node, uint64_t conn);
/* Likewise, and says that it is that user. */
void come_as(uint64_t node, uint64_t conn, const char *user);
/* True if the node has closed it; its end is then told as the loop does. */
bool was_cut(uint64_t node, uint64_t conn);

#endif /* HASP_TESTS_UNIT_CORE_USERS_H */
