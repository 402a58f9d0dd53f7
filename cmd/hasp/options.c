/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/edit_distance.h"
#include "base/memory.h"
#include "cmd/hasp/option_spec.h"
#include "cmd/hasp/tool.h"

const char tool_options_text[] =
    "-e, --endpoints HOST:PORT,...  the nodes (HASP_ENDPOINTS, else\n"
    "                               " ENDPOINTS_DEFAULT ")\n"
    "    --secret-file FILE         secret of the user (HASP_SECRET_FILE)\n"
    "    --socket DIR               admin socket of the node with that\n"
    "                               data directory\n"
    "    --tls DIR                  certificates: ca.crt, and client.crt with\n"
    "                               client.key (HASP_TLS, else plain)\n"
    "-o, --output table|json|plain  format of results (table)\n"
    "-t, --timeout TIME             limit for an answer (5s)\n"
    "-q, --quiet                    print errors only\n"
    "-h, --help                     print this help\n"
    "-V, --version                  print the version of the tool\n";

/* State of the parser. */
struct options_reading {
    struct tool *tool;
    const char *texts[2];            /* The descriptions of both. */
    const struct option_row *rows;   /* The subcommand's options, or NULL. */
    const struct option_row *common; /* The options of hasp itself. */
    char **next;                     /* The word after the current one. */
};

/* --- The nearest name ----------------------------------------------------- */

void options_nearest(const char *word, const char *words, char *ret_nearest,
                     size_t size)
{
    unsigned best = (unsigned)strlen(word) / 3 + 1;
    ret_nearest[0] = '\0';
    while (*words != '\0') {
        char one[WORD_SIZE_MAX + 1];
        size_t length = strcspn(words, " ");
        snprintf(one, sizeof one, "%.*s", (int)length, words);
        unsigned cost = word_distance(word, one);
        /* A prefix counts as an exact match. */
        if (strlen(word) > 1 && strncmp(word, one, strlen(word)) == 0) {
            cost = 0;
        }
        if (cost < best || (cost == best && ret_nearest[0] == '\0')) {
            best = cost;
            snprintf(ret_nearest, size, "%s", one);
        }
        words += length + (words[length] == ' ');
    }
}

static int options_unknown(const struct options_reading *reading,
                           const char *word)
{
    AUTO(buffer_done) struct buffer names = {0};
    char nearest[WORD_SIZE_MAX + 1];
    for (int i = 0; i < 2; i++) {
        const char *text = reading->texts[i];
        struct option_spec option;
        while (option_spec_next(&text, &option)) {
            buffer_printf(&names, "--%.*s ", (int)option.name_size,
                          option.name);
        }
    }
    buffer_put_u8(&names, '\0');
    options_nearest(word, (const char *)names.data, nearest, sizeof nearest);
    if (word[1] != '-' || nearest[0] == '\0') {
        return tool_usage(reading->tool, "unknown option '%s'", word);
    }
    return tool_usage(reading->tool, "unknown option '%s'; did you mean %s?",
                      word, nearest);
}

/* --- Values --------------------------------------------------------------- */

/* Puts "from 1 to 255", or "from 1" without a limit. */
static void format_range(const struct option_row *row, char *out, size_t size)
{
    char min[DURATION_TEXT_SIZE], max[DURATION_TEXT_SIZE];
    if (row->kind == OPTION_TIME) {
        duration_format(row->min, min);
        duration_format(row->max, max);
    } else {
        snprintf(min, sizeof min, "%" PRIu64, row->min);
        snprintf(max, sizeof max, "%" PRIu64, row->max);
    }
    snprintf(out, size, "from %s%s%s", min, row->max != 0 ? " to " : " on",
             row->max != 0 ? max : "");
}

static int options_take_number(const struct options_reading *reading,
                               const struct option_row *row, const char *text)
{
    uint64_t number;
    char range[80];
    bool is_time = row->kind == OPTION_TIME;
    if (!(is_time ? duration_parse(text, &number)
                  : parse_number(text, &number))) {
        return is_time
                   ? tool_usage(reading->tool,
                                "invalid duration '%s': use a number with ms, "
                                "s, m, h, e.g. 20s",
                                text)
                   : tool_usage(reading->tool, "invalid number '%s' for --%s",
                                text, row->name);
    }
    if (number < row->min || (row->max != 0 && number > row->max)) {
        format_range(row, range, sizeof range);
        return tool_usage(reading->tool, "--%s %s is out of range: use a %s %s",
                          row->name, text, is_time ? "time" : "number", range);
    }
    *(uint64_t *)row->value = number;
    return 0;
}

static int options_take_choice(const struct options_reading *reading,
                               const struct option_row *row,
                               const struct option_spec *option,
                               const char *text)
{
    const char *word = option->value, *end = word + option->value_size;
    for (int i = 0; word < end; i++) {
        size_t size = strcspn(word, "| \n");
        if (strlen(text) == size && strncmp(text, word, size) == 0) {
            *(int *)row->value = i;
            return 0;
        }
        word += size + 1;
    }
    return tool_usage(reading->tool, "invalid --%s '%s': use one of %.*s",
                      row->name, text, (int)option->value_size, option->value);
}

static int options_take(const struct options_reading *reading,
                        const struct option_row *row,
                        const struct option_spec *option, char *text)
{
    struct option_list *list = row->value;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)row->value = true;
        return 0;
    case OPTION_TEXT:
        *(char **)row->value = text;
        return 0;
    case OPTION_LIST:
        if (list->count == OPTION_LIST_MAX) {
            return tool_usage(reading->tool, "too many --%s", row->name);
        }
        list->text[list->count++] = text;
        return 0;
    case OPTION_NUMBER:
    case OPTION_TIME:
        return options_take_number(reading, row, text);
    case OPTION_CHOICE:
        return options_take_choice(reading, row, option, text);
    }
    return EX_SOFTWARE;
}

/* --- Words ---------------------------------------------------------------- */

static const struct option_row *row_of(const struct option_row *row,
                                       const struct option_spec *option)
{
    while (row != NULL && row->name != NULL &&
           !option_spec_is(option, row->name)) {
        row++;
    }
    /* Each described option has a row, and takes a value if the description
     * says so. */
    CHECK(row != NULL && row->name != NULL);
    CHECK((row->kind == OPTION_FLAG) == (option->value_size == 0));
    return row;
}

/* Finds the option by its name, or its letter. */
static const struct option_row *
options_find(const struct options_reading *reading, char letter,
             const char *name, size_t size, struct option_spec *ret_option)
{
    return option_spec_find(reading->texts[0], name, size, letter, ret_option)
               ? row_of(reading->rows, ret_option)
           : option_spec_find(reading->texts[1], name, size, letter, ret_option)
               ? row_of(reading->common, ret_option)
               : NULL;
}

static void check_rows(const struct options_reading *reading)
{
    const char *text = reading->texts[0];
    struct option_spec option;
    while (option_spec_next(&text, &option)) {
        row_of(reading->rows, &option);
    }
}

/* Reads an option; 'value' is the rest of the same word, or NULL. */
static int take_option(struct options_reading *reading,
                       const struct option_row *row,
                       const struct option_spec *option, const char *word,
                       char *value)
{
    if (row->kind == OPTION_FLAG && value != NULL) {
        return tool_usage(reading->tool, "--%s takes no value", row->name);
    }
    if (row->kind != OPTION_FLAG && value == NULL) {
        value = *reading->next;
        if (value == NULL) {
            return tool_usage(reading->tool, "%s needs a value", word);
        }
        reading->next++;
    }
    return options_take(reading, row, option, value);
}

/* Reads "--name" or "--name=value". */
static int take_long(struct options_reading *reading, char *word)
{
    char *value = strchr(word, '=');
    size_t size = value != NULL ? (size_t)(value - word) : strlen(word);
    struct option_spec option;
    const struct option_row *row = options_find(reading, 0, word + 2, size - 2,
                                                &option);
    if (row == NULL) {
        return options_unknown(reading, word);
    }
    return take_option(reading, row, &option, word,
                       value != NULL ? value + 1 : NULL);
}

/* Reads letters such as "-n", "-sn", "-w5" and "-w 5". */
static int take_letters(struct options_reading *reading, char *word)
{
    int exit_code = 0;
    for (char *at = word + 1; *at != '\0' && exit_code == 0; at++) {
        struct option_spec option;
        const struct option_row *row = options_find(reading, *at, NULL, 0,
                                                    &option);
        if (row == NULL) {
            return options_unknown(reading, word);
        }
        if (row->kind == OPTION_FLAG) {
            *(bool *)row->value = true;
            continue;
        }
        return take_option(reading, row, &option, word,
                           at[1] != '\0' ? at + 1 : NULL);
    }
    return exit_code;
}

/* --- The whole ------------------------------------------------------------ */

/* Reports the missing i-th operand, by its name in the usage line. */
static int options_missing(const struct tool *tool, size_t i)
{
    const char *at = tool->subcommand->arguments;
    int depth = 0;
    while (*at != '\0') {
        size_t size = strcspn(at, " ");
        depth += at[0] == '[';
        if (depth == 0 && i-- == 0) {
            return tool_usage(tool, "missing %.*s", (int)size, at);
        }
        depth -= at[size - 1] == ']';
        at += size + (at[size] == ' ');
    }
    return tool_usage(tool, "an argument is missing");
}

static int check_operands(struct tool *tool, char **operands, size_t count,
                          size_t min, size_t max)
{
    if (count < min) {
        return options_missing(tool, count);
    }
    if (count > max) {
        return tool_usage(tool, "unexpected argument '%s'", operands[max]);
    }
    return tool->subcommand == NULL || tool->subcommand->is_offline
               ? 0
               : tool_read_endpoints(tool);
}

/* Reads the words; options end at operand number 'stop'. */
static int read_words(struct tool *tool, char **argv,
                      const struct option_row *rows, size_t min, size_t max,
                      size_t stop)
{
    int format = (int)tool->format;
    bool wants_help = false, wants_version = false;
    const struct option_row common[] = {
        {"endpoints", OPTION_TEXT, .value = &tool->endpoints_text},
        {"tls", OPTION_TEXT, .value = &tool->tls_text},
        {"secret-file", OPTION_TEXT, .value = &tool->secret_text},
        {"socket", OPTION_TEXT, .value = &tool->socket_text},
        {"output", OPTION_CHOICE, .value = &format},
        {"timeout", OPTION_TIME, .value = &tool->timeout_ms, .min = 1},
        {"quiet", OPTION_FLAG, .value = &tool->is_quiet},
        {"help", OPTION_FLAG, .value = &wants_help},
        {"version", OPTION_FLAG, .value = &wants_version},
        {0},
    };
    struct options_reading reading = {
        .tool = tool,
        .texts = {tool->subcommand != NULL ? tool->subcommand->details : NULL,
                  tool_options_text},
        .rows = rows,
        .common = common,
        .next = argv + 1};
    size_t count = 0;
    check_rows(&reading);
    bool is_over = false;
    while (*reading.next != NULL) {
        char *word = *reading.next++;
        int exit_code = 0;
        if (is_over || word[0] != '-' || word[1] == '\0') {
            argv[++count] = word;
            is_over |= count >= stop;
        } else if (strcmp(word, "--") == 0) {
            is_over = true;
        } else {
            exit_code = word[1] == '-' ? take_long(&reading, word)
                                       : take_letters(&reading, word);
        }
        if (exit_code != 0) {
            return exit_code;
        }
    }
    argv[count + 1] = NULL;
    tool->format = (enum format)format;
    return wants_help || wants_version
               ? tool_help(tool, wants_version)
               : check_operands(tool, argv + 1, count, min, max);
}

int options_read_operands(struct tool *tool, char **argv)
{
    size_t min = 0, max = 0;
    const char *at = tool->subcommand->arguments;
    while (*at != '\0') {
        size_t size = strcspn(at, " ");
        max++;
        min += at[0] != '[';
        at += size + (at[size] == ' ');
    }
    return read_words(tool, argv, NULL, min, max, SIZE_MAX);
}

int options_read(struct tool *tool, char **argv, const struct option_row *rows,
                 size_t min, size_t max)
{
    return read_words(tool, argv, rows, min, max, SIZE_MAX);
}

int options_read_before(struct tool *tool, char **argv,
                        const struct option_row *rows, size_t min)
{
    return read_words(tool, argv, rows, min, SIZE_MAX, min);
}
