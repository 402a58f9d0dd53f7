/* SPDX-License-Identifier: MIT */

#include "client/tls_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/minmax.h"

/* More than any chain of certificates needs. */
#define FILE_SIZE_MAX ((size_t)1 << 20)

static void text_done(struct buffer *text)
{
    if (text->capacity > 0) {
        explicit_bzero(text->data, text->capacity);
    }
    buffer_done(text);
}

void tls_texts_done(struct tls_texts *texts)
{
    text_done(&texts->ca);
    text_done(&texts->certificate);
    text_done(&texts->key);
}

/* The directory that holds ca.crt now; -1. */
static int tls_folder_open_folder(const char *folder)
{
    char data[PATH_MAX];
    struct stat info;
    snprintf(data, sizeof data, "%.3000s/..data", folder);
    int fd = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && fstatat(fd, "ca.crt", &info, 0) == 0) {
        return fd;
    }
    if (fd >= 0) {
        close(fd); /* The certificates are not among what is swapped. */
    }
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int read_all(int fd, struct buffer *text)
{
    struct stat info;
    ssize_t count;
    if (fstat(fd, &info) != 0) {
        return -1;
    }
    /* Allocates everything at once, so that no copy of a key remains in freed
     * memory. */
    size_t room = u64_min((uint64_t)info.st_size, FILE_SIZE_MAX) + 4096;
    (void)buffer_reserve(text, room);
    do {
        count = read(fd, text->data + text->size, room - text->size);
        text->size += count > 0 ? (size_t)count : 0;
    } while ((count > 0 && text->size < room) || (count < 0 && errno == EINTR));
    return count < 0 ? -1 : 0;
}

/* Reads a file of the directory; a missing one is empty. */
static int read_file(int directory, const char *folder, const char *name,
                     bool is_key, struct buffer *text, char why[HASP_WHY_SIZE])
{
    struct stat info;
    /* All files come from one open directory, so that replacing the folder
     * meanwhile does not mix two certificates. O_NONBLOCK: a FIFO of that name
     * must not block the program. */
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        return 0;
    }
    int rv = fd < 0 || fstat(fd, &info) != 0 || read_all(fd, text) != 0
                 ? HASP_ECERT
                 : 0;
    if (rv != 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot open the %s '%.300s/%s': %s%s",
                 is_key ? "key" : "file", folder, name, strerror(errno),
                 errno == EACCES
                     ? ": chown it to the user that runs this program"
                     : "");
    } else if (is_key) {
        char path[512];
        snprintf(path, sizeof path, "%.300s/%s", folder, name);
        rv = tls_check_key_mode(path, info.st_mode, why);
    }
    if (fd >= 0) {
        close(fd);
    }
    return rv;
}

int tls_folder_read(const char *folder, struct tls_texts *ret_texts,
                    char why[HASP_WHY_SIZE])
{
    *ret_texts = (struct tls_texts){.ca = {0}};
    /* One directory for all files: a mount that is replaced in between must not
     * mix an old certificate with a new key. */
    int directory = tls_folder_open_folder(folder);
    if (directory < 0) {
        snprintf(why, HASP_WHY_SIZE, "cannot open the CA '%.300s/ca.crt': %s",
                 folder, strerror(errno));
        return HASP_ECERT;
    }
    int rv = read_file(directory, folder, "ca.crt", false, &ret_texts->ca, why);
    rv = rv
             ?: read_file(directory, folder, "client.crt", false,
                          &ret_texts->certificate, why);
    rv = rv
             ?: read_file(directory, folder, "client.key", true,
                          &ret_texts->key, why);
    close(directory);
    if (rv == 0 && ret_texts->ca.size == 0) {
        snprintf(why, HASP_WHY_SIZE,
                 "cannot open the CA '%.300s/ca.crt': it is empty, or there is "
                 "none",
                 folder);
        rv = HASP_ECERT;
    }
    return rv;
}

int tls_folder_load(const char *folder, const struct tls_texts *texts,
                    const char *cluster, struct tls_context **ret_context,
                    char why[HASP_WHY_SIZE])
{
    char ca[PATH_MAX], certificate[PATH_MAX], key[PATH_MAX];
    struct tls_files files = {.ca = ca, .ca_text = buffer_bytes(&texts->ca)};
    snprintf(ca, sizeof ca, "%.3000s/ca.crt", folder);
    snprintf(certificate, sizeof certificate, "%.3000s/client.crt", folder);
    snprintf(key, sizeof key, "%.3000s/client.key", folder);
    if (texts->certificate.size > 0 || texts->key.size > 0) {
        files.certificate = certificate;
        files.certificate_text = buffer_bytes(&texts->certificate);
        files.key = key;
        files.key_text = buffer_bytes(&texts->key);
    }
    return tls_context_load(&files, TLS_AS_CLIENT, cluster, 0, ret_context,
                            why);
}
