/* SPDX-License-Identifier: MIT */

#include "cmd/haspd/crash.h"

#include <elf.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/doing.h"

#define FRAME_MAX 48
#define STACK_SIZE (64u << 10)
#define BUILD_ID_SIZE_MAX 20

/* A line that is built without any function that may lock or allocate. */
struct crash_line {
    char data[1800];
    size_t size;
};

static const struct fatal_signal {
    int number;
    const char *name;
} fatal_signals[] = {{SIGABRT, "SIGABRT"}, {SIGSEGV, "SIGSEGV"},
                     {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},
                     {SIGSYS, "SIGSYS"},   {SIGBUS, "SIGBUS"}};

static uint64_t crash_node_id;
static struct hasp_node *volatile crash_node;
static uintptr_t program_begin; /* Where the program is loaded. */
static uintptr_t program_end;
static uint8_t build_id[BUILD_ID_SIZE_MAX];
static size_t build_id_size;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

static char stack[STACK_SIZE];
static volatile sig_atomic_t is_reporting;

/* --- Text ----------------------------------------------------------------- */

static void crash_put_bytes(struct crash_line *line, const char *text,
                            size_t size)
{
    /* One byte is left for the line break. */
    for (size_t i = 0; i < size && line->size + 1 < sizeof line->data; i++) {
        line->data[line->size++] = text[i];
    }
}

static void crash_put(struct crash_line *line, const char *text)
{
    crash_put_bytes(line, text, strlen(text));
}

static void crash_put_digits(struct crash_line *line, uint64_t number,
                             unsigned base, unsigned least)
{
    char digits[24];
    unsigned count = 0;
    do {
        digits[sizeof digits - ++count] = "0123456789abcdef"[number % base];
        number /= base;
    } while ((number > 0 || count < least) && count < sizeof digits);
    crash_put_bytes(line, digits + sizeof digits - count, count);
}

static void crash_put_number(struct crash_line *line, const char *key,
                             uint64_t number)
{
    crash_put(line, key);
    crash_put_digits(line, number, 10, 1);
}

/* A client chose these bytes. */
static void crash_put_quoted(struct crash_line *line, const char *key,
                             struct bytes text)
{
    crash_put(line, key);
    crash_put(line, "\"");
    for (size_t i = 0; i < text.size && i < 256; i++) {
        uint8_t c = text.data[i];
        bool is_plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
        crash_put_bytes(line, is_plain ? (const char *)&c : "?", 1);
    }
    crash_put(line, "\"");
}

/* The date of 'seconds' since 1970, by the algorithm "civil_from_days" of
 * Howard Hinnant; gmtime_r() may lock. */
static void put_time(struct crash_line *line, int64_t seconds)
{
    int64_t days = seconds / 86400, rest = seconds % 86400;
    int64_t z = days + 719468, era = z / 146097, day_of_era = z % 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 -
                           day_of_era / 146096) /
                          365;
    int64_t day = day_of_era -
                  (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day + 2) / 153;
    crash_put_digits(line, (uint64_t)(year_of_era + era * 400 + (month >= 10)),
                     10, 4);
    crash_put(line, "-");
    crash_put_digits(line, (uint64_t)(month < 10 ? month + 3 : month - 9), 10,
                     2);
    crash_put(line, "-");
    crash_put_digits(line, (uint64_t)(day - (153 * month + 2) / 5 + 1), 10, 2);
    crash_put(line, "T");
    crash_put_digits(line, (uint64_t)(rest / 3600), 10, 2);
    crash_put(line, ":");
    crash_put_digits(line, (uint64_t)(rest / 60 % 60), 10, 2);
    crash_put(line, ":");
    crash_put_digits(line, (uint64_t)(rest % 60), 10, 2);
    crash_put(line, "Z");
}

/* --- The report ----------------------------------------------------------- */

static void crash_begin(struct crash_line *line, const char *event)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    line->size = 0;
    crash_put(line, "ts=");
    put_time(line, now.tv_sec);
    crash_put(line, " level=error");
    crash_put_number(line, " node=", crash_node_id);
    crash_put(line, " event=\"");
    crash_put(line, event);
    crash_put(line, "\"");
}

static void crash_write(struct crash_line *line)
{
    line->data[line->size] = '\n';
    (void)!write(STDERR_FILENO, line->data, line->size + 1);
}

/* Adds the work of the thread; the borrowed texts come last, since they might
 * have been freed. */
static void put_doing(struct crash_line *line)
{
    struct doing doing = doing_now;
    crash_put(line, " doing=");
    crash_put(line, doing.what != NULL ? doing.what : "nothing");
    if (doing.command != NULL) {
        crash_put(line, " command=");
        crash_put(line, doing.command);
    }
    if (doing.log_index != 0) {
        crash_put_number(line, " index=", doing.log_index);
    }
    if (doing.peer != 0) {
        crash_put_number(line, " peer=", doing.peer);
    }
    if (doing.session != 0) {
        crash_put_number(line, " session=", doing.session);
    }
    if (doing.address.size > 0) {
        crash_put_number(line, " user=", doing.user);
        crash_put_quoted(line, " address=", doing.address);
    }
    if (doing.client.size > 0) {
        crash_put_quoted(line, " client=", doing.client);
    }
}

static void put_signal(struct crash_line *line, int number)
{
    crash_put_number(line, " signal=", (uint64_t)number);
    for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0];
         i++) {
        if (fatal_signals[i].number == number) {
            crash_put(line, " name=");
            crash_put(line, fatal_signals[i].name);
        }
    }
}

/* The addresses on the stack; those of the program relative to its
 * beginning. */
static void write_backtrace(struct crash_line *line)
{
    void *frames[FRAME_MAX];
    int count = backtrace(frames, FRAME_MAX);
    crash_begin(line, "backtrace");
    crash_put(line, " build_id=");
    for (size_t i = 0; i < build_id_size; i++) {
        crash_put_digits(line, build_id[i], 16, 2);
    }
    crash_put(line, " frames=\"");
    for (int i = 0; i < count; i++) {
        uintptr_t at = (uintptr_t)frames[i];
        bool is_own = at >= program_begin && at < program_end;
        crash_put(line, i > 0 ? " " : "");
        crash_put(line, is_own ? "haspd+0x" : "0x");
        crash_put_digits(line, is_own ? at - program_begin : at, 16, 1);
    }
    crash_put(line, "\" hint=\"addr2line -f -e haspd ADDRESS...\"");
    crash_write(line);
}

void crash_on_signal(int number, siginfo_t *info, void *context)
{
    static struct crash_line line;
    (void)context;
    if (!is_reporting) {
        is_reporting = 1;
        crash_begin(&line, "crashed");
        put_signal(&line, number);
        if (number == SIGSEGV || number == SIGBUS) {
            crash_put(&line, " address_of_fault=0x");
            crash_put_digits(&line, (uint64_t)(uintptr_t)info->si_addr, 16, 1);
        }
        put_doing(&line);
        if (number == SIGABRT && check_failure()[0] != '\0') {
            crash_put_quoted(&line, " check=", bytes_of_text(check_failure()));
        }
        crash_write(&line);
        hasp_node_record_crash(crash_node, line.data, line.size);
        write_backtrace(&line);
    }
    /* The process ends by the signal itself, so that its parent sees it. */
    sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    (void)raise(number);
}

/* --- Installing ----------------------------------------------------------- */

/* Finds where the program is loaded, and its build id. */
static int look_at_object(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    program_begin = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD &&
            begin + header->p_memsz > program_end) {
            program_end = begin + header->p_memsz;
        }
        if (header->p_type != PT_NOTE) {
            continue;
        }
        for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= header->p_memsz;) {
            const ElfW(Nhdr) *note = (const void *)(begin + at);
            size_t name_size = (note->n_namesz + 3u) & ~3u;
            if (note->n_type == NT_GNU_BUILD_ID &&
                note->n_descsz <= sizeof build_id) {
                build_id_size = note->n_descsz;
                memcpy(build_id, (const char *)note + sizeof *note + name_size,
                       note->n_descsz);
            }
            at += sizeof *note + name_size + ((note->n_descsz + 3u) & ~3u);
        }
    }
    return 1; /* The first object is the program. */
}

void crash_handle(uint64_t node_id)
{
    void *frame;
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = crash_on_signal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (IS_SANITIZED) {
        return; /* Sanitizers have handlers of their own. */
    }
    crash_node_id = node_id;
    (void)dl_iterate_phdr(look_at_object, NULL);
    /* Loads the library of backtrace(), which the handler must not do. */
    (void)backtrace(&frame, 1);
    (void)sigaltstack(&other, NULL);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0];
         i++) {
        if (fatal_signals[i].number != SIGBUS) {
            sigaction(fatal_signals[i].number, &action, NULL);
        }
    }
}

void crash_set_node(struct hasp_node *node)
{
    crash_node = node;
}
