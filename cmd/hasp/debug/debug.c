/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/debug/debug.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/sha.h"
#include "cmd/hasp/setup/node.h"
#include "cmd/hasp/setup/program.h"

void bundle_add(struct debug_bundle *bundle, const char *name,
                struct bytes content)
{
    char path[PATH_MAX], hash[2 * SHA256_SIZE + 1] = "";
    uint8_t digest[SHA256_SIZE];
    snprintf(path, sizeof path, "%s/%s", bundle->folder, name);
    FILE *file = fopen(path, "wxe");
    if (file == NULL) {
        tool_fail(0, "cannot write '%s': %s", path, strerror(errno));
        return;
    }
    bool is_written = fwrite(content.data, 1, content.size, file) ==
                      content.size;
    is_written &= fclose(file) == 0;
    if (!is_written) {
        tool_fail(0, "cannot write '%s': %s", path, strerror(errno));
    }
    if (sha256(content, digest) == 0) {
        hex_put(hash, bytes_of(digest, sizeof digest));
    }
    json_object_set_new(bundle->manifest, name,
                        json_pack("{s:I, s:s}", "size",
                                  (json_int_t)content.size, "sha256", hash));
}

void bundle_add_json(struct debug_bundle *bundle, const char *name,
                     json_t *value, bool has_names)
{
    if (has_names && bundle->redacts) {
        redact_json(bundle, value);
    }
    char *text = json_dumps(value, JSON_INDENT(1) | JSON_ENCODE_ANY);
    bundle_add(bundle, name, bytes_of_text(text != NULL ? text : "null"));
    free(text);
}

void bundle_add_log(struct debug_bundle *bundle, const char *name,
                    struct bytes lines)
{
    AUTO(buffer_done) struct buffer redacted = {0};
    if (!bundle->redacts) {
        bundle_add(bundle, name, lines);
        return;
    }
    redact_lines(bundle, lines, &redacted);
    bundle_add(bundle, name, buffer_bytes(&redacted));
}

void bundle_add_metrics(struct debug_bundle *bundle, const char *name,
                        struct bytes page)
{
    AUTO(buffer_done) struct buffer redacted = {0};
    if (bundle->redacts) {
        redact_after(bundle, page,
                     (const char *const[]){"user=", "class=", NULL}, &redacted);
        page = buffer_bytes(&redacted);
    }
    bundle_add(bundle, name, page);
}

void bundle_add_config(struct debug_bundle *bundle, const char *name,
                       struct bytes printed)
{
    AUTO(buffer_done) struct buffer redacted = {0};
    if (bundle->redacts) {
        redact_lines_of(bundle, printed, "class = ", &redacted);
        printed = buffer_bytes(&redacted);
    }
    bundle_add(bundle, name, printed);
}

/* The names and sums of the files, and what made them. */
static void bundle_finish(struct debug_bundle *bundle)
{
    json_auto_t *files = bundle->manifest;
    bundle->manifest = json_object();
    json_auto_t *all = json_pack("{s:s, s:I, s:b, s:O}", "hasp", HASP_VERSION,
                                 "time", (json_int_t)time(NULL), "redacted",
                                 bundle->redacts, "files", files);
    bundle_add_json(bundle, "manifest.json", all, false);
    json_decref(bundle->manifest);
}

static void bundle_remove(const struct debug_bundle *bundle)
{
    DIR *folder = opendir(bundle->folder);
    if (folder != NULL) {
        for (const struct dirent *entry = readdir(folder); entry != NULL;
             entry = readdir(folder)) {
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
        }
        closedir(folder);
    }
    (void)rmdir(bundle->folder);
}

/* Makes the archive; nobody else may read it. */
static int bundle_pack(const struct debug_bundle *bundle, const char *path)
{
    AUTO(buffer_done) struct buffer said = {0};
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return tool_fail(EX_CANTCREAT, "cannot create '%s': %s", path,
                         strerror(errno));
    }
    close(fd);
    int status = program_run(WORDS("tar", "-czf", path, "-C", bundle->folder,
                                   "--transform", "s,^\\.,hasp-debug,", "."),
                             0, 0, &said);
    if (status != 0) {
        unlink(path);
        return tool_fail(EX_OSERR, "tar failed (%d): %s", status,
                         said.size > 0 ? (const char *)said.data : "");
    }
    return 0;
}

int run_debug(struct tool *tool, char **argv)
{
    char *config = NULL, *log_path = NULL;
    bool is_offline = false;
    struct debug_bundle bundle = {.tool = tool,
                                  .folder = "/tmp/hasp-debug-XXXXXX"};
    const struct option_row rows[] = {
        {"config", OPTION_TEXT, .value = &config},
        {"log", OPTION_TEXT, .value = &log_path},
        {"offline", OPTION_FLAG, .value = &is_offline},
        {"redact", OPTION_FLAG, .value = &bundle.redacts},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 1, 1);
    if (exit_code != 0) {
        return exit_code;
    }
    if (access(argv[1], F_OK) == 0) {
        return tool_fail(EX_CANTCREAT, "'%s' exists", argv[1]);
    }
    if (mkdtemp(bundle.folder) == NULL) {
        return tool_fail(EX_CANTCREAT, "cannot create a folder in /tmp: %s",
                         strerror(errno));
    }
    CHECK(getrandom(bundle.salt, sizeof bundle.salt, 0) ==
          (ssize_t)sizeof bundle.salt);
    bundle.manifest = json_object();
    if (!is_offline) {
        gather_nodes(&bundle);
    }
    if (config != NULL || is_offline || access(NODE_CONFIG, R_OK) == 0) {
        gather_machine(&bundle, config != NULL ? config : NODE_CONFIG,
                       log_path);
    }
    bundle_finish(&bundle);
    exit_code = bundle_pack(&bundle, argv[1]);
    bundle_remove(&bundle);
    if (exit_code == 0) {
        tool_say(tool, "'%s' is complete; look through it before you send it%s",
                 argv[1],
                 bundle.redacts
                     ? ""
                     : ": it has the names of locks, clients and users "
                       "(--redact hashes them)");
    }
    return exit_code;
}
