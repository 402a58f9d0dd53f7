/* SPDX-License-Identifier: MIT */

#include "cmd/hasp/run/nested_runs.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct nested_entry {
    char mode;
    uint64_t slots;
    uint64_t session;
    uint64_t token;
    char name[512];
};

void nested_runs_make_id(char id[NESTED_RUNS_ID_SIZE])
{
    snprintf(id, NESTED_RUNS_ID_SIZE, "%ld.%" PRIu64 ":", (long)getpid(),
             client_clock_read().boottime_ns);
}

static void nested_runs_put_name(struct buffer *out, const char *name)
{
    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        if (c < 0x80 && (isalnum(c) || memchr("-._/", c, 4) != NULL)) {
            buffer_put_u8(out, c);
        } else {
            buffer_printf(out, "%%%02x", c);
        }
    }
}

static char mode_of(const struct acquire_options *options)
{
    return options->is_shared ? 's' : options->slots != 0 ? 'n' : 'x';
}

void nested_runs_put(struct buffer *out, const char *id,
                     const struct acquire_options *options,
                     const struct acquired *acquired)
{
    const char *outer = getenv("HASP_RUNS");
    if (outer != NULL && outer[0] != '\0') {
        buffer_printf(out, "%s ", outer);
    }
    for (size_t i = 0; i < options->names.count; i++) {
        buffer_printf(out, "%s%s%c:%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":",
                      i > 0 ? " " : "", id, mode_of(options), options->slots,
                      hasp_session_id(acquired->session),
                      hasp_token_of(acquired->hold, i));
        nested_runs_put_name(out, options->names.text[i]);
    }
}

/* Reads the next entry and moves on; skips entries that it cannot parse. */
static bool next_entry(const char **text, struct nested_entry *ret_entry)
{
    while (**text != '\0') {
        struct nested_entry entry = {0};
        int at = 0;
        size_t size = strcspn(*text, " "), made = 0;
        const char *end = *text + size;
        int got = sscanf(
            *text, "%*d.%*u:%c:%" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%n",
            &entry.mode, &entry.slots, &entry.session, &entry.token, &at);
        const char *from = *text + at;
        *text = *end == ' ' ? end + 1 : end;
        if (got != 4 || at == 0 || from > end) {
            continue;
        }
        while (from < end && made < sizeof entry.name - 1) {
            unsigned byte = (unsigned char)*from;
            bool is_hex = byte == '%' && end - from >= 3 &&
                          sscanf(from + 1, "%2x", &byte) == 1;
            entry.name[made++] = (char)byte;
            from += is_hex ? 3 : 1;
        }
        *ret_entry = entry;
        return true;
    }
    return false;
}

/* The environment can be older than the lock: processes that outlive the run
 * inherit it, and it can name another cluster. So the cluster is asked;
 * without an answer the environment is believed. */
static bool still_holds(struct tool *tool, const struct nested_entry *entry)
{
    char token[32], session[32];
    json_auto_t *holds = NULL;
    snprintf(token, sizeof token, "%" PRIu64, entry->token);
    snprintf(session, sizeof session, "%" PRIu64, entry->session);
    int exit_code = tool_ask(
        tool, WORDS("LOCK.CHECK", entry->name, token, "SESSION", session), NULL,
        &holds);
    return exit_code != 0 || value_number(holds, "") == 1;
}

/* True if a request for 'name' would wait forever; '*is_inside' is set if a
 * run around this one holds it shared and this request is shared, too. */
static bool nested_runs_is_futile(struct tool *tool,
                                  const struct acquire_options *options,
                                  const char *name, bool *is_inside,
                                  uint64_t *ret_token)
{
    const char *text = getenv("HASP_RUNS");
    struct nested_entry entry;
    uint64_t slots_held = 0;
    char mode = mode_of(options);
    bool is_refused = false;
    while (text != NULL && !is_refused && next_entry(&text, &entry)) {
        if (strcmp(entry.name, name) != 0 || !still_holds(tool, &entry)) {
            continue;
        }
        slots_held += entry.mode == 'n';
        if (mode == 's' && entry.mode == 's') {
            *is_inside = true;
        } else {
            is_refused = mode != 'n' || entry.mode != 'n' ||
                         slots_held >= options->slots;
            *ret_token = entry.token;
        }
    }
    return is_refused;
}

int nested_runs_check(struct tool *tool, struct acquire_options *options)
{
    uint64_t token = 0;
    for (size_t i = 0;
         options->wait_ms == HASP_FOREVER && i < options->names.count; i++) {
        const char *name = options->names.text[i];
        if (nested_runs_is_futile(tool, options, name, &options->is_inside,
                                  &token)) {
            return tool_fail(
                EX_USAGE,
                "'%s' is held by the 'hasp run' around this one, "
                "with token %" PRIu64
                ", so this one would wait forever; use another name, -n or -w",
                name, token);
        }
    }
    if (options->is_inside) {
        options->wait_ms = 0;
        options->exit_code = EX_USAGE;
    }
    return 0;
}
