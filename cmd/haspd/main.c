/* SPDX-License-Identifier: MIT */

/* haspd: one node as a daemon.
 *
 * Exit codes (sysexits.h): 0 stopped on request, 64 usage, 65 the backup is
 * damaged, 69 cannot listen, 70 storage error, 73 the file or directory to be
 * made exists, 76 the other nodes run a newer version, 78 configuration, or
 * this node was removed from its cluster. */

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/check.h"
#include "cmd/haspd/backup.h"
#include "cmd/haspd/config.h"
#include "cmd/haspd/crash.h"
#include "cmd/haspd/log_stderr.h"
#include "cmd/haspd/machine.h"
#include "cmd/haspd/manual.h"
#include "cmd/haspd/running.h"
#include "include/hasp/node.h"

extern char **environ;

enum action {
    ACTION_RUN,
    ACTION_CHECK,
    ACTION_PRINT,
    ACTION_DOCTOR,
    ACTION_UNCONDEMN,
    ACTION_EXPORT,
    ACTION_INSPECT,
    ACTION_RESTORE
};

/* The command line, before files and variables have been read. */
struct command_line {
    const char *config_path;
    bool is_contained;
    enum action action;
    struct backup_request backup;
    /* The settings in their order, which are applied last. */
    struct {
        const char *flag;
        char *name;
        const char *value;
    } set[64];
    int set_count;
};

enum option_value {
    OPTION_CONFIG = 256, /* Smaller values are actions, or '?'. */
    OPTION_SET,
    OPTION_TLS,
    OPTION_INSECURE,
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_MAN,
    OPTION_FORCE,
    OPTION_USERS,
    OPTION_QUARANTINE,
    OPTION_CONTAINER,
    OPTION_SETTING
};

/* Flags that are short forms of settings. */
#define SETTING_FLAGS(_)                   \
    _("id", "node.id")                     \
    _("dir", "node.dir")                   \
    _("log-level", "node.log_level")       \
    _("listen-client", "listen.client")    \
    _("listen-peer", "listen.peer")        \
    _("listen-http", "listen.http")        \
    _("listen-local", "listen.local")      \
    _("member", "cluster.member")          \
    _("name", "cluster.name")              \
    _("election-ms", "raft.election_ms")   \
    _("heartbeat-ms", "raft.heartbeat_ms") \
    _("redirect", "client.redirect")

#define SETTING_OF_FLAG(flag, setting) {flag, setting},
#define OPTION_OF_FLAG(flag, setting) \
    {flag, required_argument, NULL, OPTION_SETTING},

static const char *const setting_flags[][2] = {SETTING_FLAGS(SETTING_OF_FLAG)};

static const struct option options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"check-config", no_argument, NULL, ACTION_CHECK},
    {"print-config", no_argument, NULL, ACTION_PRINT},
    {"doctor", no_argument, NULL, ACTION_DOCTOR},
    {"uncondemn", no_argument, NULL, ACTION_UNCONDEMN},
    {"set", required_argument, NULL, OPTION_SET},
    {"tls", required_argument, NULL, OPTION_TLS},
    {"insecure", no_argument, NULL, OPTION_INSECURE},
    {"container", no_argument, NULL, OPTION_CONTAINER},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"man", required_argument, NULL, OPTION_MAN},
    {"export", required_argument, NULL, ACTION_EXPORT},
    {"inspect", required_argument, NULL, ACTION_INSPECT},
    {"restore", required_argument, NULL, ACTION_RESTORE},
    {"force", no_argument, NULL, OPTION_FORCE},
    {"users", required_argument, NULL, OPTION_USERS},
    {"quarantine", required_argument, NULL, OPTION_QUARANTINE},
    SETTING_FLAGS(OPTION_OF_FLAG){NULL, 0, NULL, 0}};

/* The node for the signal handler. */
static struct hasp_node *volatile running_node;
static volatile sig_atomic_t must_stop;

static const char *setting_of(const char *flag)
{
    size_t i = 0;
    while (strcmp(setting_flags[i][0], flag) != 0) {
        i++;
    }
    return setting_flags[i][1];
}

/* Adds a setting. If 'value' is NULL, it follows '=' in 'name'. */
static int add_setting(struct command_line *line, const char *flag,
                       const char *name, const char *value)
{
    if (line->set_count == (int)(sizeof line->set / sizeof line->set[0])) {
        fputs("haspd: more than 64 settings on the command line; use --config "
              "FILE\n",
              stderr);
        return EX_USAGE;
    }
    char *copy = strdup(name);
    CHECK(copy != NULL);
    if (value == NULL) {
        char *equals = strchr(copy, '=');
        if (equals == NULL) {
            fprintf(stderr, "haspd: --set '%s': expected SECTION.KEY=VALUE\n",
                    name);
            free(copy);
            return EX_USAGE;
        }
        *equals = '\0';
        value = equals + 1;
    }
    line->set[line->set_count].flag = flag;
    line->set[line->set_count].name = copy;
    line->set[line->set_count].value = value;
    line->set_count++;
    return 0;
}

/* Adds the usual three settings of TLS at once. */
static int add_tls(struct command_line *line, const char *folder)
{
    int rv = add_setting(line, "tls", "tls.dir", folder);
    rv = rv ?: add_setting(line, "tls", "tls.client", "require");
    return rv ?: add_setting(line, "tls", "tls.peer", "require");
}

static int print_manual(const char *section)
{
    if (daemon_manual_print(section, stdout) == 0) {
        return 0;
    }
    fprintf(stderr,
            "haspd: --man %s: expected 5 for haspd.conf(5) or 8 for "
            "haspd(8)\n",
            section);
    return EX_USAGE;
}

/* Parses the command line. Returns an exit code, or -1 to continue. */
static int main_parse(int argc, char **argv, struct command_line *line)
{
    for (;;) {
        int index = 0;
        int value = getopt_long(argc, argv, "", options, &index);
        if (value == -1) {
            break;
        }
        int rv = 0;
        if (value == OPTION_CONFIG) {
            line->config_path = optarg;
        } else if (value <= ACTION_RESTORE) {
            line->action = (enum action)value;
            line->backup.file = optarg != NULL ? optarg : line->backup.file;
        } else if (value == OPTION_FORCE) {
            line->backup.may_replace = true;
        } else if (value == OPTION_USERS) {
            rv = backup_users(&line->backup, optarg);
        } else if (value == OPTION_QUARANTINE) {
            rv = backup_quarantine(&line->backup, optarg);
        } else if (value == OPTION_INSECURE) {
            rv = add_setting(line, "insecure", "security.insecure", "yes");
        } else if (value == OPTION_CONTAINER) {
            line->is_contained = true;
        } else if (value == OPTION_TLS) {
            rv = add_tls(line, optarg);
        } else if (value == OPTION_SET) {
            rv = add_setting(line, "set", optarg, NULL);
        } else if (value == OPTION_HELP) {
            fputs(haspd_help, stdout);
            return 0;
        } else if (value == OPTION_VERSION) {
            printf("haspd %s\n", HASP_VERSION);
            return 0;
        } else if (value == OPTION_MAN) {
            return print_manual(optarg);
        } else if (value == OPTION_SETTING) {
            rv = add_setting(line, options[index].name,
                             setting_of(options[index].name), optarg);
        } else {
            fputs("haspd: see haspd --help\n", stderr);
            return EX_USAGE;
        }
        if (rv != 0) {
            return rv;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "haspd: unexpected argument '%s'; see haspd --help\n",
                argv[optind]);
        return EX_USAGE;
    }
    return -1;
}

static int main_configure(const struct command_line *line,
                          struct config *config, char why[HASP_WHY_SIZE])
{
    if (line->is_contained) {
        config_contain(config);
    }
    int rv = line->config_path == NULL
                 ? 0
                 : config_read_file(config, line->config_path, why);
    rv = rv ?: config_read_environment(config, environ, why);
    for (int i = 0; i < line->set_count && rv == 0; i++) {
        rv = config_set(config, line->set[i].flag, line->set[i].name,
                        line->set[i].value, why);
    }
    return rv;
}

/* Checks the settings as a whole. --print-config prints them even if the check
 * fails, since that shows which ones contradict each other. */
static int main_finish(const struct command_line *line, struct config *config,
                       char why[HASP_WHY_SIZE])
{
    if (line->action == ACTION_EXPORT || line->action == ACTION_UNCONDEMN) {
        /* Only the directory is needed, and these actions check it
         * themselves. */
        return 0;
    }
    int rv = config_finish(config, why);
    if (line->action == ACTION_PRINT) {
        config_print(config, stdout);
    }
    return rv;
}

static int main_uncondemn(const char *directory)
{
    char why[HASP_NODE_WHY_SIZE] = "";
    if (directory == NULL) {
        fputs("haspd: no data directory: use --dir or --config\n", stderr);
        return EX_USAGE;
    }
    int status = hasp_node_uncondemn(directory, why);
    if (status != 0) {
        fprintf(stderr, "haspd: %s\n", why);
    } else if (why[0] == '\0') {
        printf("'%s' has no mark of lost data\n", directory);
    } else {
        printf("mark removed: %s\n", why);
    }
    return status;
}

/* Raises the limit of open files, since each client and each peer needs one. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Disables core files, since keys and secrets are in many places: OpenSSL's
 * memory, buffers of connections, freed memory. RLIMIT_CORE would not be
 * enough: the kernel ignores it if it pipes cores to a program. */
static void forbid_cores(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void on_signal(int number)
{
    int saved = errno;
    (void)number;
    must_stop = 1;
    if (running_node != NULL) {
        hasp_node_stop(running_node);
    }
    errno = saved;
}

/* Reads certificates and settings again, and reopens files that were
 * renamed. */
static void on_hangup(int number)
{
    int saved = errno;
    (void)number;
    if (running_node != NULL) {
        hasp_node_reload(running_node);
    }
    errno = saved;
}

static void handle_signal(int number, void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void handle_signals(void (*stop)(int number), void (*reload)(int number))
{
    handle_signal(SIGTERM, stop);
    handle_signal(SIGINT, stop);
    handle_signal(SIGHUP, reload);
}

/* BUS_ADRERR: a page of a mapped file (the table, a snapshot) is beyond the
 * file's end, because the file was truncated after its length was checked. Any
 * other bus error is a crash. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    static const char
        text[] = "haspd: a file of the data directory was truncated while it "
                 "was in use; "
                 "the next start rebuilds the table from snapshot and log\n";
    if (info->si_code == BUS_ADRERR) {
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        _exit(HASP_NODE_STORAGE);
    }
    crash_on_signal(number, info, context);
}

static void handle_bus_error(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error,
                               .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

static void on_status(void *data, const char *status)
{
    (void)data;
    if (strcmp(status, "stopping") == 0) {
        sd_notify(0, "STOPPING=1");
    }
    sd_notifyf(0, "STATUS=%s", status);
}

/* Reports to systemd's watchdog that the loop runs. */
static void on_alive(void *data)
{
    (void)data;
    sd_notify(0, "WATCHDOG=1");
}

/* Explains why the directory cannot be used if its owner is the reason. */
static void explain_owner(const char *directory)
{
    char copy[PATH_MAX];
    struct stat status;
    const char *path = directory;
    if (stat(path, &status) != 0) {
        snprintf(copy, sizeof copy, "%s", directory);
        path = dirname(copy);
    }
    if (stat(path, &status) != 0 || access(path, W_OK | X_OK) == 0) {
        return;
    }
    if (errno == EROFS) {
        fprintf(stderr,
                "haspd: '%s' is on a read-only file system: mount a writable "
                "volume there\n",
                path);
        return;
    }
    unsigned uid = (unsigned)geteuid(), gid = (unsigned)getegid();
    fprintf(stderr,
            "haspd: '%s' belongs to user %u and group %u with mode %04o, but "
            "haspd runs as user %u and group %u: run 'chown -R "
            "%u:%u' on that volume, or in Kubernetes set securityContext."
            "fsGroup: %u\n",
            path, (unsigned)status.st_uid, (unsigned)status.st_gid,
            (unsigned)status.st_mode & 07777, uid, gid, uid, gid, gid);
}

static void on_overdue(int number)
{
    (void)number;
    _exit(0);
}

/* The log and the table are closed already. A name server that does not answer
 * can delay the rest for up to half a minute, so the process exits without
 * waiting for it. */
static void close_in_time(struct hasp_node *node)
{
    struct itimerval soon = {.it_value = {.tv_usec = 500000}};
    handle_signal(SIGALRM, on_overdue);
    (void)setitimer(ITIMER_REAL, &soon, NULL);
    hasp_node_close(node);
    (void)setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
}

/* Reads the sources again, on the thread of struct running. */
static int main_read_again(void *data, struct config *ret_config,
                           char why[HASP_WHY_SIZE])
{
    const struct command_line *line = data;
    int rv = main_configure(line, ret_config, why);
    return rv ?: config_finish(ret_config, why);
}

static int main_run(struct config *config, struct command_line *line)
{
    static struct running running;
    char why[HASP_NODE_WHY_SIZE] = "";
    running = (struct running){
        .config = config, .read = main_read_again, .data = line};
    log_stderr_init(config->options.id);
    running_init(&running);
    config->options.log = log_stderr;
    config->options.on_status = on_status;
    if (sd_watchdog_enabled(0, NULL) > 0) {
        config->options.on_alive = on_alive;
    }
    umask(077);
    raise_file_limit();
    if (!config->options.dumps_core) {
        forbid_cores();
    }
    struct hasp_node *node;
    handle_signals(on_signal, on_hangup);
    crash_handle(config->options.id);
    handle_bus_error();
    if (config->is_plain_alone) {
        log_stderr(NULL, HASP_NODE_LOG_WARN, "traffic is not encrypted",
                   "hint=\"any program that reaches these ports can acquire, "
                   "release and watch every lock: publish them on loopback or "
                   "in a trusted network only, or use TLS\"");
    }
    int status = hasp_node_open(&config->options, &node, why);
    if (status != 0) {
        fprintf(stderr, "haspd: %s\n", why);
        if (status == HASP_NODE_STORAGE) {
            explain_owner(config->options.directory);
        }
        return status;
    }
    running_node = node;
    running.node = node;
    crash_set_node(node);
    if (must_stop) {
        hasp_node_stop(node);
    }
    sd_notify(0, "READY=1");
    status = hasp_node_run(node);
    if (status != 0) {
        /* The disk might hang, so nothing here may wait for it. */
        fprintf(stderr, "haspd: %s\n", hasp_node_why(node));
        _exit(status);
    }
    /* The node has stopped: the handlers must not use it any longer. */
    handle_signals(SIG_IGN, SIG_IGN);
    crash_set_node(NULL);
    close_in_time(node);
    return 0;
}

static void ignore_sigpipe(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
}

static void main_warn(void *data, const char *text)
{
    (void)data;
    fprintf(stderr, "haspd: warning: %s\n", text);
}

int main(int argc, char **argv)
{
    struct command_line line = {.backup = backup_request_default};
    struct config config;
    char why[HASP_WHY_SIZE] = "";
    /* First: a peer that dies must not end this process. */
    ignore_sigpipe();
    int status = main_parse(argc, argv, &line);
    if (status >= 0) {
        return status;
    }
    config_init(&config);
    if (line.action == ACTION_INSPECT) {
        status = backup_inspect(&line.backup);
    } else if (main_configure(&line, &config, why) != 0 ||
               main_finish(&line, &config, why) != 0) {
        if (line.action == ACTION_DOCTOR) {
            return machine_run_without(why);
        }
        fprintf(stderr, "haspd: %s\n", why);
        status = EX_CONFIG;
    } else if (line.action == ACTION_CHECK) {
        status = hasp_node_options_advise(&config.options, main_warn, NULL);
        if (status == HASP_NODE_OK) {
            printf("configuration ok\n");
        }
    } else if (line.action == ACTION_PRINT) {
        status = 0;
    } else if (line.action == ACTION_DOCTOR) {
        status = machine_run(&config.options);
    } else if (line.action == ACTION_UNCONDEMN) {
        status = main_uncondemn(config.options.directory);
    } else if (line.action == ACTION_EXPORT) {
        umask(077);
        status = backup_export(&line.backup, &config.options);
    } else if (line.action == ACTION_RESTORE) {
        umask(077);
        status = backup_restore(&line.backup, &config.options,
                                line.config_path);
    } else {
        status = main_run(&config, &line);
    }
    for (int i = 0; i < line.set_count; i++) {
        free(line.set[i].name);
    }
    config_done(&config);
    return status;
}
