/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/setup/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cmd/hasp/tool.h"

#define MARK "#### "
#define FILE_SIZE_MAX (256u << 10)

const char *const part_names[PART_COUNT] = {"haspd.conf", "ca.crt", "node.crt",
                                            "node.key"};

void bundle_done(struct bundle *bundle)
{
    struct buffer *key = &bundle->part[PART_KEY];
    if (key->data != NULL) {
        explicit_bzero(key->data, key->size);
    }
    for (size_t i = 0; i < PART_COUNT; i++) {
        buffer_done(&bundle->part[i]);
    }
}

/* --- Files ---------------------------------------------------------------- */

static int bundle_read_all(int fd, const char *path, struct buffer *out)
{
    ssize_t size;
    do {
        size = read(fd, buffer_reserve(out, 4096), 4096);
        out->size += size > 0 ? (size_t)size : 0;
    } while (size > 0 && out->size <= FILE_SIZE_MAX);
    if (size < 0) {
        return tool_fail(EX_NOINPUT, "cannot read '%s': %s", path,
                         strerror(errno));
    }
    return out->size <= FILE_SIZE_MAX
               ? 0
               : tool_fail(EX_DATAERR, "'%s' is larger than %u bytes", path,
                           FILE_SIZE_MAX);
}

int file_read(const char *path, struct buffer *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return tool_fail(EX_NOINPUT, "cannot read '%s': %s", path,
                         strerror(errno));
    }
    int rv = bundle_read_all(fd, path, out);
    close(fd);
    return rv;
}

static bool write_all(int fd, struct bytes bytes)
{
    while (bytes.size > 0) {
        ssize_t size = write(fd, bytes.data, bytes.size);
        if (size <= 0) {
            return false;
        }
        bytes = bytes_of(bytes.data + size, bytes.size - (size_t)size);
    }
    return true;
}

int file_write(const char *path, struct bytes bytes, mode_t mode, gid_t group)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%.4000s.new", path);
    /* An interrupted run may have left one. */
    (void)unlink(part);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool is_good = fd >= 0 && fchown(fd, (uid_t)-1, group) == 0 &&
                   fchmod(fd, mode) == 0 && write_all(fd, bytes) &&
                   fsync(fd) == 0;
    int code = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (is_good && rename(part, path) == 0) {
        return 0;
    }
    code = is_good ? errno : code;
    (void)unlink(part);
    return tool_fail(EX_CANTCREAT, "cannot write '%s': %s", path,
                     strerror(code));
}

bool file_is(const char *path, struct bytes bytes)
{
    AUTO(buffer_done) struct buffer there = {0};
    return access(path, R_OK) == 0 && file_read(path, &there) == 0 &&
           bytes_equal(buffer_bytes(&there), bytes);
}

/* --- Bundles -------------------------------------------------------------- */

int bundle_write(const struct bundle *bundle, const char *path)
{
    AUTO(buffer_done) struct buffer out = {0};
    buffer_put_text(&out, "# For 'hasp setup --install' on one machine. It "
                          "contains the node's key:\n"
                          "# remove it after the installation.\n");
    for (size_t i = 0; i < PART_COUNT; i++) {
        buffer_printf(&out, MARK "%s\n", part_names[i]);
        buffer_put_bytes(&out, buffer_bytes(&bundle->part[i]));
    }
    int rv = file_write(path, buffer_bytes(&out), 0600, (gid_t)-1);
    explicit_bzero(out.data, out.size);
    return rv;
}

/* The part that this line begins; PART_COUNT: none. */
static size_t part_of(struct bytes line)
{
    for (size_t i = 0; i < PART_COUNT; i++) {
        char mark[32];
        snprintf(mark, sizeof mark, MARK "%s", part_names[i]);
        if (bytes_equal(line, bytes_of_text(mark))) {
            return i;
        }
    }
    return PART_COUNT;
}

static int parse(struct bytes rest, const char *path, struct bundle *bundle)
{
    struct buffer *part = NULL;
    while (rest.size > 0) {
        struct bytes line = bytes_cut(&rest, '\n');
        size_t i = part_of(line);
        if (i < PART_COUNT) {
            part = &bundle->part[i];
            buffer_clear(part);
        } else if (part != NULL) {
            buffer_put_bytes(part, line);
            buffer_put_u8(part, '\n');
        }
    }
    for (size_t i = 0; i < PART_COUNT; i++) {
        if (bundle->part[i].size == 0) {
            return tool_fail(EX_DATAERR,
                             "'%s' is not a complete file of 'hasp setup': %s "
                             "is missing; copy it again",
                             path, part_names[i]);
        }
    }
    return 0;
}

int bundle_read(const char *path, struct bundle *ret_bundle)
{
    AUTO(buffer_done) struct buffer text = {0};
    AUTO(bundle_done) struct bundle bundle = {0};
    int rv = strcmp(path, "-") == 0
                 ? bundle_read_all(STDIN_FILENO, "standard input", &text)
                 : file_read(path, &text);
    rv = rv ?: parse(buffer_bytes(&text), path, &bundle);
    if (text.data != NULL) {
        explicit_bzero(text.data, text.size);
    }
    if (rv == 0) {
        *ret_bundle = bundle;
        bundle = (struct bundle){0};
    }
    return rv;
}
