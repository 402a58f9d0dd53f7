/* SPDX-License-Identifier: MIT */

/* The setup of tests of users: an administrator, and users that come and go. */

#ifndef HASP_TESTS_UNIT_CORE_USERS_H
#define HASP_TESTS_UNIT_CORE_USERS_H

#include "tests/unit/core_fixture.h"

#define ADMIN 1 /* The connection to the leader by its local door. */
#define APP 2

/* A user that may do everything. */
extern const struct identity local_door;

/* Three nodes that serve, and ADMIN. */
int users_set_up(void **state);
/* A user's secret with this ending; all secrets have this form. Static
 * memory. */
const char *secret_of(const char *user, char last);
/* Returns the answer. */
const char *add_secret(const char *user, char last);
/* ADMIN sends it, and it is not refused. */
void admin(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* With a role of the same name, and the secret that ends with x. */
void make_user(const char *name, const char *grants);
/* The member 'changed' of a "USER" or "ROLE". */
int64_t changed(const char *what, const char *name);
uint64_t first_secret(const char *user);
/* Replaces an earlier connection of that number. */
void open_as(uint64_t node, uint64_t conn, const struct identity *identity);
void open_again(uint64_t node, uint64_t conn);
/* The same, and authenticates as that user. */
void come_as(uint64_t node, uint64_t conn, const char *user);
/* True if the node has closed it; the end is then reported to the core, as the
 * loop does. */
bool was_cut(uint64_t node, uint64_t conn);

#endif /* HASP_TESTS_UNIT_CORE_USERS_H */
