/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/names.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/query.h"

void name_of_user(char name[NAME_TEXT_SIZE])
{
    char host[65] = "";
    const struct passwd *user = getpwuid(geteuid());
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
        snprintf(host, sizeof host, "unknown");
    }
    if (user != NULL) {
        snprintf(name, NAME_TEXT_SIZE, "%.40s@%s", user->pw_name, host);
    } else {
        snprintf(name, NAME_TEXT_SIZE, "%ld@%s", (long)geteuid(), host);
    }
}

void name_of_process(char name[NAME_TEXT_SIZE])
{
    char user[NAME_TEXT_SIZE];
    name_of_user(user);
    snprintf(name, NAME_TEXT_SIZE, "%.116s:%ld", user, (long)getpid());
}

void name_query(struct query *query)
{
    char name[NAME_TEXT_SIZE];
    name_of_user(name);
    query_text(query, "BY");
    query_text(query, name);
}
