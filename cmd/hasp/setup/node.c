/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/setup/node.h"

#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "cmd/hasp/setup/program.h"
#include "cmd/hasp/tool.h"

/* The output of haspd --check-config without warnings. */
#define FINE "configuration ok"

bool node_find_user(struct node_user *ret_user)
{
    const struct passwd *entry = getpwnam(NODE_USER);
    if (entry == NULL) {
        return false;
    }
    *ret_user = (struct node_user){entry->pw_uid, entry->pw_gid};
    return true;
}

bool node_has_systemd(void)
{
    /* As sd_booted(3) does. */
    return access("/run/systemd/system", F_OK) == 0;
}

int node_ask_haspd(const char *config, const char *what, struct buffer *out)
{
    char haspd[PATH_MAX];
    struct node_user as = {0};
    int rv = tool_find_haspd(haspd);
    if (rv != 0) {
        return rv;
    }
    if (geteuid() == 0 && !node_find_user(&as)) {
        as = (struct node_user){0};
    }
    int status = program_run(WORDS(haspd, "--config", config, what), as.user,
                             as.group, out);
    if (status == 0 && strcmp((const char *)out->data, FINE) == 0) {
        out->data[0] = '\0';
        out->size = 0;
    }
    return status;
}

int node_ask_systemd(const char *word, struct buffer *out)
{
    return program_run(WORDS("systemctl", word, "haspd"), 0, 0, out);
}
