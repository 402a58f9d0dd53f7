/* SPDX-License-Identifier: MIT */

/* hasp snapshot save, inspect, restore.
 *
 * A running node sends the file over the network, part by part (RAFT.BACKUP),
 * and the checksum is computed on the way. haspd does whatever has to read the
 * file or a data directory: the tool knows the protocol and nothing of the disk
 * format. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/minmax.h"
#include "cmd/hasp/nodes.h"
#include "cmd/hasp/setup/program.h"
#include "cmd/hasp/tool.h"

/* Time limit for a node, which may have much to flush before it answers. */
#define TAKE_MS 60000
#define MAGIC "HASPSNAP"
#define MAGIC_SIZE 8
#define TRY_COUNT 3
#define PROGRESS_NS (200 * NS_PER_MS)
/* save_part() returns this if the node no longer keeps the snapshot. */
#define GONE (-1)

static const struct view_field snapshot_fields[] = {
    {"file", "FILE", FIELD_TEXT},         {"index", "INDEX", FIELD_NUMBER},
    {"term", "TERM", FIELD_NUMBER},       {"size", "BYTES", FIELD_NUMBER},
    {"checksum", "CHECKSUM", FIELD_TEXT}, {0},
};

static const struct view_field inspect_fields[] = {
    {"index", "INDEX", FIELD_NUMBER},
    {"term", "TERM", FIELD_NUMBER},
    {"cluster", "CLUSTER", FIELD_TEXT},
    {"members", "MEMBERS", FIELD_COUNT},
    {"sessions", "SESSIONS", FIELD_NUMBER},
    {"locks", "LOCKS", FIELD_NUMBER},
    {"holds", "HOLDS", FIELD_NUMBER},
    {"waits", "WAITS", FIELD_NUMBER},
    {"durable_sessions", "DURABLE SESSIONS", FIELD_NUMBER},
    {"durable_holds", "DURABLE HOLDS", FIELD_NUMBER},
    {"fences", "FENCES", FIELD_NUMBER},
    {"blacklist", "BLACKLIST", FIELD_NUMBER},
    {"longest_ttl_ms", "LONGEST TTL", FIELD_DURATION},
    {"longest_delay_ms", "LONGEST DELAY", FIELD_DURATION},
    {"quarantine_ms", "QUARANTINE", FIELD_DURATION},
    {"users", "USERS", FIELD_NUMBER},
    {"secrets", "SECRETS", FIELD_NUMBER},
    {"token_base", "TOKEN BASE", FIELD_NUMBER},
    {"size", "BYTES", FIELD_NUMBER},
    {"checksum", "CHECKSUM", FIELD_TEXT},
    {0},
};

struct saving {
    struct tool *tool;
    const char *path;
    char part[PATH_MAX];
    int fd;
    struct client *client;
    char peer[300];
    uint64_t index;
    uint64_t term;
    uint64_t size;
    uint64_t offset;
    struct digest *digest;
    uint8_t trailer[DIGEST_SIZE]; /* The digest as it was received. */
    uint64_t shown_ns;            /* When progress was last shown. */
};

/* Chooses the leader if it is one of the endpoints, otherwise the node that
 * has applied most. */
static int choose_node(struct saving *saving)
{
    const struct endpoints *all = &saving->tool->endpoints;
    json_auto_t *nodes = all->count > 1 ? nodes_ask(saving->tool, NODES_NAMED)
                                        : json_array();
    json_t *node, *best = NULL;
    struct endpoint endpoint = all->endpoint[0];
    char why[HASP_WHY_SIZE];
    size_t i;
    json_array_foreach (nodes, i, node) {
        bool leads = nodes_is_leader(node);
        if (value_text(node, "error")[0] == '\0' &&
            (best == NULL || (leads && !nodes_is_leader(best)) ||
             (leads == nodes_is_leader(best) &&
              value_number(node, "applied") > value_number(best, "applied")))) {
            best = node;
        }
    }
    const char *text = value_text(best, "endpoint");
    bool is_found = all->count == 1 ||
                    (best != NULL &&
                     endpoint_parse(text, strlen(text), &endpoint, why) == 0);
    if (!is_found) {
        return tool_fail(EX_UNAVAILABLE,
                         "cannot save: no node answers; name the nodes with -e "
                         "or HASP_ENDPOINTS; to save from a stopped node: hasp "
                         "snapshot save --data DIR FILE");
    }
    struct endpoints one = {.endpoint = &endpoint, .count = 1};
    saving->client = client_new(&one, saving->tool->shown);
    snprintf(saving->peer, sizeof saving->peer, "%s", endpoint.text);
    return 0;
}

static int snapshot_ask(struct saving *saving, const struct query *query,
                        const struct resp_reply **ret_reply)
{
    uint64_t time_ms = u64_max(saving->tool->timeout_ms, TAKE_MS);
    struct client_options options = {.deadline_ns = client_now_ns() +
                                                    time_ms * NS_PER_MS,
                                     .attempt_ms = time_ms,
                                     .is_once = true,
                                     .is_read = true};
    char what[400];
    int error = client_ask(saving->client, query, &options, ret_reply);
    if (error == HASP_EREPLY &&
        strcmp(client_code(saving->client), "GONE") == 0) {
        return GONE;
    }
    snprintf(what, sizeof what, "cannot save from %s", saving->peer);
    return error == 0 ? 0 : tool_client_error(saving->client, error, what);
}

static int save_part(struct saving *saving)
{
    AUTO(query_done) struct query query = {0};
    const struct resp_reply *reply;
    query_begin(&query, "RAFT.PART");
    query_number(&query, saving->index);
    query_number(&query, saving->term);
    query_number(&query, saving->offset);
    int exit_code = snapshot_ask(saving, &query, &reply);
    if (exit_code != 0) {
        return exit_code;
    }
    struct bytes part = reply->value[0].bytes;
    if (reply->value[0].type != RESP_BULK || part.size == 0 ||
        part.size > saving->size - saving->offset) {
        return tool_fail(EX_PROTOCOL,
                         "cannot save from %s: the answer differs from what "
                         "the node announced",
                         saving->peer);
    }
    for (size_t done = 0; done < part.size;) {
        ssize_t count = pwrite(saving->fd, part.data + done, part.size - done,
                               (off_t)(saving->offset + done));
        if (count < 0 && errno != EINTR) {
            return tool_fail(EX_IOERR, "cannot write '%s': %s", saving->part,
                             strerror(errno));
        }
        done += count > 0 ? (size_t)count : 0;
    }
    uint64_t body_left = saving->offset < saving->size - DIGEST_SIZE
                             ? saving->size - DIGEST_SIZE - saving->offset
                             : 0;
    size_t body = part.size < body_left ? part.size : (size_t)body_left;
    digest_add(saving->digest, bytes_of(part.data, body));
    if (body < part.size) {
        uint64_t at = saving->offset + body - (saving->size - DIGEST_SIZE);
        memcpy(saving->trailer + at, part.data + body, part.size - body);
    }
    saving->offset += part.size;
    return 0;
}

static int check_received(const struct saving *saving)
{
    uint8_t digest[DIGEST_SIZE];
    char magic[MAGIC_SIZE];
    digest_value(saving->digest, digest);
    if (pread(saving->fd, magic, MAGIC_SIZE, 0) != MAGIC_SIZE ||
        memcmp(magic, MAGIC, MAGIC_SIZE) != 0 ||
        memcmp(digest, saving->trailer, DIGEST_SIZE) != 0) {
        return tool_fail(
            EX_DATAERR,
            "the snapshot from %s is damaged: its checksum does not match; "
            "save from another node, and check the disk of this one",
            saving->peer);
    }
    return 0;
}

static int put_in_place(struct saving *saving)
{
    const char *slash = strrchr(saving->path, '/');
    char folder[PATH_MAX], checksum[2 * DIGEST_SIZE + 1];
    snprintf(folder, sizeof folder, "%.*s",
             slash == NULL ? 1 : (int)(slash - saving->path) + 1,
             slash == NULL ? "." : saving->path);
    int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_good = folder_fd >= 0 && fsync(saving->fd) == 0 &&
                   rename(saving->part, saving->path) == 0 &&
                   fsync(folder_fd) == 0;
    int code = errno;
    if (folder_fd >= 0) {
        close(folder_fd);
    }
    if (!is_good) {
        return tool_fail(EX_IOERR, "cannot write '%s': %s", saving->path,
                         strerror(code));
    }
    hex_put(checksum, bytes_of(saving->trailer, DIGEST_SIZE));
    json_auto_t *record = json_pack(
        "{s:s, s:I, s:I, s:I, s:s}", "file", saving->path, "index",
        (json_int_t)saving->index, "term", (json_int_t)saving->term, "size",
        (json_int_t)saving->size, "checksum", checksum);
    output_record(saving->tool->format, snapshot_fields, record);
    return 0;
}

/* Shows progress on a terminal, a few times a second. */
static void snapshot_show_progress(struct saving *saving, bool is_over)
{
    uint64_t now_ns = client_now_ns();
    if (saving->tool->is_quiet || !isatty(STDERR_FILENO) ||
        (!is_over && now_ns < saving->shown_ns + PROGRESS_NS)) {
        return;
    }
    saving->shown_ns = now_ns;
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " KiB%s", saving->offset >> 10,
            saving->size >> 10, is_over ? "\n" : "");
}

/* Saves the snapshot; returns 0, GONE, or an exit code, which it has explained.
 */
static int save_once(struct saving *saving)
{
    AUTO(query_done) struct query query = {0};
    const struct resp_reply *reply;
    int exit_code = choose_node(saving);
    if (exit_code != 0) {
        return exit_code;
    }
    query_begin(&query, "RAFT.BACKUP");
    exit_code = snapshot_ask(saving, &query, &reply);
    if (exit_code != 0) {
        return exit_code == GONE
                   ? tool_fail(EX_UNAVAILABLE, "cannot save from %s: %s",
                               saving->peer, client_why(saving->client))
                   : exit_code;
    }
    json_t *reported = value_of_reply(reply, 0);
    saving->index = value_number(reported, "index");
    saving->term = value_number(reported, "term");
    saving->size = value_number(reported, "size");
    bool has_leader = value_number(reported, "leader") != 0;
    json_decref(reported);
    if (!has_leader) {
        tool_say(
            saving->tool,
            "%s knows no leader: this is its own state, up to entry %" PRIu64
            ", which might lack the latest changes; if other nodes run, save "
            "from them",
            saving->peer, saving->index);
    }
    if (saving->size <= MAGIC_SIZE + DIGEST_SIZE ||
        ftruncate(saving->fd, 0) != 0) {
        return tool_fail(
            EX_PROTOCOL,
            "cannot save from %s: it announces a snapshot of %" PRIu64 " bytes",
            saving->peer, saving->size);
    }
    while (exit_code == 0 && saving->offset < saving->size) {
        exit_code = save_part(saving);
        snapshot_show_progress(saving, exit_code != 0 ||
                                           saving->offset == saving->size);
    }
    exit_code = exit_code ?: check_received(saving);
    return exit_code ?: put_in_place(saving);
}

static int save_over_network(struct tool *tool, const char *path)
{
    int exit_code = GONE;
    struct saving saving = {.tool = tool, .path = path};
    if (snprintf(saving.part, sizeof saving.part, "%s.part", path) >=
        (int)sizeof saving.part) {
        return tool_fail(EX_USAGE, "the file's name is too long");
    }
    saving.fd = open(saving.part, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (saving.fd < 0) {
        return tool_fail(EX_CANTCREAT, "cannot create '%s': %s", saving.part,
                         strerror(errno));
    }
    if (flock(saving.fd, LOCK_EX | LOCK_NB) != 0) {
        close(saving.fd);
        return tool_fail(EX_CANTCREAT, "another process is writing '%s'",
                         saving.part);
    }
    for (int i = 0; i < TRY_COUNT && exit_code == GONE; i++) {
        saving.offset = 0;
        saving.digest = digest_new();
        exit_code = save_once(&saving);
        digest_free(saving.digest);
        client_free(saving.client);
        saving.client = NULL;
    }
    if (exit_code == GONE) {
        exit_code = tool_fail(
            EX_UNAVAILABLE,
            "cannot save: the node dropped each snapshot before it could be "
            "read; try again, or from another node (-e)");
    }
    close(saving.fd);
    if (exit_code != 0) {
        unlink(saving.part);
    }
    return exit_code;
}

static int check_new(const char *path, bool may_replace)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        /* Anything else that is wrong shows when the folder is made. */
        return 0;
    }
    if (!S_ISREG(status.st_mode)) {
        return tool_fail(EX_CANTCREAT, "'%s' exists and is not a file", path);
    }
    return may_replace ? 0
                       : tool_fail(EX_CANTCREAT,
                                   "'%s' exists; --force replaces it", path);
}

/* Replaces this process by haspd, whose output and exit code are for the user.
 */
static int run_haspd(const char *const *words)
{
    char binary[PATH_MAX];
    int exit_code = tool_find_haspd(binary);
    if (exit_code != 0) {
        return exit_code;
    }
    execv(binary, (char *const *)words);
    return tool_fail(EX_OSERR, "cannot run '%s': %s", binary, strerror(errno));
}

int run_snapshot_save(struct tool *tool, char **argv)
{
    char *folder = NULL;
    bool may_replace = false;
    const struct option_row rows[] = {
        {"data", OPTION_TEXT, .value = &folder},
        {"force", OPTION_FLAG, .value = &may_replace},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 1, 1);
    exit_code = exit_code ?: check_new(argv[1], may_replace);
    if (exit_code != 0) {
        return exit_code;
    }
    if (folder == NULL) {
        return save_over_network(tool, argv[1]);
    }
    return run_haspd(WORDS("haspd", "--dir", folder, "--export", argv[1],
                           may_replace ? "--force" : NULL));
}

int run_snapshot_inspect(struct tool *tool, char **argv)
{
    char binary[PATH_MAX];
    int fds[2], status;
    int exit_code = tool_find_haspd(binary);
    if (exit_code != 0) {
        return exit_code;
    }
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return tool_fail(EX_OSERR, "cannot create a pipe: %s", strerror(errno));
    }
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        execl(binary, "haspd", "--inspect", argv[1], (char *)NULL);
        _exit(EX_UNAVAILABLE);
    }
    close(fds[1]);
    json_auto_t *record = pid < 0 ? NULL : json_loadfd(fds[0], 0, NULL);
    close(fds[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return tool_fail(EX_OSERR, "cannot run '%s': %s", binary,
                         strerror(errno));
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || record == NULL) {
        return WIFEXITED(status) && WEXITSTATUS(status) != 0
                   ? WEXITSTATUS(status) /* haspd has explained this code. */
                   : tool_fail(EX_SOFTWARE, "'%s' failed", binary);
    }
    output_record(tool->format, inspect_fields, record);
    return 0;
}

/* Checks one file, and adds its row; true if it is whole. */
static bool verify_file(const char *haspd, const char *path, json_t *rows)
{
    AUTO(buffer_done) struct buffer said = {0};
    bool is_good = program_run(WORDS(haspd, "--inspect", path), 0, 0, &said) ==
                   0;
    json_auto_t *head = is_good ? json_loadb((const char *)said.data, said.size,
                                             0, NULL)
                                : NULL;
    json_array_append_new(
        rows, json_pack("{s:o, s:s, s:I, s:o}", "file",
                        value_of_bytes(bytes_of_text(path)), "state",
                        is_good ? "ok" : "damaged", "index",
                        (json_int_t)value_number(head, "index"), "text",
                        is_good ? json_string("")
                                : value_of_bytes(buffer_bytes(&said))));
    return is_good;
}

int run_snapshot_verify(struct tool *tool, char **argv)
{
    static const struct view_field fields[] = {{"file", "FILE", FIELD_TEXT},
                                               {"state", "STATE", FIELD_TEXT},
                                               {"index", "INDEX", FIELD_ID},
                                               {"text", "", FIELD_TEXT},
                                               {0}};
    char haspd[PATH_MAX];
    size_t damaged = 0;
    int exit_code = options_read(tool, argv, (const struct option_row[]){{0}},
                                 1, SIZE_MAX);
    exit_code = exit_code ?: tool_find_haspd(haspd);
    if (exit_code != 0) {
        return exit_code;
    }
    json_auto_t *rows = json_array();
    for (size_t i = 1; argv[i] != NULL; i++) {
        damaged += !verify_file(haspd, argv[i], rows);
    }
    output_rows(tool->format, fields, rows);
    return damaged == 0 ? 0
                        : tool_fail(EX_DATAERR, "%zu of %zu files are damaged",
                                    damaged, json_array_size(rows));
}

int run_snapshot_restore(struct tool *tool, char **argv)
{
    char *config = NULL, *folder = NULL, *address = NULL, *client = NULL;
    char *users = NULL;
    uint64_t id = 0, quarantine_ms = UINT64_MAX;
    const struct option_row rows[] = {
        {"config", OPTION_TEXT, .value = &config},
        {"dir", OPTION_TEXT, .value = &folder},
        {"id", OPTION_NUMBER, .value = &id, .min = 1},
        {"address", OPTION_TEXT, .value = &address},
        {"client", OPTION_TEXT, .value = &client},
        {"quarantine", OPTION_TIME, .value = &quarantine_ms, .max = UINT32_MAX},
        {"users", OPTION_TEXT, .value = &users},
        {0},
    };
    char member[700], for_long[64], of_users[32];
    const char *more[2] = {NULL};
    size_t more_count = 0;
    int exit_code = options_read(tool, argv, rows, 1, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    int given = (folder != NULL) + (id != 0) + (address != NULL) +
                (client != NULL);
    if (given != (config != NULL ? 0 : 4)) {
        return tool_usage(
            tool,
            "give either --config, or --dir, --id, --address and --client");
    }
    if (quarantine_ms != UINT64_MAX) {
        snprintf(for_long, sizeof for_long, "--quarantine=%" PRIu64 "ms",
                 quarantine_ms);
        more[more_count++] = for_long;
    }
    if (users != NULL) {
        snprintf(of_users, sizeof of_users, "--users=%.20s", users);
        more[more_count++] = of_users;
    }
    if (config != NULL) {
        return run_haspd(WORDS("haspd", "--restore", argv[1], "--config",
                               config, more[0], more[1]));
    }
    snprintf(member, sizeof member, "%" PRIu64 " %.300s %.300s", id, address,
             client);
    /* Nothing is listening now; haspd checks again when it starts. */
    return run_haspd(WORDS("haspd", "--restore", argv[1], "--id", NUMBER(id),
                           "--dir", folder, "--member", member, "--insecure",
                           more[0], more[1]));
}
