/* SPDX-License-Identifier: MIT */

/* The paused client, after Martin Kleppmann, "How to do distributed locking"
 * (2016): why the lock alone does not protect storage, and what does.
 *
 *     paused nocheck       loses an update, exits 1
 *     paused check         loses none, exits 0
 *
 * Two clients each add 1 to a number in a file, under a lock. The first one
 * reads, makes sure that it holds the lock, and is stopped: a long garbage
 * collection, a suspended machine. Its lease expires; the second one gets
 * the lock, reads, adds, writes. Then the first one continues, unaware of that,
 * and writes its old result.
 *
 * With 'check' the storage compares tokens (hasp_fence_enter()): the first
 * client's is older than the newest one, so it is refused and starts again.
 */

#include <fcntl.h>
#include <hasp/hasp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCK "examples/paused"

/* --- The storage: a file with a number, and perhaps a fence --------------- */

static char folder[] = "/tmp/hasp-paused-XXXXXX";
static char value_path[64], fence_path[64];
static bool is_checking;

static int storage_read(void)
{
    FILE *file = fopen(value_path, "r");
    int value = 0;
    if (file != NULL) {
        if (fscanf(file, "%d", &value) != 1) {
            value = 0;
        }
        fclose(file);
    }
    return value;
}

static void write_value(int value)
{
    FILE *file = fopen(value_path, "w");
    if (file == NULL || fprintf(file, "%d", value) < 0 || fclose(file) != 0) {
        abort();
    }
}

/* 0, or HASP_ESTALE: the holder of this token has lost the lock. */
static int storage_write(uint64_t token, int value)
{
    struct hasp_fence *fence;
    if (!is_checking) {
        write_value(value);
        return 0;
    }
    int status = hasp_fence_open(fence_path, &fence);
    if (status != 0) {
        return status;
    }
    status = hasp_fence_enter(fence, token);
    if (status == 0) {
        write_value(value);
        hasp_fence_leave(fence);
    }
    hasp_fence_close(fence);
    return status;
}

/* --- The clients ---------------------------------------------------------- */

/* Adds 1 under the lock; with 'is_paused' stops itself before the write. */
static int add_one(const char *who, bool is_paused)
{
    struct hasp_options options;
    struct hasp_session *session;
    struct hasp_hold *hold;
    hasp_options_init(&options);
    options.name = who;
    options.ttl_ms = 1000;
    int status = hasp_open(&options, &session);
    if (status == 0) {
        status = hasp_acquire(session, LOCK, NULL, &hold);
    }
    if (status != 0) {
        fprintf(stderr, "%s: %s\n", who, hasp_why());
        exit(2);
    }
    uint64_t token = hasp_token(hold);
    int value = storage_read();
    printf("%s: token %" PRIu64 ", read %d\n", who, token, value);
    fflush(stdout);
    status = hasp_guard(hold, 1000000);
    if (status == 0) {
        if (is_paused) {
            raise(SIGSTOP); /* After the check, before the write. */
        }
        status = storage_write(token, value + 1);
        printf("%s: write %d with token %" PRIu64 ": %s\n", who, value + 1,
               token, hasp_strerror(status));
        fflush(stdout);
    }
    (void)hasp_release(hold);
    hasp_close(session);
    return status;
}

static int first_client(void)
{
    bool is_paused = true;
    int status;
    do {
        status = add_one("first", is_paused);
        is_paused = false;
    } while (status == HASP_ESTALE);
    return status == 0 ? 0 : 2;
}

int main(int argc, char **argv)
{
    int status;
    is_checking = argc == 2 && strcmp(argv[1], "check") == 0;
    if (argc != 2 || (!is_checking && strcmp(argv[1], "nocheck") != 0) ||
        mkdtemp(folder) == NULL) {
        fprintf(stderr, "usage: paused check|nocheck\n");
        return 2;
    }
    snprintf(value_path, sizeof value_path, "%s/value", folder);
    snprintf(fence_path, sizeof fence_path, "%s/fence", folder);

    pid_t first = fork();
    if (first == 0) {
        _exit(first_client());
    }
    if (waitpid(first, &status, WUNTRACED) != first || !WIFSTOPPED(status)) {
        return 2;
    }
    int second = add_one("second",
                         false); /* Waits until the lease has expired. */
    kill(first, SIGCONT);
    if (waitpid(first, &status, 0) != first || status != 0 || second != 0) {
        return 2;
    }
    int value = storage_read();
    printf("two clients added 1 each, the number is %d: %s\n", value,
           value == 2 ? "nothing is lost" : "an update is lost");
    unlink(value_path);
    unlink(fence_path);
    rmdir(folder);
    return value == 2 ? 0 : 1;
}
