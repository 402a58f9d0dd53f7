/* SPDX-License-Identifier: MIT */

/* The pieces of a bundle. A piece that cannot be read becomes a line that says
 * why. */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/address.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "cmd/hasp/debug/debug.h"
#include "cmd/hasp/nodes.h"
#include "cmd/hasp/setup/node.h"
#include "cmd/hasp/setup/program.h"

/* The end of a log file that goes into the bundle. */
#define LOG_SIZE_MAX (1u << 20)
#define METRICS_SIZE_MAX (4u << 20)
#define METRICS_COUNT 3
#define ENTRY_COUNT_MAX 4096
/* Limit for an answer; once a node has not answered in time, the shorter. */
#define PATIENT_MS 2000
#define IMPATIENT_MS 300

/* --- Metrics --------------------------------------------------------------
 */

/* Connects to "host:port"; -1: it is not there. */
static int dial_http(const char *address)
{
    char host[256], service[8];
    uint16_t port;
    struct timeval patience = {.tv_sec = 2};
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    if (address_split(address, host, sizeof host, &port) != 0) {
        return -1;
    }
    /* An address on which it listens, not one to go to. */
    const char *to = host[0] == '*' || strcmp(host, "0.0.0.0") == 0
                         ? "127.0.0.1"
                         : host;
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(to, service, &hints, &list) != 0) {
        return -1;
    }
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
                         sizeof patience);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
                         sizeof patience);
        if (connect(fd, list->ai_addr, list->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

/* The node's metrics over plain HTTP. */
static void fetch_metrics(const char *address, struct buffer *out)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\n"
                                  "Host: localhost\r\n\r\n";
    char piece[4096];
    int fd = dial_http(address);
    if (fd < 0) {
        buffer_printf(out, "cannot read the metrics of %s: %s\n", address,
                      strerror(errno));
        return;
    }
    if (write(fd, request, sizeof request - 1) > 0) {
        ssize_t size;
        while (out->size < METRICS_SIZE_MAX &&
               (size = read(fd, piece, sizeof piece)) > 0) {
            buffer_put(out, piece, (size_t)size);
        }
    }
    close(fd);
}

/* --- Nodes ---------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *words[4];
    bool has_names;
} node_requests[] = {
    {"info.json", {"INFO"}, false},
    {"limits.json", {"LIMITS.LIST"}, false},
    {"audit.json", {"AUDIT.LIST", "COUNT", "300"}, true},
    {"denied.json", {"AUDIT.DENIED"}, true},
    {"slow.json", {"NODE.SLOW", "COUNT", "256"}, true},
    {"top.json", {"LOCK.TOP", "COUNT", "100"}, true},
    {"graph.json", {"LOCK.GRAPH"}, true},
    {"locks.json", {"LOCK.LIST", "COUNT", "100"}, true},
    {"sessions.json", {"SESSION.LIST", "COUNT", "100"}, true},
    {"blacklist.json", {"BLACKLIST.LIST", "COUNT", "100"}, true},
};

/* The value of a setting in the answer of NODE.SETTINGS; "" if it has none. */
static const char *setting_of_node(json_t *settings, const char *name)
{
    json_t *setting;
    size_t i;
    json_array_foreach (settings, i, setting) {
        if (strcmp(value_text(setting, "name"), name) == 0) {
            return value_text(setting, "value");
        }
    }
    return "";
}

/* The metrics of a node, once, at the host of its endpoint and the port of its
 * listen.http. */
static void gather_node_metrics(struct debug_bundle *bundle, json_t *status,
                                size_t number)
{
    AUTO(buffer_done) struct buffer page = {0};
    char name[64], host[256], at[256], address[300];
    uint16_t client_port, port;
    json_auto_t *settings = NULL;
    const char *endpoint = value_text(status, "endpoint");
    if (tool_ask(bundle->tool, WORDS("NODE.SETTINGS"), NULL, &settings) != 0) {
        buffer_printf(&page, "not read: NODE.SETTINGS was not answered\n");
    } else if (address_split(setting_of_node(settings, "listen.http"), at,
                             sizeof at, &port) != 0 ||
               strcmp(setting_of_node(settings, "tls.http"), "off") != 0) {
        buffer_printf(&page, "not read: listen.http is off, or tls.http is "
                             "required\n");
    } else {
        bool is_far = address_split(endpoint, host, sizeof host,
                                    &client_port) == 0;
        bool has_colon = is_far && strchr(host, ':') != NULL;
        snprintf(address, sizeof address, "%s%.200s%s:%u", has_colon ? "[" : "",
                 is_far ? host : "127.0.0.1", has_colon ? "]" : "", port);
        fetch_metrics(address, &page);
    }
    snprintf(name, sizeof name, "node-%zu-metrics.txt", number);
    bundle_add_metrics(bundle, name, buffer_bytes(&page));
}

static void gather_node(struct debug_bundle *bundle, json_t *status,
                        size_t number)
{
    struct tool *tool = bundle->tool;
    char name[64];
    snprintf(name, sizeof name, "node-%zu-status.json", number);
    bundle_add_json(bundle, name, status, false);
    if (value_text(status, "error")[0] != '\0' ||
        tool_use(tool, value_text(status, "endpoint")) != 0) {
        return;
    }
    for (size_t i = 0; i < sizeof node_requests / sizeof node_requests[0];
         i++) {
        json_auto_t *answer = NULL;
        if (tool_ask(tool, node_requests[i].words, NULL, &answer) != 0) {
            /* Without a leader most requests wait in vain. */
            tool->timeout_ms = u64_min(tool->timeout_ms, IMPATIENT_MS);
            answer = json_pack("{s:s}", "error",
                               tool->client != NULL ? client_why(tool->client)
                                                    : "no answer");
        }
        snprintf(name, sizeof name, "node-%zu-%s", number,
                 node_requests[i].name);
        bundle_add_json(bundle, name, answer, node_requests[i].has_names);
    }
    gather_node_metrics(bundle, status, number);
}

void gather_nodes(struct debug_bundle *bundle)
{
    json_t *node;
    size_t i;
    bundle->tool->timeout_ms = u64_min(bundle->tool->timeout_ms, PATIENT_MS);
    json_auto_t *nodes = nodes_sorted(
        nodes_ask(bundle->tool,
                  tool_is_by_door(bundle->tool) ? NODES_NAMED : NODES_MEMBERS),
        "node");
    json_array_foreach (nodes, i, node) {
        uint64_t id = value_number(node, "node");
        /* One that has never answered has no id: 1000 and so on. */
        gather_node(bundle, node, id != 0 ? (size_t)id : 1000 + i);
    }
}

/* --- This machine ----------------------------------------------------------
 */

/* The value of "key = value ;" in what --print-config says; the first one. */
static bool setting_of_config(struct bytes printed, const char *section,
                              const char *key, char *out, size_t size)
{
    char line[PATH_MAX], in_section[64] = "", found[64];
    while (printed.size > 0) {
        struct bytes bytes = bytes_cut(&printed, '\n');
        snprintf(line, sizeof line, "%.*s", (int)bytes.size,
                 (const char *)bytes.data);
        if (sscanf(line, "[%60[a-z]]", found) == 1) {
            snprintf(in_section, sizeof in_section, "%s", found);
        }
        size_t key_size = strlen(key);
        if (strcmp(in_section, section) != 0 ||
            strncmp(line, key, key_size) != 0 ||
            strncmp(line + key_size, " = ", 3) != 0) {
            continue;
        }
        const char *value = line + key_size + 3;
        snprintf(out, size, "%.*s", (int)strcspn(value, " ;"), value);
        return out[0] != '\0';
    }
    return false;
}

/* Names, sizes, modes and times of the files below the data directory. */
static void debug_list_folder(struct buffer *out, const char *path, int depth,
                              uint32_t *count)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        buffer_printf(out, "%s: %s\n", path, strerror(errno));
        return;
    }
    for (const struct dirent *entry = readdir(folder);
         entry != NULL && *count < ENTRY_COUNT_MAX; entry = readdir(folder)) {
        char below[PATH_MAX];
        struct stat status;
        if (entry->d_name[0] == '.' ||
            snprintf(below, sizeof below, "%s/%s", path, entry->d_name) >=
                (int)sizeof below ||
            lstat(below, &status) != 0) {
            continue;
        }
        *count += 1;
        buffer_printf(out, "%06o %u:%u %12lld %lld %s\n",
                      (unsigned)status.st_mode, (unsigned)status.st_uid,
                      (unsigned)status.st_gid, (long long)status.st_size,
                      (long long)status.st_mtime, below);
        if (S_ISDIR(status.st_mode) && depth > 0) {
            debug_list_folder(out, below, depth - 1, count);
        }
    }
    closedir(folder);
}

/* The head of each snapshot, by haspd --inspect. */
static void inspect_snapshots(struct debug_bundle *bundle,
                              const char *directory)
{
    AUTO(buffer_done) struct buffer all = {0};
    char path[PATH_MAX], haspd[PATH_MAX];
    snprintf(path, sizeof path, "%.4000s/snapshot", directory);
    DIR *folder = opendir(path);
    int left = 4;
    if (folder == NULL || tool_find_haspd(haspd) != 0) {
        if (folder != NULL) {
            closedir(folder);
        }
        return;
    }
    for (const struct dirent *entry = readdir(folder);
         entry != NULL && left > 0; entry = readdir(folder)) {
        AUTO(buffer_done) struct buffer said = {0};
        char file[PATH_MAX];
        if (entry->d_name[0] == '.') {
            continue;
        }
        left--;
        snprintf(file, sizeof file, "%.2000s/%.300s", path, entry->d_name);
        (void)program_run(WORDS(haspd, "--inspect", file), 0, 0, &said);
        buffer_printf(&all, "%s: %.*s\n", entry->d_name, (int)said.size,
                      (const char *)said.data);
    }
    closedir(folder);
    bundle_add(bundle, "machine-snapshots.txt", buffer_bytes(&all));
}

/* Three times, a second apart: counters show the load. */
static void gather_metrics(struct debug_bundle *bundle, struct bytes printed)
{
    char address[256], tls[32] = "off", name[40];
    if (!setting_of_config(printed, "listen", "http", address,
                           sizeof address) ||
        strcmp(address, "off") == 0 ||
        (setting_of_config(printed, "tls", "http", tls, sizeof tls) &&
         strcmp(tls, "off") != 0)) {
        static const char text[] = "not read: listen.http is off, or tls.http "
                                   "is required\n";
        bundle_add(bundle, "machine-metrics.txt", bytes_of_text(text));
        return;
    }
    for (int i = 1; i <= METRICS_COUNT; i++) {
        AUTO(buffer_done) struct buffer page = {0};
        fetch_metrics(address, &page);
        snprintf(name, sizeof name, "machine-metrics-%d.txt", i);
        bundle_add_metrics(bundle, name, buffer_bytes(&page));
        if (i < METRICS_COUNT) {
            sleep(1);
        }
    }
}

static void gather_log_file(struct debug_bundle *bundle, const char *path)
{
    AUTO(buffer_done) struct buffer text = {0};
    char piece[4096];
    size_t size;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        buffer_printf(&text, "%s: %s\n", path, strerror(errno));
    } else {
        if (fseek(file, -(long)LOG_SIZE_MAX, SEEK_END) != 0) {
            rewind(file); /* It is shorter. */
        }
        while (text.size < LOG_SIZE_MAX &&
               (size = fread(piece, 1, sizeof piece, file)) > 0) {
            buffer_put(&text, piece, size);
        }
        fclose(file);
    }
    bundle_add_log(bundle, "machine-log.txt", buffer_bytes(&text));
}

void gather_machine(struct debug_bundle *bundle, const char *config,
                    const char *log_path)
{
    AUTO(buffer_done) struct buffer printed = {0};
    AUTO(buffer_done) struct buffer doctor = {0};
    AUTO(buffer_done) struct buffer listing = {0};
    char directory[PATH_MAX];
    uint32_t count = 0;
    (void)node_ask_haspd(config, "--print-config", &printed);
    bundle_add_config(bundle, "machine-config.txt", buffer_bytes(&printed));
    (void)node_ask_haspd(config, "--doctor", &doctor);
    bundle_add(bundle, "machine-doctor.txt", buffer_bytes(&doctor));
    if (setting_of_config(buffer_bytes(&printed), "node", "dir", directory,
                          sizeof directory)) {
        debug_list_folder(&listing, directory, 2, &count);
        bundle_add(bundle, "machine-files.txt", buffer_bytes(&listing));
        inspect_snapshots(bundle, directory);
    }
    gather_metrics(bundle, buffer_bytes(&printed));
    if (log_path != NULL) {
        gather_log_file(bundle, log_path);
    } else {
        AUTO(buffer_done) struct buffer lines = {0};
        (void)program_run(
            WORDS("journalctl", "-u", "haspd", "-n", "300", "-o", "short-iso"),
            0, 0, &lines);
        bundle_add_log(bundle, "machine-log.txt", buffer_bytes(&lines));
    }
}
