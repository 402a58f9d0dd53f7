/* SPDX-License-Identifier: MIT */

#include "cmd/haspd/doctor.h"

#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_SIZE 900

static const char *const grades[] = {
    [DOCTOR_OK] = "OK", [DOCTOR_WARN] = "WARN", [DOCTOR_FAIL] = "FAIL"};

/* A line has no other tabs and no line breaks. */
static void flatten(char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\t' || *text == '\n' || *text == '\r') {
            *text = ' ';
        }
    }
}

static void doctor_print(enum doctor_grade grade, const char *check, char *text,
                         const char *mend)
{
    flatten(text);
    if (!isatty(STDOUT_FILENO)) {
        printf("%s\t%s\t%s\t%s\n", grades[grade], check, text, mend);
        return;
    }
    printf("%-4s  %-12s  %s\n", grades[grade], check, text);
    if (mend[0] != '\0') {
        printf("%20s-> %s\n", "", mend);
    }
}

void doctor_report(struct doctor *doctor, enum doctor_grade grade,
                   const char *mend, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    doctor_print(grade, doctor->check, text, mend);
    if (grade > doctor->worst_of_check) {
        doctor->worst_of_check = grade;
    }
}

static void report_advice(void *data, const char *text)
{
    doctor_report(data, DOCTOR_WARN,
                  "change the configuration; haspd --check-config "
                  "checks it again",
                  "%s", text);
}

static void doctor_configuration(struct doctor *doctor)
{
    if (hasp_node_options_advise(doctor->options, report_advice, doctor) !=
        HASP_NODE_OK) {
        doctor_report(doctor, DOCTOR_FAIL, "see the line above",
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

static const struct doctor_check {
    const char *name;
    const char *fine; /* The text if it finds nothing. */
    doctor_check_fn *run;
} checks[] = {
    {"configuration", "the configuration fits together", doctor_configuration},
    {"directory", "the data directory can be used", doctor_directory},
    {"flush", "", doctor_flush},
    {"room", "the disk of the data directory has room", doctor_disk},
    {"descriptors", "the limit of open files suffices", doctor_files},
    {"swap", "nothing of the node is swapped out", doctor_swap},
    {"cpu", "no quota holds the node up", doctor_cpu},
    {"memory limit", "memory suffices for limits.state_size", doctor_memory},
    {"audit file", "audit.file can be written, or is not used", doctor_audit},
    {"names", "all names of members have addresses", doctor_names},
    {"ports", "all ports of the other members answer", doctor_ports},
    {"election", "raft.election_ms fits the network", doctor_election},
};

int doctor_run(const struct hasp_node_options *options)
{
    char copy[PATH_MAX];
    struct stat status;
    struct doctor doctor = {.options = options, .place = options->directory};
    doctor.has_directory = stat(options->directory, &status) == 0;
    if (!doctor.has_directory) {
        snprintf(copy, sizeof copy, "%s", options->directory);
        doctor.place = dirname(copy);
    }
    doctor.pid = find_node(options->directory);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        doctor.check = checks[i].name;
        doctor.worst_of_check = DOCTOR_OK;
        checks[i].run(&doctor);
        if (doctor.worst_of_check == DOCTOR_OK && checks[i].fine[0] != '\0') {
            doctor_report(&doctor, DOCTOR_OK, "", "%s", checks[i].fine);
        }
        if (doctor.worst_of_check > doctor.worst) {
            doctor.worst = doctor.worst_of_check;
        }
    }
    return (int)doctor.worst;
}

int doctor_run_without(const char *why)
{
    char text[TEXT_SIZE];
    snprintf(text, sizeof text, "%s", why);
    doctor_print(DOCTOR_FAIL, "configuration", text,
                 "change the configuration; haspd --check-config checks "
                 "it again");
    return DOCTOR_FAIL;
}
