/* SPDX-License-Identifier: MIT */

/* hasp dev: a temporary cluster of real nodes on loopback.
 *
 * Node i, from 1, has the folder DIR/n<i> with its haspd.conf, and the ports
 * P + 10 (i - 1) for clients, one more for its peers, two more for HTTP. An
 * existing configuration is kept and its client address used. The nodes are our
 * children, in their own process groups, so that Ctrl-C reaches only us and we
 * stop them in order; if we are killed, the kernel ends them. A node that dies
 * is not restarted: such a cluster is for trying that. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "cmd/hasp/dev.h"
#include "cmd/hasp/tool.h"

#define READY_MS 15000
#define STOP_MS 5000
#define POLL_MS 50
/* A node of this machine that has not answered in this time is not ready. */
#define ANSWER_MS 500
#define LOG_TAIL_LINES 10

struct dev_node {
    char folder[PATH_MAX];
    char config[PATH_MAX];
    char log[PATH_MAX];
    char address[64]; /* Client address of the node. */
    /* Address that this process uses: the client address, or the admin socket.
     */
    char asked[PATH_MAX];
    pid_t started; /* The id of its process, even after that has ended. */
    pid_t pid;     /* 0 if it is not running. */
};

struct dev {
    struct tool *tool;
    uint64_t count;
    uint64_t port;
    const char *folder_option;
    char folder[PATH_MAX];
    bool is_temporary;
    bool is_secure;
    char binary[PATH_MAX];
    struct dev_node node[DEV_NODES_MAX];
    int signal_fd;
    sigset_t mask;
    bool is_stopping;
    bool has_failed; /* A node has exited on its own. */
};

static int read_dev(struct dev *dev, char **argv)
{
    const struct option_row rows[] = {
        {"nodes", OPTION_NUMBER, .value = &dev->count, .min = 1,
         .max = DEV_NODES_MAX},
        {"dir", OPTION_TEXT, .value = &dev->folder_option},
        {"port", OPTION_NUMBER, .value = &dev->port, .min = 1, .max = 65535},
        {"secure", OPTION_FLAG, .value = &dev->is_secure},
        {0},
    };
    int exit_code = options_read(dev->tool, argv, rows, 0, 0);
    if (exit_code == 0 && dev->port + 10 * (dev->count - 1) + 2 > 65535) {
        return tool_usage(dev->tool,
                          "the ports of the last node are above 65535: choose "
                          "a smaller --port");
    }
    return exit_code;
}

static int find_folder(struct dev *dev)
{
    char path[PATH_MAX - 64];
    if (dev->folder_option == NULL) {
        const char *base = getenv("TMPDIR");
        snprintf(path, sizeof path, "%s/hasp-dev-XXXXXX",
                 base != NULL && base[0] != '\0' ? base : "/tmp");
        if (mkdtemp(path) == NULL) {
            return tool_fail(EX_CANTCREAT, "cannot create the folder '%s': %s",
                             path, strerror(errno));
        }
        dev->is_temporary = true;
    } else {
        snprintf(path, sizeof path, "%s", dev->folder_option);
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            return tool_fail(EX_CANTCREAT, "cannot create the folder '%s': %s",
                             path, strerror(errno));
        }
    }
    /* The path is made absolute, so that the printed lines work in any folder.
     */
    if (realpath(path, dev->folder) == NULL ||
        strlen(dev->folder) > PATH_MAX - 64) {
        return tool_fail(EX_CANTCREAT, "cannot use the folder '%s': %s", path,
                         strerror(errno));
    }
    return 0;
}

static int dev_make_folders(struct dev *dev)
{
    int exit_code = tool_find_haspd(dev->binary);
    exit_code = exit_code ?: find_folder(dev);
    exit_code = exit_code ?: dev_secure_check(dev->folder, dev->is_secure);
    if (exit_code == 0 && dev->is_secure) {
        exit_code = dev_secure_certify(dev->tool, dev->folder, dev->count);
    }
    for (uint64_t i = 0; exit_code == 0 && i < dev->count; i++) {
        struct dev_node *node = &dev->node[i];
        struct dev_config config = {.id = i + 1,
                                    .count = dev->count,
                                    .port = dev->port,
                                    .folder = dev->folder,
                                    .is_secure = dev->is_secure};
        snprintf(node->folder, sizeof node->folder, "%.4000s/n%" PRIu64,
                 dev->folder, i + 1);
        snprintf(node->config, sizeof node->config, "%.4050s/haspd.conf",
                 node->folder);
        snprintf(node->log, sizeof node->log, "%.4050s/haspd.log",
                 node->folder);
        if (mkdir(node->folder, 0700) != 0 && errno != EEXIST) {
            exit_code = tool_fail(EX_CANTCREAT,
                                  "cannot create the folder '%s': %s",
                                  node->folder, strerror(errno));
        } else {
            exit_code = dev_config_make(node->config, &config, node->address);
            if (dev->is_secure) {
                snprintf(node->asked, sizeof node->asked, "%.4000s/data",
                         node->folder);
            } else {
                snprintf(node->asked, sizeof node->asked, "%s", node->address);
            }
        }
    }
    return exit_code;
}

/* Checks the ports: another cluster's node there would be mistaken for one of
 * ours. */
static int check_ports(const struct dev *dev)
{
    for (uint64_t i = 0; i < dev->count; i++) {
        const char *colon = strrchr(dev->node[i].address, ':');
        struct sockaddr_in address = {
            .sin_family = AF_INET,
            .sin_addr = {htonl(INADDR_LOOPBACK)},
            .sin_port = htons(
                (uint16_t)strtoul(colon == NULL ? "" : colon + 1, NULL, 10))};
        int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        int result = bind(fd, (struct sockaddr *)&address, sizeof address);
        int code = errno;
        close(fd);
        if (result != 0) {
            return tool_fail(EX_UNAVAILABLE,
                             "cannot use %s: %s; is another 'hasp dev' "
                             "running? choose other ports with --port",
                             dev->node[i].address, strerror(code));
        }
    }
    return 0;
}

void dev_become(const char *const *words, const char *log, const sigset_t *mask,
                int at_death)
{
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, at_death);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (fd >= 0 && null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execv(words[0], (char *const *)(uintptr_t)words);
    }
    dprintf(fd, "hasp: cannot run '%s': %s\n", words[0], strerror(errno));
    _exit(127);
}

static int start_nodes(struct dev *dev)
{
    fflush(stdout);
    for (uint64_t i = 0; i < dev->count; i++) {
        struct dev_node *node = &dev->node[i];
        node->pid = fork();
        if (node->pid == 0) {
            dev_become(WORDS(dev->binary, "--config", node->config), node->log,
                       &dev->mask, SIGTERM);
        }
        if (node->pid < 0) {
            node->pid = 0;
            return tool_fail(EX_OSERR, "cannot start a process: %s",
                             strerror(errno));
        }
        node->started = node->pid;
    }
    return 0;
}

void dev_print_log_tail(const char *path)
{
    char *lines[LOG_TAIL_LINES] = {0};
    size_t sizes[LOG_TAIL_LINES] = {0};
    size_t count = 0;
    FILE *file = fopen(path, "r");
    fprintf(stderr, "--- %s\n", path);
    if (file == NULL) {
        return;
    }
    while (getline(&lines[count % LOG_TAIL_LINES],
                   &sizes[count % LOG_TAIL_LINES], file) >= 0) {
        count++;
    }
    fclose(file);
    for (size_t i = count < LOG_TAIL_LINES ? 0 : count - LOG_TAIL_LINES;
         i < count; i++) {
        fputs(lines[i % LOG_TAIL_LINES], stderr);
    }
    for (size_t i = 0; i < LOG_TAIL_LINES; i++) {
        free(lines[i]);
    }
}

bool dev_is_ready(const char *address)
{
    struct endpoint endpoint;
    struct endpoints one = {.endpoint = &endpoint, .count = 1};
    char why[HASP_WHY_SIZE];
    if (endpoint_parse(address, strlen(address), &endpoint, why) != 0) {
        return false;
    }
    struct client *client = client_new(&one, NULL);
    struct client_options options = {.deadline_ns = client_now_ns() +
                                                    ANSWER_MS * NS_PER_MS,
                                     .is_once = true};
    json_auto_t *status = NULL;
    bool knows = tool_send(client, WORDS("RAFT.STATUS"), &options, &status) ==
                     0 &&
                 value_number(status, "leader") != 0;
    /* Only a serving leader answers this. */
    options.deadline_ns = client_now_ns() + ANSWER_MS * NS_PER_MS;
    knows = knows && tool_send(client, WORDS("LOCK.LIST", "COUNT", "1"),
                               &options, NULL) == 0;
    client_free(client);
    return knows;
}

static void tell_death(const struct dev *dev, const struct dev_node *node,
                       int status)
{
    char how[64];
    if (WIFEXITED(status)) {
        snprintf(how, sizeof how, "exited with %d", WEXITSTATUS(status));
    } else {
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    }
    tool_fail(0,
              "node %d (%s, pid %ld) %s; its log is %s; to start it again:\n"
              "  %s --config %s",
              (int)(node - dev->node) + 1, node->address, (long)node->pid, how,
              node->log, dev->binary, node->config);
}

/* Waits for signals until 'until_ns' and handles them. */
static void dev_take_signals(struct dev *dev, uint64_t until_ns)
{
    struct signalfd_siginfo info;
    struct pollfd fd = {.fd = dev->signal_fd, .events = POLLIN};
    poll(&fd, 1, until_ns == UINT64_MAX ? -1 : client_poll_ms(until_ns));
    while (read(dev->signal_fd, &info, sizeof info) == sizeof info) {
        dev->is_stopping |= info.ssi_signo != SIGCHLD;
    }
    for (uint64_t i = 0; i < dev->count; i++) {
        struct dev_node *node = &dev->node[i];
        int status;
        if (node->pid != 0 &&
            waitpid(node->pid, &status, WNOHANG) == node->pid) {
            if (!dev->is_stopping) {
                tell_death(dev, node, status);
            }
            node->pid = 0;
            dev->has_failed |= WIFEXITED(status);
        }
    }
}

/* A node that is killed meanwhile is not restarted, nor later; one that exits
 * has logged why, and would exit again. */
static int wait_ready(struct dev *dev)
{
    uint64_t end_ns = client_now_ns() + READY_MS * NS_PER_MS;
    for (;;) {
        uint64_t ready = 0;
        uint64_t running = 0;
        for (uint64_t i = 0; i < dev->count; i++) {
            running += dev->node[i].pid != 0;
            ready += dev->node[i].pid != 0 && dev_is_ready(dev->node[i].asked);
        }
        if (ready == running && 2 * ready > dev->count) {
            return 0;
        }
        dev_take_signals(dev, client_now_ns() + POLL_MS * NS_PER_MS);
        if (dev->is_stopping) {
            return 0;
        }
        if (dev->has_failed || client_now_ns() >= end_ns) {
            if (!dev->has_failed) {
                tool_fail(0, "no leader after %d s", READY_MS / 1000);
            }
            tool_fail(0,
                      "%" PRIu64 " of %" PRIu64
                      " nodes are ready; the last lines of their logs:",
                      ready, dev->count);
            for (uint64_t i = 0; i < dev->count; i++) {
                dev_print_log_tail(dev->node[i].log);
            }
            return EX_UNAVAILABLE;
        }
    }
}

/* Asks the first running node; all running nodes are ready. */
static int admit_demo(const struct dev *dev)
{
    for (uint64_t i = 0; i < dev->count; i++) {
        if (dev->node[i].pid != 0) {
            return dev_secure_admit(dev->tool, dev->folder, dev->node[i].asked);
        }
    }
    return 0;
}

static void print_ready(const struct dev *dev)
{
    printf("ready endpoints=");
    for (uint64_t i = 0; i < dev->count; i++) {
        printf("%s%s", i > 0 ? "," : "", dev->node[i].address);
    }
    printf(" pids=");
    for (uint64_t i = 0; i < dev->count; i++) {
        printf("%s%ld", i > 0 ? "," : "", (long)dev->node[i].started);
    }
    putchar('\n');
    fflush(stdout);
    if (dev->tool->is_quiet) {
        return;
    }
    fprintf(stderr, "hasp: the nodes' data is in %s; to use them:\n",
            dev->folder);
    fprintf(stderr, "  export HASP_ENDPOINTS=");
    for (uint64_t i = 0; i < dev->count; i++) {
        fprintf(stderr, "%s%s", i > 0 ? "," : "", dev->node[i].address);
    }
    putc('\n', stderr);
    if (dev->is_secure) {
        dev_secure_print(dev->folder, dev->node[0].address);
    } else {
        fprintf(stderr, "  hasp status\n"
                        "  hasp run demo -- echo done under the lock\n");
    }
    fprintf(stderr, "hasp: Ctrl-C stops them\n");
}

static void watch_nodes(struct dev *dev)
{
    while (!dev->is_stopping) {
        dev_take_signals(dev, UINT64_MAX);
    }
}

static uint64_t count_running(const struct dev *dev)
{
    uint64_t running = 0;
    for (uint64_t i = 0; i < dev->count; i++) {
        running += dev->node[i].pid != 0;
    }
    return running;
}

static void signal_nodes(const struct dev *dev, int number)
{
    for (uint64_t i = 0; i < dev->count; i++) {
        if (dev->node[i].pid != 0) {
            kill(dev->node[i].pid, number);
            /* A paused node must be continued to receive the signal. */
            kill(dev->node[i].pid, SIGCONT);
        }
    }
}

static void stop_nodes(struct dev *dev)
{
    uint64_t end_ns = client_now_ns() + STOP_MS * NS_PER_MS;
    dev->is_stopping = true;
    signal_nodes(dev, SIGTERM);
    while (count_running(dev) > 0 && client_now_ns() < end_ns) {
        dev_take_signals(dev, client_now_ns() + POLL_MS * NS_PER_MS);
    }
    if (count_running(dev) > 0) {
        tool_fail(0,
                  "%" PRIu64 " nodes did not stop within %d s and were killed",
                  count_running(dev), STOP_MS / 1000);
        signal_nodes(dev, SIGKILL);
        for (uint64_t i = 0; i < dev->count; i++) {
            if (dev->node[i].pid != 0) {
                waitpid(dev->node[i].pid, NULL, 0);
                dev->node[i].pid = 0;
            }
        }
    }
}

int run_dev(struct tool *tool, char **argv)
{
    struct dev *dev = memory_new(sizeof *dev);
    sigset_t signals;
    *dev = (struct dev){.tool = tool, .count = 3, .port = 7420};
    int exit_code = read_dev(dev, argv);
    if (exit_code != 0) {
        free(dev);
        return exit_code;
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &dev->mask);
    dev->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    exit_code = dev_make_folders(dev);
    exit_code = exit_code ?: check_ports(dev);
    exit_code = exit_code ?: start_nodes(dev);
    exit_code = exit_code ?: wait_ready(dev);
    if (exit_code == 0 && dev->is_secure && !dev->is_stopping) {
        exit_code = admit_demo(dev);
    }
    if (exit_code == 0 && !dev->is_stopping) {
        print_ready(dev);
        watch_nodes(dev);
    }
    stop_nodes(dev);
    if (dev->is_temporary) {
        dev_remove_folder(dev->folder);
    }
    close(dev->signal_fd);
    free(dev);
    return exit_code;
}
