/* SPDX-License-Identifier: MIT */

/* hasp, the command line tool: global options, one table of subcommands. */

#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/hasp/tool.h"

#define ACQUIRE_OPTIONS                                                       \
    "-s, --shared        several may hold it together\n"                      \
    "    --slots N       at most N may hold it\n"                             \
    "-n, --nonblock      do not wait\n"                                       \
    "-w, --wait SECS     wait at most so long\n"                              \
    "-E, --exit-code N   exit so if it was not acquired (75)\n"               \
    "    --ttl 10s       lease of the session\n"                              \
    "    --linger TIME   end it so soon after the last connection closed\n"   \
    "    --value TEXT    shown to those who ask\n"                            \
    "    --delay TIME    keep the lock closed so long after an unclean end\n" \
    "    --hold TIME     hold it at most so long\n"

const struct subcommand subcommands[] = {
    {"acquire", "NAME [--ttl TIME] [-n | -w SECS] [--session ID:SECRET]",
     "acquire a lock and leave it held until the TTL",
     ACQUIRE_OPTIONS "    --owner TAG     hold it as this owner\n"
                     "    --session ID:SECRET  in this session, not a new "
                     "one\n",
     run_acquire},
    {"blacklist add", "--session ID | --client PATTERN [--reason TEXT]",
     "refuse a client's heartbeats and sessions",
     "    --session ID      one session\n"
     "    --client PATTERN  clients by name (a glob)\n"
     "    --reason TEXT     told to the refused\n"
     "    --by WHO          who decided it (user@host)\n"
     "    --for TIME        how long (until removed)\n",
     run_blacklist_add},
    {"blacklist list", "", "who is refused", NULL, run_blacklist_list},
    {"blacklist remove", "--session ID | --client PATTERN", "refuse no longer",
     NULL, run_blacklist_remove},
    {"check", "NAME TOKEN", "is this still the holder's token? exit 0 or 1",
     NULL, run_check},
    {"dev", "[--nodes 3] [--dir DIR] [--port 7420]",
     "a throw-away cluster on loopback",
     "    --nodes N   how many\n"
     "    --dir DIR   keep it here (default: a temporary folder)\n"
     "    --port P    node i has the ports from P + 10 (i - 1)\n",
     run_dev},
    {"health", "", "exit 0 if the cluster serves, else 69", NULL, run_health},
    {"list", "[PREFIX]", "locks that are held or waited for", NULL, run_list},
    {"member add", "ID PEER-ADDRESS,CLIENT-ADDRESS [--standby]",
     "add a node to the cluster", NULL, run_member_add},
    {"member demote", "ID", "make a member a standby", NULL, run_member_change},
    {"member list", "", "the members, as the leader sees them", NULL,
     run_member_list},
    {"member promote", "ID", "make a standby a voter", NULL, run_member_change},
    {"member remove", "ID", "remove a node from the cluster", NULL,
     run_member_change},
    {"member transfer", "[ID]", "hand the leadership over", NULL,
     run_member_transfer},
    {"please", "NAME [MESSAGE]", "ask the holders to give a lock back", NULL,
     run_please},
    {"release", "NAME --session ID:SECRET [--token N]", "give a lock back",
     "    --session ID:SECRET  as 'hasp acquire' printed it\n"
     "    --owner TAG          of this owner\n"
     "    --token N            only if this is its token\n",
     run_release},
    {"run", "[-s] [-n] [-w SECS] [--on-lost HOW] NAME [--] COMMAND...",
     "run a command while holding a lock",
     ACQUIRE_OPTIONS
     "    --on-lost term  TERM in time, then KILL (default)\n"
     "    --on-lost kill|freeze|ignore   KILL; STOP and go on if it is kept "
     "after all; nothing\n"
     "    --grace TIME    between TERM and KILL (a quarter of the lease)\n",
     run_run},
    {"session close", "ID:SECRET", "end a session and release its holds", NULL,
     run_session_close},
    {"session keep", "ID:SECRET", "send one heartbeat", NULL, run_session_keep},
    {"session list", "[PREFIX]", "sessions, by prefix of their names", NULL,
     run_session_list},
    {"session show", "ID", "one session", NULL, run_session_show},
    {"show", "NAME", "holders and queue of a lock", NULL, run_show},
    {"status", "", "the nodes and their roles", NULL, run_status},
    {"version", "", "versions of the tool and of the nodes", NULL, run_version},
    {"watch", "[PREFIX] [--count N]", "events of locks as they happen",
     "    --count N   end after so many events\n", run_watch},
    {"why", "NAME", "why a lock is not free, and until when", NULL, run_why},
    {0},
};

static void print_help(FILE *out)
{
    fputs("usage: hasp [options] SUBCOMMAND ...\n\n"
          "  -e, --endpoints HOST:PORT,...  the nodes (HASP_ENDPOINTS, else\n"
          "                                 " ENDPOINTS_DEFAULT ")\n"
          "  -o, --output table|json|plain\n"
          "  -t, --timeout TIME             for an answer (5s)\n"
          "  -q, --quiet                    errors only\n"
          "  -h, --help    -V, --version\n\n",
          out);
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        fprintf(out, "  %-17s %s\n", s->name, s->summary);
    }
    fputs("\nhasp help SUBCOMMAND tells more. Data goes to stdout, talk to "
          "stderr. Exit codes:\n"
          "64 usage, 65 no such thing, 69 no leader or no node, 75 not "
          "acquired in time,\n"
          "76 not a node of hasp, 77 denied, 78 configuration, 79 lock "
          "lost.\n",
          out);
}

static void print_subcommand(const struct subcommand *s)
{
    printf("usage: hasp %s%s%s\n\n%s\n", s->name,
           s->arguments[0] == '\0' ? "" : " ", s->arguments, s->summary);
    if (s->details != NULL) {
        putchar('\n');
        for (const char *line = s->details; *line != '\0';) {
            int size = (int)strcspn(line, "\n");
            printf("  %.*s\n", size, line);
            line += size + (line[size] == '\n');
        }
    }
}

/* Finds "first second" or "first"; tells how many words that was. */
static const struct subcommand *find(int argc, char **argv, int *ret_words)
{
    char two[64] = "";
    if (argc > 1) {
        snprintf(two, sizeof two, "%.30s %.30s", argv[0], argv[1]);
    }
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        if (strcmp(s->name, argv[0]) == 0 || strcmp(s->name, two) == 0) {
            *ret_words = strcmp(s->name, two) == 0 ? 2 : 1;
            return s;
        }
    }
    return NULL;
}

static bool is_in_group(const struct subcommand *s, const char *group)
{
    size_t size = strlen(group);
    return strncmp(s->name, group, size) == 0 && s->name[size] == ' ';
}

/* True if there is such a group; its subcommands are then printed. */
static bool print_group(const char *group)
{
    bool is_group = false;
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        if (is_in_group(s, group)) {
            printf("%s hasp %s%s%s\n", is_group ? "      " : "usage:", s->name,
                   s->arguments[0] == '\0' ? "" : " ", s->arguments);
            is_group = true;
        }
    }
    return is_group;
}

static int unknown_subcommand(int argc, char **argv)
{
    struct buffer group = {0};
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        if (is_in_group(s, argv[0])) {
            buffer_printf(&group, "%s%s", group.size > 0 ? ", " : "",
                          s->name + strlen(argv[0]) + 1);
        }
    }
    buffer_put_u8(&group, '\0');
    int exit_code = group.size > 1
                        ? tool_fail(EX_USAGE, "'%s' needs one of: %s%s%s",
                                    argv[0], (const char *)group.data,
                                    argc > 1 ? "; not " : "",
                                    argc > 1 ? argv[1] : "")
                        : tool_fail(EX_USAGE,
                                    "'%s' is no subcommand; see: hasp help",
                                    argv[0]);
    buffer_done(&group);
    return exit_code;
}

static bool asks_for_help(int argc, char **argv)
{
    return argc > 1 &&
           (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

static int help(int argc, char **argv)
{
    int words;
    if (argc == 0) {
        print_help(stdout);
        return 0;
    }
    const struct subcommand *s = find(argc, argv, &words);
    if (s == NULL && argc == 1 && print_group(argv[0])) {
        return 0;
    }
    if (s == NULL) {
        return unknown_subcommand(argc, argv);
    }
    print_subcommand(s);
    return 0;
}

static bool parse_format(const char *text, enum format *ret_format)
{
    static const char *const names[] = {"table", "json", "plain"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_format = (enum format)i;
            return true;
        }
    }
    return false;
}

/* Reads the options before the subcommand; 0, or an exit code, or -1: done. */
static int read_options(struct tool *tool, int argc, char **argv)
{
    static const struct option options[] = {
        {"endpoints", required_argument, NULL, 'e'},
        {"output", required_argument, NULL, 'o'},
        {"timeout", required_argument, NULL, 't'},
        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {0},
    };
    int option;
    tool_options_begin();
    while ((option = getopt_long(argc, argv, "+e:o:t:qhV", options, NULL)) !=
           -1) {
        switch (option) {
        case 'e':
            tool->endpoints_text = optarg;
            break;
        case 'o':
            if (!parse_format(optarg, &tool->format)) {
                return tool_fail(EX_USAGE,
                                 "'%s' is no format; use table, json or plain",
                                 optarg);
            }
            break;
        case 't':
            if (!parse_duration(optarg, &tool->timeout_ms)) {
                return tool_fail(EX_USAGE, "'%s' is no time; write 5s or 500ms",
                                 optarg);
            }
            break;
        case 'q':
            tool->is_quiet = true;
            break;
        case 'h':
            print_help(stdout);
            return -1;
        case 'V':
            printf("hasp %s\n", HASP_VERSION);
            return -1;
        default:
            return tool_fail(EX_USAGE,
                             "'%s' is no option of hasp, or its value is "
                             "missing; see: hasp help",
                             argv[optind > 1 ? optind - 1 : 1]);
        }
    }
    return 0;
}

static int read_endpoints(struct tool *tool)
{
    char why[HASP_WHY_SIZE];
    const char *from = "-e";
    if (tool->endpoints_text == NULL) {
        tool->endpoints_text = getenv("HASP_ENDPOINTS");
        from = "HASP_ENDPOINTS";
    }
    if (tool->endpoints_text == NULL || tool->endpoints_text[0] == '\0') {
        tool->endpoints_text = ENDPOINTS_DEFAULT;
    }
    return endpoints_parse(tool->endpoints_text, &tool->endpoints, why) == 0
               ? 0
               : tool_fail(EX_USAGE, "%s: %s", from, why);
}

static int dispatch(struct tool *tool, int argc, char **argv)
{
    int words;
    if (argc == 0) {
        print_help(stderr);
        return EX_USAGE;
    }
    if (strcmp(argv[0], "help") == 0) {
        return help(argc - 1, argv + 1);
    }
    tool->subcommand = find(argc, argv, &words);
    if (tool->subcommand == NULL) {
        return asks_for_help(argc, argv) && print_group(argv[0])
                   ? 0
                   : unknown_subcommand(argc, argv);
    }
    argc -= words - 1;
    argv += words - 1;
    if (asks_for_help(argc, argv)) {
        print_subcommand(tool->subcommand);
        return 0;
    }
    int exit_code = read_endpoints(tool);
    return exit_code != 0 ? exit_code : tool->subcommand->run(tool, argc, argv);
}

int main(int argc, char **argv)
{
    struct tool tool = {.timeout_ms = TIMEOUT_DEFAULT_MS};
    setlocale(LC_CTYPE, "");
    int exit_code = read_options(&tool, argc, argv);
    if (exit_code == 0) {
        exit_code = dispatch(&tool, argc - optind, argv + optind);
    }
    client_free(tool.client);
    endpoints_done(&tool.endpoints);
    /* A full disk or a closed pipe must not pass for success. */
    if (fflush(stdout) != 0 && exit_code <= 0) {
        exit_code = tool_fail(EX_IOERR, "cannot write to stdout");
    }
    return exit_code < 0 ? 0 : exit_code;
}
