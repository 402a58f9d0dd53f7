/* SPDX-License-Identifier: MIT */

/* hasp agent status, hasp agent metrics; hasp died. */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cmd/hasp/agent/agent.h"
#include "cmd/hasp/tool.h"

#define STATUS_SIZE 4096
#define STATUS_WAIT_MS 2000

/* Reads the answer up to its last line, "."; 0 or an exit code, explained. */
static int status_ask(const char *path, char ret_text[STATUS_SIZE])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = 0;
    if (strlen(path) >= sizeof address.sun_path) {
        return tool_fail(EX_USAGE, "agent: the path '%s' is too long", path);
    }
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        send(fd, "STATUS\n", 7, MSG_NOSIGNAL) != 7) {
        int code = errno;
        if (fd >= 0) {
            close(fd);
        }
        return tool_fail(
            EX_UNAVAILABLE,
            "no agent answers at %s: %s; start it with: hasp agent", path,
            strerror(code));
    }
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    ret_text[0] = '\0';
    while (size + 1 < STATUS_SIZE && strstr(ret_text, "\n.\n") == NULL &&
           poll(&ready, 1, STATUS_WAIT_MS) > 0) {
        ssize_t got = read(fd, ret_text + size, STATUS_SIZE - 1 - size);
        if (got <= 0) {
            break;
        }
        size += (size_t)got;
        ret_text[size] = '\0';
    }
    close(fd);
    char *end = strstr(ret_text, "\n.\n");
    if (end == NULL) {
        return tool_fail(EX_UNAVAILABLE,
                         "the agent at %s does not answer: it is stopped, or "
                         "no agent is",
                         path);
    }
    end[1] = '\0';
    return 0;
}

static int status_read(struct tool *tool, char **argv,
                       char ret_text[STATUS_SIZE])
{
    const char *path = getenv("HASP_AGENT");
    if (path == NULL || path[0] == '\0') {
        path = AGENT_SOCKET_DEFAULT;
    }
    const struct option_row rows[] = {
        {"listen", OPTION_TEXT, .value = &path},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 0, 0);
    return exit_code ?: status_ask(path, ret_text);
}

int run_agent_status(struct tool *tool, char **argv)
{
    char text[STATUS_SIZE], *rest = text, *line;
    int exit_code = status_read(tool, argv, text);
    if (exit_code != 0) {
        return exit_code;
    }
    json_t *record = json_object();
    char copy[STATUS_SIZE];
    snprintf(copy, sizeof copy, "%s", text);
    while ((line = strtok_r(rest, "\n", &rest)) != NULL) {
        char *value = strchr(line, ' ');
        if (value != NULL) {
            *value = '\0';
            json_object_set_new(record, line,
                                json_integer(strtoll(value + 1, NULL, 10)));
        }
    }
    copy[strlen(copy) - 1] = '\0';
    tool_print(tool, record, copy);
    return 0;
}

int run_agent_metrics(struct tool *tool, char **argv)
{
    char text[STATUS_SIZE], *rest = text, *line;
    int exit_code = status_read(tool, argv, text);
    while (exit_code == 0 && (line = strtok_r(rest, "\n", &rest)) != NULL) {
        char *value = strchr(line, ' ');
        if (value != NULL) {
            *value = '\0';
            size_t size = strlen(line);
            bool is_counter = size > 6 &&
                              strcmp(line + size - 6, "_total") == 0;
            printf("# TYPE hasp_agent_%s %s\nhasp_agent_%s %s\n", line,
                   is_counter ? "counter" : "gauge", line, value + 1);
        }
    }
    return exit_code;
}

/* --- hasp died ------------------------------------------------------------ */

/* Reads lines "ID WORD" into 'words'; -1: a line is wrong. */
static int read_deaths(FILE *file, char text[TIE_BATCH_MAX][2][40],
                       const char *words[2 * TIE_BATCH_MAX + 2])
{
    int count = 0;
    char line[128];
    words[0] = "SESSION.DIED";
    while (fgets(line, sizeof line, file) != NULL) {
        char *rest = line, *id = strtok_r(line, " \n", &rest);
        char *word = strtok_r(NULL, " \n", &rest);
        if (id == NULL) {
            continue;
        }
        if (word == NULL || strlen(id) > 20 || strlen(word) != 32 ||
            count == TIE_BATCH_MAX) {
            return -1;
        }
        snprintf(text[count][0], sizeof text[count][0], "%s", id);
        snprintf(text[count][1], sizeof text[count][1], "%s", word);
        words[1 + 2 * count] = text[count][0];
        words[2 + 2 * count] = text[count][1];
        count++;
    }
    words[1 + 2 * count] = NULL;
    return count;
}

int run_died(struct tool *tool, char **argv)
{
    char text[TIE_BATCH_MAX][2][40];
    const char *words[2 * TIE_BATCH_MAX + 2];
    json_auto_t *answer = NULL;
    int exit_code = options_read_operands(tool, argv);
    if (exit_code != 0) {
        return exit_code;
    }
    bool is_stdin = strcmp(argv[1], "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(argv[1], "re");
    if (file == NULL && errno == ENOENT) {
        tool_say(tool, "%s does not exist: no session to end", argv[1]);
        return 0;
    }
    if (file == NULL) {
        return tool_fail(EX_NOINPUT, "cannot read %s: %s", argv[1],
                         strerror(errno));
    }
    int count = read_deaths(file, text, words);
    if (!is_stdin) {
        fclose(file);
    }
    if (count < 0) {
        return tool_fail(EX_DATAERR,
                         "%s: expected at most %d lines, each with a session's "
                         "id and its death word of 32 hex digits",
                         argv[1], TIE_BATCH_MAX);
    }
    if (count == 0) {
        return 0;
    }
    exit_code = tool_change(tool, words, "cannot end the sessions", &answer);
    if (exit_code == 0) {
        tool_print_number(tool, "ended", (uint64_t)json_integer_value(answer));
    }
    return exit_code;
}
