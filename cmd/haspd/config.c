/* SPDX-License-Identifier: MIT */

/* Sources of the configuration: sections, keys, units, and errors with their
 * line. */

#include "cmd/haspd/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/duration.h"
#include "base/edit_distance.h"
#include "base/memory.h"
#include "base/size.h"

enum kind {
    KIND_TEXT,
    KIND_U32,
    KIND_U64,
    KIND_SIZE, /* As KIND_U64; K, M or G may follow. */
    /* As KIND_SIZE, for a limit that is used when a cluster is founded. */
    KIND_FOUNDING,
    KIND_TIME, /* In ms: "never" is 0, or with a unit, as in "10m". */
    KIND_MEMBER,
    KIND_LEVEL, /* From here on the values are words: an enum ... */
    KIND_FORMAT,
    KIND_REDIRECT,
    KIND_TLS,
    KIND_ACCESS,
    KIND_FINALIZE, /* ... and from here on a bool. */
    KIND_SWITCH,
    KIND_METRICS,
    KIND_DEL,
    KIND_NO_TTL,
    KIND_SAME_VALUE
};

struct setting {
    const char *section;
    const char *key;
    enum kind kind;
    size_t offset; /* In struct hasp_node_options. */
    uint64_t min;
    uint64_t max;
};

static void *config_field(const struct config *config,
                          const struct setting *setting)
{
    return (char *)(uintptr_t)&config->options + setting->offset;
}

#define AT(config_field) offsetof(struct hasp_node_options, config_field)
#define KIB UINT64_C(1024)
#define MS_PER_S 1000
#define MS_PER_DAY (UINT64_C(24) * 3600 * MS_PER_S)
#define TIME_RANGE "never, or %" PRIu64 "s to %" PRIu64 "d"

static const struct setting settings[] = {
#define TEXT(section, key, member, min, max, standard) \
    {#section, #key, KIND_TEXT, AT(member), min, max},
#define NUMBER(section, key, member, kind, min, max, standard) \
    {#section, #key, KIND_##kind, AT(member), min, max},
#define WORD(section, key, member, kind) \
    {#section, #key, KIND_##kind, AT(member), 0, 0},
#define MEMBERS(section, key) {#section, #key, KIND_MEMBER, 0, 0, 0},
#include "node/settings.def"
};
#define SETTING_COUNT (sizeof settings / sizeof settings[0])
_Static_assert(sizeof(enum hasp_node_tls) == sizeof(unsigned),
               "an enum is stored as a number");
_Static_assert(SETTING_COUNT <= CONFIG_SETTING_MAX, "room for all settings");

/* Words of the kinds from KIND_LEVEL on; the index is the value. */
static const struct choice {
    const char *names[5]; /* NULL-terminated. */
    const char *text;
} choices[] = {
    [KIND_LEVEL] = {{"error", "warn", "info", "debug", NULL},
                    "error, warn, info or debug"},
    [KIND_FORMAT] = {{"logfmt", "json", NULL}, "logfmt or json"},
    [KIND_REDIRECT] = {{"forward", "moved", NULL}, "forward or moved"},
    [KIND_FINALIZE] = {{"manual", "auto", NULL}, "manual or auto"},
    [KIND_SWITCH] = {{"no", "yes", NULL}, "yes or no"},
    [KIND_TLS] = {{"off", "allow", "require", NULL}, "off, allow or require"},
    [KIND_METRICS] = {{"users", "open", NULL}, "users or open"},
    [KIND_DEL] = {{"refuse", "allow", NULL}, "refuse or allow"},
    [KIND_NO_TTL] = {{"refuse", "durable", NULL}, "refuse or durable"},
    [KIND_SAME_VALUE] = {{"refuse", "renew", NULL}, "refuse or renew"},
    [KIND_ACCESS] = {{"auto", "open", "required", NULL},
                     "auto, open or required"},
};

/* The source of a value, for messages. */
struct config_place {
    enum config_source source;
    /* The name of the file or the variable, or of the flag without dashes. */
    const char *name;
    int line;
};

/* State of reading a file; inih passes it to the callbacks. */
struct config_reading {
    struct config *config;
    FILE *file;
    const char *path;
    int line;
    int error;
    char *why;
};

static int config_fail(char why[HASP_WHY_SIZE],
                       const struct config_place *place, const char *format,
                       ...) __attribute__((format(printf, 3, 4)));

static int config_fail(char why[HASP_WHY_SIZE],
                       const struct config_place *place, const char *format,
                       ...)
{
    va_list args;
    const char *dashes = place->source == CONFIG_FLAG ? "--" : "";
    int at = place->line > 0 ? snprintf(why, HASP_WHY_SIZE,
                                        "%.200s:%d: ", place->name, place->line)
                             : snprintf(why, HASP_WHY_SIZE,
                                        "%s%.200s: ", dashes, place->name);
    va_start(args, format);
    vsnprintf(why + at, HASP_WHY_SIZE - (size_t)at, format, args);
    va_end(args);
    return HASP_EINVALID;
}

void config_init(struct config *config)
{
    *config = (struct config){0};
    hasp_node_options_init(&config->options);
    config->options.listen_http = "127.0.0.1:7422";
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        char **text = config_field(config, &settings[i]);
        if (settings[i].kind == KIND_TEXT && *text != NULL) {
            *text = memory_text(*text);
        }
    }
}

static void forget_members(struct config *config)
{
    for (uint32_t i = 0; i < config->options.member_count; i++) {
        free((void *)(uintptr_t)config->member[i].peer_address);
        free((void *)(uintptr_t)config->member[i].client_address);
    }
    config->options.member_count = 0;
}

void config_done(struct config *config)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (settings[i].kind == KIND_TEXT) {
            free(*(char **)config_field(config, &settings[i]));
        }
    }
    forget_members(config);
    *config = (struct config){0};
}

/* Reads a line without its leading blanks, since inih treats an indented line
 * as the rest of the previous value. */
static char *config_read_line(char *out, int size, void *data)
{
    struct config_reading *reading = data;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length = getline(&line, &capacity, reading->file);
    if (length < 0) {
        free(line);
        return NULL;
    }
    reading->line++;
    const char *from = line;
    while (*from == ' ' || *from == '\t') {
        from++;
    }
    if (strlen(from) + 1 > (size_t)size && *from != '#' && *from != ';') {
        if (reading->error == 0) {
            struct config_place place = {CONFIG_FILE, reading->path,
                                         reading->line};
            reading->error = config_fail(
                reading->why, &place,
                "line too long; at most %d bytes are allowed", size - 2);
        }
        from = "\n";
    }
    snprintf(out, (size_t)size, "%s", from);
    free(line);
    return out;
}

static int config_unknown(const struct config_place *place, const char *section,
                          const char *key, char why[HASP_WHY_SIZE])
{
    const struct setting *near_section = &settings[0];
    const struct setting *near_key = NULL;
    const struct setting *elsewhere = NULL;
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *setting = &settings[i];
        if (word_distance(section, setting->section) <
            word_distance(section, near_section->section)) {
            near_section = setting;
        }
        if (strcmp(section, setting->section) == 0 &&
            (near_key == NULL || word_distance(key, setting->key) <
                                     word_distance(key, near_key->key))) {
            near_key = setting;
        }
        if (strcmp(key, setting->key) == 0) {
            elsewhere = setting;
        }
    }
    if (near_key == NULL && section[0] == '\0') {
        return config_fail(why, place,
                           "'%.100s' comes before the first [section]", key);
    }
    if (near_key == NULL) {
        return config_fail(why, place,
                           "unknown section [%.100s]; did you mean [%s]?",
                           section, near_section->section);
    }
    if (elsewhere != NULL) {
        return config_fail(why, place, "'%s' belongs in [%s], not in [%s]", key,
                           elsewhere->section, section);
    }
    return config_fail(why, place,
                       "unknown key '%.100s' in [%s]; did you mean '%s'?", key,
                       section, near_key->key);
}

static int set_number(struct config *config, const struct setting *setting,
                      const struct config_place *place, const char *value,
                      char why[HASP_WHY_SIZE])
{
    uint64_t number;
    bool is_size = setting->kind == KIND_SIZE || setting->kind == KIND_FOUNDING;
    bool is_number = is_size ? size_parse(value, &number)
                             : bytes_to_u64(bytes_of_text(value), &number);
    if (!is_number) {
        return config_fail(why, place, "%s = '%.100s' is not a whole number%s",
                           setting->key, value,
                           is_size ? " (K, M or G may follow)" : "");
    }
    if (number < setting->min || number > setting->max) {
        return config_fail(why, place,
                           "%s = %s is out of range: %" PRIu64 " to %" PRIu64,
                           setting->key, value, setting->min, setting->max);
    }
    if (setting->kind == KIND_U32) {
        *(uint32_t *)config_field(config, setting) = (uint32_t)number;
    } else {
        *(uint64_t *)config_field(config, setting) = number;
    }
    return 0;
}

static int set_time(struct config *config, const struct setting *setting,
                    const struct config_place *place, const char *value,
                    char why[HASP_WHY_SIZE])
{
    uint64_t time_ms = 0;
    bool is_never = strcmp(value, "never") == 0;
    if (!is_never && !duration_parse(value, &time_ms)) {
        return config_fail(why, place,
                           "%s = '%.100s' must be never, or a time such as 10m",
                           setting->key, value);
    }
    if (!is_never && (time_ms < setting->min || time_ms > setting->max)) {
        return config_fail(why, place,
                           "%s = %.100s is out of range: " TIME_RANGE,
                           setting->key, value, setting->min / MS_PER_S,
                           setting->max / MS_PER_DAY);
    }
    *(uint64_t *)config_field(config, setting) = time_ms;
    return 0;
}

static int set_choice(struct config *config, const struct setting *setting,
                      const struct config_place *place, const char *value,
                      char why[HASP_WHY_SIZE])
{
    const struct choice *choice = &choices[setting->kind];
    int found = 0;
    while (choice->names[found] != NULL &&
           strcmp(choice->names[found], value) != 0) {
        found++;
    }
    if (choice->names[found] == NULL) {
        return config_fail(why, place, "%s = '%.100s' must be %s", setting->key,
                           value, choice->text);
    }
    if (setting->kind >= KIND_FINALIZE) {
        *(bool *)config_field(config, setting) = found == 1;
    } else {
        *(unsigned *)config_field(config, setting) = (unsigned)found;
    }
    return 0;
}

static int set_text(struct config *config, const struct setting *setting,
                    const struct config_place *place, const char *value,
                    char why[HASP_WHY_SIZE])
{
    char **text = config_field(config, setting);
    if (strlen(value) < setting->min || strlen(value) > setting->max) {
        return config_fail(why, place,
                           "%s must have %" PRIu64 " to %" PRIu64 " characters",
                           setting->key, setting->min, setting->max);
    }
    free(*text);
    *text = value[0] != '\0' ? memory_text(value) : NULL;
    return 0;
}

static int config_add_member(struct config *config,
                             const struct config_place *place,
                             const char *value, char why[HASP_WHY_SIZE])
{
    char id_text[24], peer[128], client[128], rest[2];
    uint64_t id;
    if (sscanf(value, "%23s %127s %127s %1s", id_text, peer, client, rest) !=
            3 ||
        !bytes_to_u64(bytes_of_text(id_text), &id) || id == 0) {
        return config_fail(
            why, place,
            "member = '%.100s': expected ID PEER-ADDRESS CLIENT-ADDRESS",
            value);
    }
    if (config->options.member_count == CONFIG_MEMBER_MAX) {
        return config_fail(why, place,
                           "too many members; at most %d are allowed",
                           CONFIG_MEMBER_MAX);
    }
    config->member[config->options.member_count++] = (struct hasp_node_member){
        .id = id,
        .peer_address = memory_text(peer),
        .client_address = memory_text(client)};
    return 0;
}

/* Returns SETTING_COUNT if there is none. */
static size_t find_setting(const char *section, const char *key)
{
    size_t i = 0;
    while (i < SETTING_COUNT && (strcmp(settings[i].section, section) != 0 ||
                                 strcmp(settings[i].key, key) != 0)) {
        i++;
    }
    return i;
}

static int config_set_value(struct config *config,
                            const struct config_place *place,
                            const char *section, const char *key,
                            const char *value, char why[HASP_WHY_SIZE])
{
    size_t i = find_setting(section, key);
    int rv;
    if (i == SETTING_COUNT) {
        return config_unknown(place, section, key, why);
    }
    const struct setting *setting = &settings[i];
    if (setting->kind == KIND_MEMBER) {
        if (config->source[i] != place->source) {
            forget_members(config);
        }
        rv = config_add_member(config, place, value, why);
    } else if (place->source == CONFIG_FILE &&
               config->source[i] == CONFIG_FILE) {
        return config_fail(why, place, "duplicate '%s'; line %d has it already",
                           key, config->line[i]);
    } else if (setting->kind == KIND_TEXT) {
        rv = set_text(config, setting, place, value, why);
    } else if (setting->kind >= KIND_LEVEL) {
        rv = set_choice(config, setting, place, value, why);
    } else if (setting->kind == KIND_TIME) {
        rv = set_time(config, setting, place, value, why);
    } else {
        rv = set_number(config, setting, place, value, why);
    }
    config->source[i] = place->source;
    config->line[i] = place->line;
    return rv;
}

static int on_pair(void *data, const char *section, const char *key,
                   const char *value)
{
    struct config_reading *reading = data;
    struct config_place place = {CONFIG_FILE, reading->path, reading->line};
    if (reading->error == 0) {
        reading->error = config_set_value(reading->config, &place, section, key,
                                          value, reading->why);
    }
    return reading->error == 0;
}

int config_read_file(struct config *config, const char *path,
                     char why[HASP_WHY_SIZE])
{
    struct config_reading reading = {
        .config = config, .path = path, .why = why};
    reading.file = fopen(path, "re");
    if (reading.file == NULL) {
        snprintf(why, HASP_WHY_SIZE, "cannot open '%.300s': %s", path,
                 strerror(errno));
        return HASP_EINVALID;
    }
    int line = ini_parse_stream(config_read_line, &reading, on_pair, &reading);
    if (ferror(reading.file) && reading.error == 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot read '%.300s': %s", path,
                 strerror(errno));
        reading.error = HASP_EINVALID;
    }
    fclose(reading.file);
    if (reading.error == 0 && line != 0) {
        struct config_place place = {CONFIG_FILE, path, line};
        return config_fail(why, &place,
                           "expected '[section]' or 'key = value'");
    }
    return reading.error;
}

/* Applies HASP_<SECTION>_<KEY>=value. Variables whose second word is not a
 * section have another purpose (HASP_ENDPOINTS, HASP_TOKEN ...). */
static int set_variable(struct config *config, const char *variable,
                        char why[HASP_WHY_SIZE])
{
    char name[128];
    const char *equals = strchr(variable, '=');
    size_t length = equals == NULL ? 0 : (size_t)(equals - variable);
    if (length == 0 || length >= sizeof name) {
        return 0;
    }
    for (size_t i = 0; i < length; i++) {
        name[i] = (char)tolower((unsigned char)variable[i]);
    }
    name[length] = '\0';
    char *section = name + strlen("hasp_");
    char *key = strchr(section, '_');
    if (key == NULL) {
        return 0;
    }
    *key++ = '\0';
    bool is_section = false;
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        is_section = is_section || strcmp(settings[i].section, section) == 0;
    }
    if (!is_section) {
        return 0;
    }
    char shown[128];
    snprintf(shown, sizeof shown, "%.*s", (int)length, variable);
    struct config_place place = {CONFIG_ENVIRONMENT, shown, 0};
    if (strcmp(section, "cluster") != 0 || strcmp(key, "member") != 0) {
        return config_set_value(config, &place, section, key, equals + 1, why);
    }
    /* One variable has several members, separated by commas. */
    char *copy = memory_text(equals + 1);
    char *rest = copy;
    int rv = 0;
    for (char *one; rv == 0 && (one = strsep(&rest, ",")) != NULL;) {
        rv = config_set_value(config, &place, section, key, one, why);
    }
    free(copy);
    return rv;
}

int config_read_environment(struct config *config, char *const *environment,
                            char why[HASP_WHY_SIZE])
{
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, "HASP_", 5) == 0) {
            int rv = set_variable(config, *environment, why);
            if (rv != 0) {
                return rv;
            }
        }
    }
    return 0;
}

int config_set(struct config *config, const char *flag, const char *name,
               const char *value, char why[HASP_WHY_SIZE])
{
    struct config_place place = {CONFIG_FLAG, flag, 0};
    char section[64];
    const char *dot = strchr(name, '.');
    if (dot == NULL || (size_t)(dot - name) >= sizeof section) {
        return config_fail(why, &place, "'%.100s': expected SECTION.KEY=VALUE",
                           name);
    }
    memcpy(section, name, (size_t)(dot - name));
    section[dot - name] = '\0';
    return config_set_value(config, &place, section, dot + 1, value, why);
}

/* Clears a text that is "off" or empty. */
static void drop_if_off(const char **text)
{
    if (*text != NULL && ((*text)[0] == '\0' || strcmp(*text, "off") == 0)) {
        free((void *)(uintptr_t)*text);
        *text = NULL;
    }
}

void config_contain(struct config *config)
{
    config->is_contained = true;
    config->options.directory = memory_text("/var/lib/hasp/data");
}

static bool config_is_given(const struct config *config, const char *section,
                            const char *key)
{
    return config->source[find_setting(section, key)] != CONFIG_DEFAULT;
}

/* Clients of a container's node are outside of the container. If the operator
 * has confirmed that the node is alone (cluster.alone), plain connections are
 * accepted there unless a setting mentions TLS or 'insecure'. */
static int contain_security(struct config *config, char why[HASP_WHY_SIZE])
{
    struct hasp_node_options *options = &config->options;
    bool says_tls = options->tls_client != HASP_NODE_TLS_OFF ||
                    options->tls_peer != HASP_NODE_TLS_OFF ||
                    options->tls_http != HASP_NODE_TLS_OFF;
    config->is_plain_alone = options->founds_alone &&
                             options->member_count == 0 && !says_tls &&
                             !config_is_given(config, "security", "insecure");
    options->is_insecure |= config->is_plain_alone;
    if (!options->founds_alone && options->member_count == 0 && !says_tls &&
        !options->is_insecure) {
        snprintf(why, HASP_WHY_SIZE,
                 "nothing says what this container is: set HASP_CLUSTER_ALONE="
                 "yes for a cluster of one, or HASP_CLUSTER_MEMBER to '1 "
                 "NAME:7421 NAME:7420, 2 ...' for one of several");
        return HASP_EINVALID;
    }
    return 0;
}

static void replace(const char **text, const char *value)
{
    free((void *)(uintptr_t)*text);
    *text = memory_text(value);
}

/* The host name of a member line might resolve to this machine only after the
 * node runs, as in Kubernetes, or never, as with NAT. So the node listens on
 * that port at all addresses. */
static void listen_as_listed(const char **listen, const char *listed)
{
    char host[128], all[16];
    uint16_t port;
    replace(listen, listed);
    if (address_split(listed, host, sizeof host, &port) == 0 &&
        !address_is_number(host) && !address_is_loopback(host)) {
        snprintf(all, sizeof all, "*:%u", (unsigned)port);
        replace(listen, all);
    }
}

/* Each node listens as its member line says, so all nodes can use the same
 * file. */
static void choose_listeners(struct config *config)
{
    struct hasp_node_options *options = &config->options;
    const struct hasp_node_member *own = NULL;
    for (uint32_t i = 0; i < options->member_count; i++) {
        own = config->member[i].id == options->id ? &config->member[i] : own;
    }
    /* A node without a member line joins a cluster or is alone; no other node
     * connects to it by these settings. */
    bool joins = config->is_contained && options->member_count > 0;
    if (!config_is_given(config, "listen", "client")) {
        if (own != NULL) {
            listen_as_listed(&options->listen_client, own->client_address);
        } else if (config->is_contained) {
            replace(&options->listen_client, joins ? "*:7420" : "0.0.0.0:7420");
        }
    }
    if (!config_is_given(config, "listen", "peer")) {
        if (own != NULL) {
            listen_as_listed(&options->listen_peer, own->peer_address);
        } else if (joins) {
            replace(&options->listen_peer, "*:7421");
        }
    }
    if (config->is_contained && !config_is_given(config, "listen", "http") &&
        (options->is_insecure || options->tls_http == HASP_NODE_TLS_REQUIRE)) {
        replace(&options->listen_http, "*:7422");
    }
}

/* Sets the id: the number at the end of the host name, as a StatefulSet names
 * its pods, or 1 for a node that is alone. */
static int contain_id(struct config *config, char why[HASP_WHY_SIZE])
{
    struct hasp_node_options *options = &config->options;
    char name[256] = "";
    (void)gethostname(name, sizeof name - 1);
    const char *dash = strrchr(name, '-');
    if (options->member_count == 0) {
        options->id = 1;
    } else if (dash == NULL ||
               !bytes_to_u64(bytes_of_text(dash + 1), &options->id)) {
        snprintf(
            why, HASP_WHY_SIZE,
            "cannot derive the node's id from the host name '%.200s', which "
            "does not end in -NUMBER: set HASP_NODE_ID",
            name);
        return HASP_EINVALID;
    } else if (options->id == 0) {
        snprintf(
            why, HASP_WHY_SIZE,
            "the host name '%.200s' gives this node the id 0, but ids start "
            "at 1: set spec.ordinals.start: 1 in the StatefulSet, or set "
            "HASP_NODE_ID",
            name);
        return HASP_EINVALID;
    }
    return 0;
}

int config_finish(struct config *config, char why[HASP_WHY_SIZE])
{
    struct hasp_node_options *options = &config->options;
    options->members = config->member;
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (settings[i].kind == KIND_FOUNDING &&
            config->source[i] == CONFIG_DEFAULT) {
            /* 0: the limit of the state applies. */
            *(uint64_t *)config_field(config, &settings[i]) = 0;
        }
    }
    if (config->is_contained) {
        int rv = contain_security(config, why);
        if (rv == 0 && !config_is_given(config, "node", "id")) {
            rv = contain_id(config, why);
        }
        if (rv != 0) {
            return rv;
        }
    }
    choose_listeners(config);
    drop_if_off(&options->listen_http);
    drop_if_off(&options->listen_consul);
    drop_if_off(&options->listen_local);
    drop_if_off(&options->audit_file);
    return hasp_node_options_check(options, why) == 0 ? 0 : HASP_EINVALID;
}

/* Writes the value of any setting but 'member', in the file's syntax. */
static void print_value(const struct setting *setting, const void *at,
                        FILE *out)
{
    switch (setting->kind) {
    case KIND_TEXT: {
        const char *text = *(char *const *)at;
        fputs(text == NULL ? "" : text, out);
        break;
    }
    case KIND_U32:
        fprintf(out, "%" PRIu32, *(const uint32_t *)at);
        break;
    case KIND_U64:
    case KIND_SIZE:
    case KIND_FOUNDING:
        fprintf(out, "%" PRIu64, *(const uint64_t *)at);
        break;
    case KIND_TIME: {
        uint64_t time_ms = *(const uint64_t *)at;
        if (time_ms == 0) {
            fputs("never", out);
        } else {
            fprintf(out, "%" PRIu64 "ms", time_ms);
        }
        break;
    }
    default: {
        unsigned choice = setting->kind >= KIND_FINALIZE
                              ? *(const bool *)at
                              : *(const unsigned *)at;
        fputs(choices[setting->kind].names[choice], out);
    }
    }
}

static const char *const source_names[] = {"default", "file", "environment",
                                           "flag", "command"};

/* Prints the value in use of any setting but 'member'. */
static void print_used(const struct config *config, size_t index, FILE *out)
{
    const struct setting *setting = &settings[index];
    const void *at = config_field(config, setting);
    struct hasp_node_options standard;
    if (setting->kind == KIND_FOUNDING &&
        config->source[index] == CONFIG_DEFAULT) {
        hasp_node_options_init(&standard);
        at = (const char *)&standard + setting->offset;
    }
    print_value(setting, at, out);
}

static void print_setting(const struct config *config, size_t index, FILE *out)
{
    const struct setting *setting = &settings[index];
    const char *source = source_names[config->source[index]];
    if (setting->kind != KIND_MEMBER) {
        fprintf(out, "%s = ", setting->key);
        print_used(config, index, out);
        fprintf(out, " ; %s\n", source);
        return;
    }
    for (uint32_t i = 0; i < config->options.member_count; i++) {
        fprintf(out, "%s = %" PRIu64 " %s %s ; %s\n", setting->key,
                config->member[i].id, config->member[i].peer_address,
                config->member[i].client_address, source);
    }
}

void config_print(const struct config *config, FILE *out)
{
    const char *section = "";
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (strcmp(section, settings[i].section) != 0) {
            fprintf(out, "%s[%s]\n", i == 0 ? "" : "\n", settings[i].section);
            section = settings[i].section;
        }
        print_setting(config, i, out);
    }
}

/* --- While the node runs -------------------------------------------------- */

/* The members on one line. */
static void print_members(const struct config *config, FILE *out)
{
    for (uint32_t i = 0; i < config->options.member_count; i++) {
        fprintf(out, "%s%" PRIu64 " %s %s", i > 0 ? ", " : "",
                config->member[i].id, config->member[i].peer_address,
                config->member[i].client_address);
    }
}

/* True if a reload, or NODE.SET, changes it while the node runs. */
static bool setting_is_live(const struct setting *setting)
{
    static const size_t live[] = {
#define LIVE(member) AT(member),
#include "node/settings_live.def"
    };
    for (size_t i = 0; i < sizeof live / sizeof live[0]; i++) {
        /* A cluster's members have no field, and 0. */
        if (setting->offset == live[i] && setting->kind != KIND_MEMBER) {
            return true;
        }
    }
    return false;
}

/* When another value of it takes effect. */
static const char *config_change_of(const struct setting *setting)
{
    return setting_is_live(setting)         ? CONFIG_RELOAD
           : setting->kind == KIND_FOUNDING ? CONFIG_LIMITS_SET
                                            : CONFIG_RESTART;
}

bool config_describe(const struct config *config, size_t index,
                     struct config_value *ret_value)
{
    if (index >= SETTING_COUNT) {
        return false;
    }
    const struct setting *setting = &settings[index];
    snprintf(ret_value->name, sizeof ret_value->name, "%s.%s", setting->section,
             setting->key);
    ret_value->source = source_names[config->source[index]];
    ret_value->changes = config_change_of(setting);
    /* The last byte stays zero, so longer values are cut. */
    memset(ret_value->value, 0, sizeof ret_value->value);
    FILE *out = fmemopen(ret_value->value, sizeof ret_value->value - 1, "w");
    CHECK(out != NULL);
    if (setting->kind == KIND_MEMBER) {
        print_members(config, out);
    } else {
        print_used(config, index, out);
    }
    fclose(out);
    return true;
}

void config_adopt(struct config *config, size_t index,
                  const struct config *from)
{
    const struct setting *setting = &settings[index];
    void *to = config_field(config, setting);
    const void *at = config_field(from, setting);
    CHECK(index < SETTING_COUNT && setting_is_live(setting) &&
          setting->kind != KIND_MEMBER);
    if (setting->kind == KIND_TEXT) {
        const char *text = *(char *const *)at;
        free(*(char **)to);
        *(char **)to = text == NULL ? NULL : memory_text(text);
    } else if (setting->kind >= KIND_FINALIZE) {
        *(bool *)to = *(const bool *)at;
    } else if (setting->kind >= KIND_LEVEL) {
        *(unsigned *)to = *(const unsigned *)at;
    } else if (setting->kind == KIND_U32) {
        *(uint32_t *)to = *(const uint32_t *)at;
    } else {
        *(uint64_t *)to = *(const uint64_t *)at;
    }
    config->source[index] = from->source[index];
    config->line[index] = from->line[index];
}

/* Sets it in a copy of the settings, which shares the texts with them; this one
 * becomes the copy's own. */
static int set_trial(struct config *trial, const struct setting *setting,
                     const struct config_place *place, const char *value,
                     char why[HASP_WHY_SIZE])
{
    if (setting->kind == KIND_TEXT) {
        *(char **)config_field(trial, setting) = NULL;
        return set_text(trial, setting, place, value, why);
    }
    return setting->kind >= KIND_LEVEL
               ? set_choice(trial, setting, place, value, why)
               : set_number(trial, setting, place, value, why);
}

int config_set_running(struct config *config, const char *name,
                       const char *value, char why[HASP_WHY_SIZE])
{
    struct config_place place = {CONFIG_COMMAND, name, 0};
    struct config trial = {.options = config->options};
    const char *dot = strchr(name, '.');
    char section[64];
    size_t index = SETTING_COUNT;
    if (dot != NULL && (size_t)(dot - name) < sizeof section) {
        memcpy(section, name, (size_t)(dot - name));
        section[dot - name] = '\0';
        index = find_setting(section, dot + 1);
    }
    if (index == SETTING_COUNT) {
        snprintf(why, HASP_WHY_SIZE,
                 "unknown setting '%.64s'; NODE.SETTINGS lists all", name);
        return HASP_EINVALID;
    }
    const struct setting *setting = &settings[index];
    if (!setting_is_live(setting)) {
        snprintf(why, HASP_WHY_SIZE,
                 "%.64s cannot change while the node runs: %s", name,
                 setting->kind == KIND_FOUNDING
                     ? "use LIMITS.SET (hasp limits set), which changes it on "
                       "all nodes"
                     : "edit haspd.conf and restart the node");
        return HASP_EINVALID;
    }
    int rv = set_trial(&trial, setting, &place, value, why);
    trial.source[index] = CONFIG_COMMAND;
    if (rv == 0 && hasp_node_options_check(&trial.options, why) != 0) {
        rv = HASP_EINVALID;
    }
    if (rv == 0) {
        config_adopt(config, index, &trial);
    }
    if (setting->kind == KIND_TEXT) {
        free(*(char **)config_field(&trial, setting));
    }
    return rv;
}

/* --- The manual ----------------------------------------------------------- */

/* Writes a number in its shortest form: 64M. */
static void print_short(uint64_t number, bool is_size, FILE *out)
{
    int unit = 0;
    while (is_size && number > 0 && number % KIB == 0 && unit < 3) {
        number /= KIB;
        unit++;
    }
    fprintf(out, "%" PRIu64 "%.1s", number, &"\0KMG"[unit]);
}

static void describe_range(const struct setting *setting, bool is_size,
                           FILE *out)
{
    if (setting->kind == KIND_TIME) {
        fprintf(out, TIME_RANGE, setting->min / MS_PER_S,
                setting->max / MS_PER_DAY);
    } else if (setting->kind >= KIND_LEVEL) {
        fputs(choices[setting->kind].text, out);
    } else if (setting->kind != KIND_TEXT && setting->kind != KIND_MEMBER) {
        print_short(setting->min, is_size, out);
        fputs(" to ", out);
        print_short(setting->max, is_size, out);
    }
}

bool config_key_describe(size_t index, struct config_key *ret_key)
{
    if (index >= SETTING_COUNT) {
        return false;
    }
    const struct setting *setting = &settings[index];
    bool is_size = setting->kind == KIND_SIZE || setting->kind == KIND_FOUNDING;
    *ret_key = (struct config_key){.section = setting->section,
                                   .key = setting->key,
                                   .changes = config_change_of(setting)};
    /* The last byte stays zero, so longer texts are truncated. */
    FILE *range = fmemopen(ret_key->range, sizeof ret_key->range - 1, "w");
    FILE *standard = fmemopen(ret_key->standard, sizeof ret_key->standard - 1,
                              "w");
    CHECK(range != NULL && standard != NULL);
    struct config config;
    config_init(&config);
    describe_range(setting, is_size, range);
    if (setting->offset == AT(id) || setting->offset == AT(directory)) {
        ret_key->is_required = setting->kind != KIND_MEMBER;
    } else if (is_size) {
        print_short(*(uint64_t *)config_field(&config, setting), true,
                    standard);
    } else if (setting->kind != KIND_MEMBER) {
        print_value(setting, config_field(&config, setting), standard);
    }
    fclose(standard);
    fclose(range);
    config_done(&config);
    return true;
}
