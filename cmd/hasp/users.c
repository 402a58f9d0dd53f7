/* SPDX-License-Identifier: MIT */

/* hasp user, secret, role, access, whoami, can.
 *
 * A user or a role is replaced as a whole, and only if nobody has changed it
 * since it was read: the request contains the 'changed' that was read. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/memory.h"
#include "base/sha.h"
#include "base/size.h"
#include "cmd/hasp/nodes.h"
#include "cmd/hasp/tool.h"

#define SECRET_BYTES 32
#define QUOTA_COUNT 6

/* The words of a request that is being built. */
struct users_words {
    const char **word; /* With NULL at the end. */
    uint32_t count;
    uint32_t room;
    char changed[24];
};

static void users_words_done(struct users_words *words)
{
    free(words->word);
}

static void users_add(struct users_words *words, const char *word)
{
    ROOM(words->word, words->room, words->count + 2);
    words->word[words->count++] = word;
    words->word[words->count] = NULL;
}

static void users_begin(struct users_words *words, const char *command,
                        const char *name, uint64_t changed)
{
    snprintf(words->changed, sizeof words->changed, "%" PRIu64, changed);
    users_add(words, command);
    users_add(words, name);
    users_add(words, "IF");
    users_add(words, words->changed);
}

/* --- Users ---------------------------------------------------------------- */

/* The quotas that are given; NULL: unchanged, or the default for a new user.
 */
struct quotas {
    char *of[QUOTA_COUNT];
    char digits[QUOTA_COUNT][24];
};

static const char *const quota_names[QUOTA_COUNT] = {
    "sessions", "holds", "waits", "bytes", "connections", "watches"};

/* Prints such as "sessions 3 of 10000". */
static void print_quota(json_t *user, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, "%s_max", name);
    uint64_t bound = value_number(user, key);
    if (json_object_get(user, name) != NULL) {
        printf("%s %" PRIu64 " of %" PRIu64 "\n", name,
               value_number(user, name), bound);
    } else {
        printf("%s up to %" PRIu64 " at each node\n", name, bound);
    }
}

/* Copies the value of "key=value" out of a line of CLIENT LIST; "" if there is
 * none. */
static void read_value(const char *line, size_t size, const char *key,
                       char *out, size_t room)
{
    size_t key_size = strlen(key);
    out[0] = '\0';
    for (size_t at = 0; at + key_size < size;) {
        size_t end = at;
        while (end < size && line[end] != ' ') {
            end++;
        }
        if (end - at > key_size && strncmp(line + at, key, key_size) == 0) {
            snprintf(out, room, "%.*s", (int)(end - at - key_size),
                     line + at + key_size);
            return;
        }
        at = end + 1;
    }
}

/* Counts the connections of the user in a node's CLIENT LIST, by means of
 * authentication. */
static void count_logins(const char *list, const char *name, json_t *logins)
{
    for (const char *line = list; *line != '\0';) {
        size_t size = strcspn(line, "\n");
        char user[80], by[64], ca[64];
        read_value(line, size, "user=", user, sizeof user);
        read_value(line, size, "by=", by, sizeof by);
        read_value(line, size, "ca=", ca, sizeof ca);
        line += size + (line[size] == '\n');
        if (strcmp(user, name) != 0 || by[0] == '\0') {
            continue;
        }
        json_t *login = json_object_get(logins, by);
        if (login == NULL) {
            login = json_pack("{s:s, s:s, s:i}", "by", by, "ca", ca,
                              "connections", 0);
            json_object_set_new(logins, by, login);
        }
        json_object_set_new(
            login, "connections",
            json_integer((json_int_t)value_number(login, "connections") + 1));
    }
}

/* Asks each node how the user's clients authenticate; returns the counts by
 * that name. A node that does not answer is reported. */
static json_t *ask_logins(struct tool *tool, const char *name)
{
    json_auto_t *nodes = nodes_ask(tool, tool_is_by_door(tool) ? NODES_NAMED
                                                               : NODES_MEMBERS);
    json_t *logins = json_object(), *node;
    size_t i;
    json_array_foreach (nodes, i, node) {
        json_auto_t *list = NULL;
        const char *endpoint = value_text(node, "endpoint");
        if (value_text(node, "error")[0] != '\0') {
            tool_say(tool, "cannot read the client connections of %s: %s",
                     endpoint, value_text(node, "error"));
        } else if (tool_use(tool, endpoint) == 0 &&
                   tool_ask(tool, WORDS("CLIENT", "LIST"),
                            "cannot read the client connections", &list) == 0) {
            const char *text = json_string_value(list);
            count_logins(text != NULL ? text : "", name, logins);
        }
    }
    return logins;
}

/* Such as "secret:7 2 connections". */
static void print_logins(json_t *logins)
{
    json_t *login;
    const char *by;
    json_object_foreach (logins, by, login) {
        uint64_t count = value_number(login, "connections");
        const char *ca = value_text(login, "ca");
        printf("comes by %s%s%s%s: %" PRIu64 " connection%s\n", by,
               ca[0] != '\0' ? " (CA " : "", ca, ca[0] != '\0' ? ")" : "",
               count, count == 1 ? "" : "s");
    }
}

int run_user_show(struct tool *tool, char **argv)
{
    json_auto_t *user = NULL;
    int exit_code = tool_ask(tool, WORDS("USER.SHOW", argv[1]),
                             CANNOT("show user", argv[1]), &user);
    if (exit_code != 0) {
        return exit_code;
    }
    json_auto_t *logins = ask_logins(tool, argv[1]);
    json_t *list = json_array(), *login;
    const char *by;
    json_object_foreach (logins, by, login) {
        json_array_append(list, login);
    }
    json_object_set_new(user, "logins", list);
    output_record(tool->format, tool->subcommand->fields, user);
    for (int i = 0; tool->format == FORMAT_TABLE && i < QUOTA_COUNT; i++) {
        print_quota(user, quota_names[i]);
    }
    json_t *secrets = json_object_get(user, "secrets");
    for (size_t i = 0;
         tool->format == FORMAT_TABLE && i < json_array_size(secrets); i++) {
        json_t *secret = json_array_get(secrets, i);
        printf("secret %" PRIu64 " %s\n", value_number(secret, "number"),
               value_text(secret, "label"));
    }
    if (tool->format == FORMAT_TABLE) {
        print_logins(logins);
    }
    return 0;
}

static bool is_among(const char *role, char **roles)
{
    for (; roles != NULL && *roles != NULL; roles++) {
        if (strcmp(role, *roles) == 0) {
            return true;
        }
    }
    return false;
}

#define QUOTA_ROWS(quotas)                                       \
    {"sessions", OPTION_TEXT, .value = &(quotas)->of[0]},        \
        {"holds", OPTION_TEXT, .value = &(quotas)->of[1]},       \
        {"waits", OPTION_TEXT, .value = &(quotas)->of[2]},       \
        {"bytes", OPTION_TEXT, .value = &(quotas)->of[3]},       \
        {"connections", OPTION_TEXT, .value = &(quotas)->of[4]}, \
    {                                                            \
        "watches", OPTION_TEXT, .value = &(quotas)->of[5]        \
    }

/* Checks that the quotas are numbers; that of bytes may have a unit, as "64MB".
 */
static int read_quotas(struct quotas *quotas)
{
    for (int i = 0; i < QUOTA_COUNT; i++) {
        uint64_t number;
        bool is_bytes = strcmp(quota_names[i], "bytes") == 0;
        if (quotas->of[i] == NULL) {
            continue;
        }
        if (!(is_bytes ? size_parse(quotas->of[i], &number)
                       : bytes_to_u64(bytes_of_text(quotas->of[i]), &number))) {
            return tool_fail(EX_USAGE, "--%s takes a number%s, not '%s'",
                             quota_names[i],
                             is_bytes ? " of bytes, like 1000000 or 64M" : "",
                             quotas->of[i]);
        }
        snprintf(quotas->digits[i], sizeof quotas->digits[i], "%" PRIu64,
                 number);
        quotas->of[i] = quotas->digits[i];
    }
    return 0;
}

/* Adds the quotas; 'user' is the user's current record, or NULL. */
static void add_quotas(struct users_words *words, struct quotas *quotas,
                       json_t *user)
{
    for (int i = 0; i < QUOTA_COUNT; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_max", quota_names[i]);
        if (quotas->of[i] == NULL && user != NULL) {
            snprintf(quotas->digits[i], sizeof quotas->digits[i], "%" PRIu64,
                     value_number(user, key));
            quotas->of[i] = quotas->digits[i];
        }
        if (quotas->of[i] != NULL) {
            users_add(words, quota_names[i]);
            users_add(words, quotas->of[i]);
        }
    }
}

/* Changes to a user. */
struct users_change {
    const char *state; /* "disabled" or "enabled"; NULL to leave it. */
    char **less;       /* Roles to remove, or NULL. */
    char **more;       /* Roles to add, or NULL. */
    struct quotas quotas;
    const char *what; /* The change, such as "disable user", for messages. */
};

/* Writes the user's record with the change. */
static int users_rewrite(struct tool *tool, const char *name,
                         struct users_change *change)
{
    AUTO(users_words_done) struct users_words words = {0};
    json_auto_t *user = NULL;
    int exit_code = tool_ask(tool, WORDS("USER.SHOW", name),
                             CANNOT("show user", name), &user);
    if (exit_code != 0) {
        return exit_code;
    }
    users_begin(&words, "USER.SET", name, value_number(user, "changed"));
    const char *state = change->state != NULL ? change->state
                                              : value_text(user, "state");
    if (strcmp(state, "disabled") == 0) {
        users_add(&words, "DISABLED");
    }
    add_quotas(&words, &change->quotas, user);
    users_add(&words, "ROLES");
    json_t *roles = json_object_get(user, "roles");
    for (size_t i = 0; i < json_array_size(roles); i++) {
        const char *role = json_string_value(json_array_get(roles, i));
        if (role != NULL && !is_among(role, change->less) &&
            !is_among(role, change->more)) {
            users_add(&words, role);
        }
    }
    for (char **more = change->more; more != NULL && *more != NULL; more++) {
        users_add(&words, *more);
    }
    return tool_change(tool, words.word, CANNOT(change->what, name), NULL);
}

int run_user_grant(struct tool *tool, char **argv)
{
    int exit_code = options_read(tool, argv, NULL, 2, 17);
    struct users_change change = {.more = argv + 2,
                                  .what = "grant a role to user"};
    return exit_code ?: users_rewrite(tool, argv[1], &change);
}

int run_user_revoke(struct tool *tool, char **argv)
{
    int exit_code = options_read(tool, argv, NULL, 2, 17);
    struct users_change change = {.less = argv + 2,
                                  .what = "revoke a role from user"};
    return exit_code ?: users_rewrite(tool, argv[1], &change);
}

int run_user_disable(struct tool *tool, char **argv)
{
    struct users_change change = {.state = "disabled", .what = "disable user"};
    return users_rewrite(tool, argv[1], &change);
}

int run_user_enable(struct tool *tool, char **argv)
{
    struct users_change change = {.state = "enabled", .what = "enable user"};
    return users_rewrite(tool, argv[1], &change);
}

int run_user_set(struct tool *tool, char **argv)
{
    struct users_change change = {.what = "set the quotas of user"};
    const struct option_row rows[] = {QUOTA_ROWS(&change.quotas), {0}};
    int exit_code = options_read(tool, argv, rows, 1, 1);
    exit_code = exit_code ?: read_quotas(&change.quotas);
    return exit_code ?: users_rewrite(tool, argv[1], &change);
}

/* Creates a role; its name must be free. */
static int users_make_role(struct tool *tool, const char *name,
                           const struct option_list *grants)
{
    AUTO(users_words_done) struct users_words words = {0};
    users_begin(&words, "ROLE.SET", name, 0);
    users_add(&words, "GRANTS");
    for (size_t i = 0; i < grants->count; i++) {
        users_add(&words, grants->text[i]);
    }
    return tool_change(tool, words.word, CANNOT("make role", name), NULL);
}

int run_user_add(struct tool *tool, char **argv)
{
    struct option_list roles = {.count = 0}, grants = {.count = 0};
    struct quotas quotas = {.of = {NULL}};
    AUTO(users_words_done) struct users_words words = {0};
    bool is_reused = false;
    const struct option_row rows[] = {
        {"role", OPTION_LIST, .value = &roles},
        {"may", OPTION_LIST, .value = &grants},
        {"reuse", OPTION_FLAG, .value = &is_reused},
        QUOTA_ROWS(&quotas),
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 1, 1);
    exit_code = exit_code ?: read_quotas(&quotas);
    if (exit_code == 0 && grants.count > 0) {
        exit_code = users_make_role(tool, argv[1], &grants);
    }
    if (exit_code != 0) {
        return exit_code;
    }
    users_begin(&words, "USER.SET", argv[1], 0);
    if (is_reused) {
        users_add(&words, "REUSE");
    }
    add_quotas(&words, &quotas, NULL);
    users_add(&words, "ROLES");
    for (size_t i = 0; i < roles.count; i++) {
        users_add(&words, roles.text[i]);
    }
    if (grants.count > 0) {
        users_add(&words, argv[1]);
    }
    exit_code = tool_change(tool, words.word, CANNOT("make user", argv[1]),
                            NULL);
    if (exit_code != 0 && grants.count > 0) {
        /* So that the command can be repeated. */
        (void)tool_change(tool, WORDS("ROLE.REMOVE", argv[1]), NULL, NULL);
    }
    return exit_code;
}

int run_user_remove(struct tool *tool, char **argv)
{
    return tool_change_one(tool, WORDS("USER.REMOVE", argv[1]),
                           "cannot remove the user",
                           "no such user; see: hasp user list");
}

/* --- Secrets -------------------------------------------------------------- */

/* Creates a secret: "hasp1.app." and 32 random bytes in base64url. */
static int make_secret(const char *user, struct buffer *out)
{
    uint8_t random[SECRET_BYTES];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return tool_fail(EX_OSERR, "cannot create a secret: %s",
                         strerror(errno));
    }
    buffer_printf(out, "hasp1.%s.", user);
    size_t start = out->size;
    base64_put(out, bytes_of(random, sizeof random));
    explicit_bzero(random, sizeof random);
    /* 32 is not a multiple of three, so it ends with "=". */
    out->size--;
    for (size_t i = start; i < out->size; i++) {
        uint8_t *at = &out->data[i];
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at;
    }
    return 0;
}

static int write_secret(const char *path, struct bytes secret)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool is_written = fd >= 0 &&
                      write(fd, secret.data, secret.size) ==
                          (ssize_t)secret.size &&
                      write(fd, "\n", 1) == 1 && fsync(fd) == 0;
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    return is_written ? 0
                      : tool_fail(error == EEXIST ? EX_CANTCREAT : EX_IOERR,
                                  "cannot write the secret to '%s': %s", path,
                                  strerror(error));
}

/* Adds a secret to the cluster after it was written to its file: a secret that
 * the cluster never received does no harm, one that nobody kept is lost. */
static int users_tell(struct tool *tool, const char *user, const char *label,
                      const char *path, struct buffer *secret)
{
    uint8_t hash[SHA256_SIZE];
    char digits[2 * SHA256_SIZE + 1] = "";
    if (sha256(buffer_bytes(secret), hash) != 0) {
        return tool_fail(EX_OSERR,
                         "cannot create a secret: SHA-256 failed in OpenSSL");
    }
    hex_put(digits, bytes_of(hash, sizeof hash));
    int exit_code = path != NULL ? write_secret(path, buffer_bytes(secret)) : 0;
    if (exit_code != 0) {
        return exit_code;
    }
    exit_code = tool_change(tool,
                            WORDS("SECRET.ADD", user, digits, "NAME", label),
                            CANNOT("add a secret of user", user), NULL);
    if (exit_code != 0 && path != NULL) {
        (void)unlink(path);
    } else if (exit_code == 0 && path == NULL) {
        printf("%.*s\n", (int)secret->size, (const char *)secret->data);
    }
    return exit_code;
}

int run_secret_add(struct tool *tool, char **argv)
{
    const char *label = "", *path = NULL;
    AUTO(buffer_done) struct buffer secret = {0};
    const struct option_row rows[] = {
        {"label", OPTION_TEXT, .value = &label},
        {"file", OPTION_TEXT, .value = &path},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 1, 1);
    exit_code = exit_code ?: make_secret(argv[1], &secret);
    exit_code = exit_code ?: users_tell(tool, argv[1], label, path, &secret);
    if (secret.data != NULL) {
        explicit_bzero(secret.data, secret.size);
    }
    return exit_code;
}

int run_secret_remove(struct tool *tool, char **argv)
{
    return tool_change_one(tool, WORDS("SECRET.REMOVE", argv[1], argv[2]),
                           "cannot remove the secret",
                           "no such secret; see: hasp user show");
}

/* --- Roles ---------------------------------------------------------------- */

int run_role_show(struct tool *tool, char **argv)
{
    json_auto_t *role = NULL;
    int exit_code = tool_ask(tool, WORDS("ROLE.SHOW", argv[1]),
                             CANNOT("show role", argv[1]), &role);
    if (exit_code == 0) {
        output_record(tool->format, tool->subcommand->fields, role);
    }
    return exit_code;
}

/* Warns of a pattern that ends in the middle of a word and matches more than
 * was meant: "bill*" matches "billing" and "billboard". */
static void users_warn(const struct tool *tool, const char *grant)
{
    size_t size = strlen(grant);
    if (size >= 2 && grant[size - 1] == '*' &&
        strchr("/:.-*", grant[size - 2]) == NULL) {
        tool_say(tool, "'%s' matches every name with this prefix", grant);
    }
}

int run_role_set(struct tool *tool, char **argv)
{
    AUTO(users_words_done) struct users_words words = {0};
    json_auto_t *role = NULL;
    int exit_code = options_read(tool, argv, NULL, 1, 65);
    if (exit_code != 0) {
        return exit_code;
    }
    /* The role need not exist yet. */
    (void)tool_ask(tool, WORDS("ROLE.SHOW", argv[1]), NULL, &role);
    users_begin(&words, "ROLE.SET", argv[1],
                role != NULL ? value_number(role, "changed") : 0);
    users_add(&words, "GRANTS");
    for (char **grant = &argv[2]; *grant != NULL; grant++) {
        users_warn(tool, *grant);
        users_add(&words, *grant);
    }
    return tool_change(tool, words.word, CANNOT("set role", argv[1]), NULL);
}

int run_role_remove(struct tool *tool, char **argv)
{
    return tool_change_one(tool, WORDS("ROLE.REMOVE", argv[1]),
                           "cannot remove the role",
                           "no such role; see: hasp role list");
}

/* --- Access --------------------------------------------------------------- */

int run_whoami(struct tool *tool, char **argv)
{
    json_auto_t *self = NULL;
    (void)argv;
    int exit_code = tool_ask(tool, WORDS("WHOAMI"), "cannot read your user",
                             &self);
    if (exit_code == 0) {
        output_record(tool->format, tool->subcommand->fields, self);
    }
    return exit_code;
}

int run_access(struct tool *tool, char **argv)
{
    bool is_forced = false;
    json_auto_t *self = NULL;
    const struct option_row rows[] = {
        {"force", OPTION_FLAG, .value = &is_forced}, {0}};
    int exit_code = options_read(tool, argv, rows, 0, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    if (argv[1] != NULL) {
        return tool_change(
            tool, WORDS("ACCESS.SET", argv[1], is_forced ? "FORCE" : NULL),
            "cannot change access", NULL);
    }
    exit_code = tool_ask(tool, WORDS("WHOAMI"), "cannot read access", &self);
    if (exit_code == 0) {
        const char *access = value_text(self, "access");
        tool_print(tool, json_pack("{s:s}", "access", access), access);
    }
    return exit_code;
}

int run_can(struct tool *tool, char **argv)
{
    char text[800];
    json_auto_t *answer = NULL;
    int exit_code = options_read(tool, argv, NULL, 2, 3);
    if (exit_code != 0) {
        return exit_code;
    }
    exit_code = tool_ask(
        tool,
        WORDS("USER.CAN", argv[1], argv[2], argv[3] != NULL ? argv[3] : ""),
        CANNOT("read user", argv[1]), &answer);
    if (exit_code != 0) {
        return exit_code;
    }
    bool may = json_is_true(json_object_get(answer, "may"));
    snprintf(text, sizeof text, "yes: role '%s', grant '%s'",
             value_text(answer, "role"), value_text(answer, "grant"));
    tool_print(tool, json_incref(answer),
               may ? text
               : json_is_true(json_object_get(answer, "disabled"))
                   ? "no: the user is disabled"
                   : "no: no grant of the user's roles allows it");
    return may ? 0 : EXIT_NO;
}
