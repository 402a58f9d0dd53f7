/* SPDX-License-Identifier: MIT */

#include "cmd/haspd/machine.h"

#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEXT_SIZE 900

static const char *const grades[] = {
    [MACHINE_OK] = "OK", [MACHINE_WARN] = "WARN", [MACHINE_FAIL] = "FAIL"};

/* A line has no other tabs and no line breaks. */
static void machine_flatten(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\t' || *text == '\n' || *text == '\r') {
            *text = ' ';
        }
    }
}

static void machine_print(enum machine_grade grade, const char *check,
                          char *text, const char *mend)
{
    machine_flatten(text);
    if (!isatty(STDOUT_FILENO)) {
        printf("%s\t%s\t%s\t%s\n", grades[grade], check, text, mend);
        return;
    }
    printf("%-4s  %-12s  %s\n", grades[grade], check, text);
    if (mend[0] != '\0') {
        printf("%20s-> %s\n", "", mend);
    }
}

void machine_report(struct machine_checks *machine, enum machine_grade grade,
                    const char *mend, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    machine_print(grade, machine->check, text, mend);
    if (grade > machine->worst_of_check) {
        machine->worst_of_check = grade;
    }
}

double machine_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void report_advice(void *data, const char *text)
{
    machine_report(data, MACHINE_WARN,
                   "change the configuration; haspd --check-config "
                   "checks it again",
                   "%s", text);
}

static void machine_configuration(struct machine_checks *machine)
{
    if (hasp_node_options_advise(machine->options, report_advice, machine) !=
        HASP_NODE_OK) {
        machine_report(machine, MACHINE_FAIL, "see the line above",
                       "the node does not start with this configuration");
    }
}

/* The process that has the directory: the pid in LOCK, if that is a haspd. */
static pid_t find_node(const char *directory)
{
    char path[PATH_MAX], name[32] = "";
    long pid = 0;
    snprintf(path, sizeof path, "%s/LOCK", directory);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%ld", &pid) != 1 || pid <= 0) {
        pid = 0;
    }
    fclose(file);
    snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    file = pid > 0 ? fopen(path, "re") : NULL;
    if (file == NULL) {
        return 0;
    }
    bool is_ours = fscanf(file, "%31s", name) == 1 &&
                   strncmp(name, "haspd", 5) == 0;
    fclose(file);
    return is_ours ? (pid_t)pid : 0;
}

static const struct machine_check {
    const char *name;
    const char *fine; /* The text if it finds nothing. */
    machine_check_fn *run;
} checks[] = {
    {"configuration", "the configuration fits together", machine_configuration},
    {"directory", "the data directory can be used", machine_directory},
    {"flush", "", machine_flush},
    {"room", "the disk of the data directory has room", machine_disk},
    {"descriptors", "the limit of open files suffices", machine_files},
    {"swap", "nothing of the node is swapped out", machine_swap},
    {"cpu", "no quota holds the node up", machine_cpu},
    {"memory limit", "memory suffices for limits.state_size", machine_memory},
    {"audit file", "audit.file can be written, or is not used", machine_audit},
    {"names", "all names of members have addresses", machine_names},
    {"ports", "all ports of the other members answer", machine_ports},
    {"election", "raft.election_ms fits the network", machine_election},
};

int machine_run(const struct hasp_node_options *options)
{
    char copy[PATH_MAX];
    struct stat status;
    struct machine_checks machine = {.options = options,
                                     .place = options->directory};
    machine.has_directory = stat(options->directory, &status) == 0;
    if (!machine.has_directory) {
        snprintf(copy, sizeof copy, "%s", options->directory);
        machine.place = dirname(copy);
    }
    machine.pid = find_node(options->directory);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        machine.check = checks[i].name;
        machine.worst_of_check = MACHINE_OK;
        checks[i].run(&machine);
        if (machine.worst_of_check == MACHINE_OK && checks[i].fine[0] != '\0') {
            machine_report(&machine, MACHINE_OK, "", "%s", checks[i].fine);
        }
        if (machine.worst_of_check > machine.worst) {
            machine.worst = machine.worst_of_check;
        }
    }
    return (int)machine.worst;
}

int machine_run_without(const char *why)
{
    char text[TEXT_SIZE];
    snprintf(text, sizeof text, "%s", why);
    machine_print(MACHINE_FAIL, "configuration", text,
                  "change the configuration; haspd --check-config checks "
                  "it again");
    return MACHINE_FAIL;
}
