/* SPDX-License-Identifier: MIT */

/* The daemon's configuration: a file, the environment, the command line.
 *
 * A setting has a section and a key. Later sources win: built-in default, file
 * (INI), environment (HASP_<SECTION>_<KEY>), command line. Whatever is not
 * known, not a value of its kind, or out of range is an error that names the
 * place and, for a name, the nearest one that is known. 'member' may stand
 * several times; a source that has any replaces those of the sources before it.
 *
 *     [node] id, dir, log_level              [listen] client, peer, http
 *     [cluster] name, member = ID PEER CLIENT
 *     [raft] election_ms, heartbeat_ms       [limits] ...
 *     [tls] dir, ca, cert, key, client|peer = off|allow|require
 *     [security] insecure|core_dumps = yes|no
 *     [client] redirect = forward|moved
 *     [redis] del = refuse|allow             [audit] file
 */

#ifndef HASP_CMD_HASPD_CONFIG_H
#define HASP_CMD_HASPD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "include/hasp/node.h"

#define CONFIG_MEMBER_MAX 15
#define CONFIG_SETTING_MAX 64

enum config_source {
    CONFIG_DEFAULT,
    CONFIG_FILE,
    CONFIG_ENVIRONMENT,
    CONFIG_FLAG
};

struct config {
    struct hasp_node_options options; /* Its texts belong to the config. */
    struct hasp_node_member member[CONFIG_MEMBER_MAX];
    enum config_source source[CONFIG_SETTING_MAX]; /* Of each setting. */
    int line[CONFIG_SETTING_MAX];                  /* In the file. */
    bool is_contained;                             /* By config_contain(). */
    bool is_plain_alone; /* Insecure because a container's lone node is. */
};

void config_init(struct config *config);
void config_done(struct config *config);
/* The defaults of a container: the directory, the id from the host's name, all
 * addresses. Before any source is read. */
void config_contain(struct config *config);

/* Each of these returns HASP_EINVALID with a message on the first mistake. */
MUST_CHECK int config_read_file(struct config *config, const char *path,
                                char why[HASP_WHY_SIZE]);
MUST_CHECK int config_read_environment(struct config *config,
                                       char *const *environment,
                                       char why[HASP_WHY_SIZE]);
/* Sets "section.key" to 'value'; 'flag' is the word on the command line,
 * without its dashes. */
MUST_CHECK int config_set(struct config *config, const char *flag,
                          const char *name, const char *value,
                          char why[HASP_WHY_SIZE]);
/* Fills in what follows from other settings, and checks the whole. */
MUST_CHECK int config_finish(struct config *config, char why[HASP_WHY_SIZE]);

/* Writes all settings as a file that config_read_file() takes. */
void config_print(const struct config *config, FILE *out);

/* What the manual says of one key besides its meaning. */
struct config_key {
    const char *section;
    const char *key;
    char standard[64]; /* The default; empty: none, or it is required. */
    char range[64];    /* Empty: any text. */
    bool is_required;
};

/* Describes the setting number 'index'; false: there are no more. */
bool config_key_describe(size_t index, struct config_key *ret_key);

#endif /* HASP_CMD_HASPD_CONFIG_H */
