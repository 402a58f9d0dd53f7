/* SPDX-License-Identifier: MIT */

/* The daemon's configuration: a file, the environment, the command line.
 *
 * A setting has a section and a key. Later sources override earlier ones:
 * built-in default, file (INI), environment (HASP_<SECTION>_<KEY>), command
 * line. An unknown name, a value of the wrong type or a value out of range is
 * an error that names the place and, for a name, the nearest known one.
 * 'member' may be repeated; the members of one source replace those of earlier
 * sources.
 *
 *     [node] id, dir, log_level, log_format  [listen] client, peer, http
 *     [cluster] name, member = ID PEER CLIENT
 *     [raft] election_ms, heartbeat_ms       [limits] ...
 *     [tls] dir, ca, cert, key, client|peer = off|allow|require
 *     [security] insecure|core_dumps = yes|no
 *     [client] redirect = forward|moved
 *     [redis] del = refuse|allow             [audit] file */

#ifndef HASP_CMD_HASPD_CONFIG_H
#define HASP_CMD_HASPD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "include/hasp/node.h"

#define CONFIG_MEMBER_MAX 15
#define CONFIG_SETTING_MAX 128

enum config_source {
    CONFIG_DEFAULT,
    CONFIG_FILE,
    CONFIG_ENVIRONMENT,
    CONFIG_FLAG,
    CONFIG_COMMAND /* NODE.SET */
};

/* When another value of a setting takes effect: when haspd reads its sources
 * again (SIGHUP), or at once by NODE.SET; at the next start; or, a limit of the
 * state, by LIMITS.SET alone once the cluster is founded. */
#define CONFIG_RELOAD "reload"
#define CONFIG_RESTART "restart"
#define CONFIG_LIMITS_SET "limits set"

struct config {
    struct hasp_node_options options; /* Owns its texts. */
    struct hasp_node_member member[CONFIG_MEMBER_MAX];
    enum config_source source[CONFIG_SETTING_MAX]; /* Source of each setting. */
    int line[CONFIG_SETTING_MAX];                  /* Line in the file. */
    /* Set by config_contain(). */
    bool is_contained;
    bool is_plain_alone; /* Insecure by the defaults of a container. */
};

void config_init(struct config *config);
void config_done(struct config *config);
/* Sets the defaults of a container: the directory, the id from the host name,
 * all addresses. Call it before any source is read. */
void config_contain(struct config *config);

/* Each of these returns HASP_EINVALID with a message about the first error. */
MUST_CHECK int config_read_file(struct config *config, const char *path,
                                char why[HASP_WHY_SIZE]);
MUST_CHECK int config_read_environment(struct config *config,
                                       char *const *environment,
                                       char why[HASP_WHY_SIZE]);
/* Sets "section.key" to 'value'; 'flag' is the flag on the command line,
 * without its dashes. */
MUST_CHECK int config_set(struct config *config, const char *flag,
                          const char *name, const char *value,
                          char why[HASP_WHY_SIZE]);
/* Derives settings from others, and checks all of them together. */
MUST_CHECK int config_finish(struct config *config, char why[HASP_WHY_SIZE]);

/* A setting and its value, as --print-config prints it; members are separated
 * by commas. */
struct config_value {
    char name[64];
    char value[1024];
    const char *source;  /* "default", "file" ... */
    const char *changes; /* CONFIG_RELOAD ... */
};
/* Describes setting number 'index' of a finished configuration; false if there
 * is none. */
bool config_describe(const struct config *config, size_t index,
                     struct config_value *ret_value);
/* Takes over a setting that is reloaded. */
void config_adopt(struct config *config, size_t index,
                  const struct config *from);
/* Sets such a setting by its name, as NODE.SET does. */
MUST_CHECK int config_set_running(struct config *config, const char *name,
                                  const char *value, char why[HASP_WHY_SIZE]);

/* Writes all settings as a file that config_read_file() can read. */
void config_print(const struct config *config, FILE *out);

/* The facts about one key that the manual prints besides its meaning. */
struct config_key {
    const char *section;
    const char *key;
    char standard[64]; /* The default; empty: none, or it is required. */
    char range[64];    /* Empty: any text. */
    bool is_required;
    const char *changes; /* CONFIG_RELOAD ... */
};

/* Describes setting number 'index'; false if there is none. */
bool config_key_describe(size_t index, struct config_key *ret_key);

#endif /* HASP_CMD_HASPD_CONFIG_H */
