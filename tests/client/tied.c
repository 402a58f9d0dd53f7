/* SPDX-License-Identifier: MIT */

/* A program whose session is tied to its process, for tests that kill it in
 * every way. It obeys lines on stdin and answers each with one.
 *
 *     tied ENDPOINTS AGENT none|try|must LOCK [DELAY_MS]
 *
 * TIED_MB is its resident memory, TIED_TTL_MS and TIED_LINGER_MS are options of
 * its session. At first: "held SESSION TOKEN is_tied", or
 * "failed WHY". */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <hasp/hasp.h>

static struct hasp_session *session;

static uint64_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static void answer(const char *text)
{
    printf("%s\n", text);
    fflush(stdout);
}

static void obey(const char *line)
{
    char credentials[HASP_CREDENTIALS_SIZE];
    struct hasp_event event;
    if (strcmp(line, "tied") == 0) {
        answer(hasp_is_tied(session) ? "yes" : "no");
    } else if (strcmp(line, "believes") == 0) {
        answer(hasp_session_remaining(session) > 0 ? "yes" : "no");
    } else if (strcmp(line, "event") == 0) {
        answer(hasp_event_next(session, &event) ? event.text : "none");
    } else if (strcmp(line, "credentials") == 0) {
        answer(hasp_credentials(session, credentials) == 0 ? credentials
                                                           : hasp_why());
    } else if (strcmp(line, "detach") == 0) {
        int error = hasp_detach(session);
        answer(error == 0 ? "detached" : hasp_why());
    } else if (strcmp(line, "close") == 0) {
        hasp_close(session);
        session = NULL;
        answer("closed");
    } else if (strcmp(line, "exec") == 0) {
        execlp("sleep", "sleep", "300", NULL);
    } else if (strcmp(line, "fork") == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            sleep(300);
            _exit(0);
        }
        printf("%ld\n", (long)pid);
        fflush(stdout);
    }
}

static void *obey_all(void *data)
{
    char line[64];
    (void)data;
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        obey(line);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"none", "try", "must"};
    struct hasp_options options;
    struct hasp_acquire_options how;
    struct hasp_hold *hold;
    pthread_t thread;
    if (argc < 5) {
        return 64;
    }
    /* Resident memory, which the kernel frees before it reports the death. */
    size_t size = (size_t)number_of("TIED_MB") << 20;
    char *memory = malloc(size + 1);
    if (memory == NULL) {
        return 71;
    }
    memset(memory, 1, size + 1);
    hasp_options_init(&options);
    hasp_acquire_options_init(&how);
    options.endpoints = argv[1];
    options.agent = argv[2];
    options.ttl_ms = number_of("TIED_TTL_MS");
    options.linger_ms = number_of("TIED_LINGER_MS");
    for (int i = 0; i < 3; i++) {
        if (strcmp(argv[3], kinds[i]) == 0) {
            options.tie = (enum hasp_tie)i;
        }
    }
    how.wait_ms = HASP_FOREVER;
    how.delay_ms = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
    if (hasp_open(&options, &session) != 0 ||
        hasp_acquire(session, argv[4], &how, &hold) != 0) {
        printf("failed %s\n", hasp_why());
        return 1;
    }
    printf("held %llu %llu %d\n", (unsigned long long)hasp_session_id(session),
           (unsigned long long)hasp_token(hold), hasp_is_tied(session));
    fflush(stdout);
    const char *leaves = getenv("TIED_LEADER_LEAVES");
    if (leaves == NULL) {
        obey_all(NULL);
    }
    /* The main thread ends by its own system call; others work on. */
    pthread_create(&thread, NULL, obey_all, NULL);
    syscall(SYS_exit, 0);
}
