/* SPDX-License-Identifier: MIT */

/* hasp top: the hottest locks, the longest waits and the sessions, live.
 *
 * A refresh is three requests: RAFT.STATUS, LOCK.TOP, SESSION.LIST. The server
 * counts the grants of a lock from its newest events. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/minmax.h"
#include "cmd/hasp/nodes.h"
#include "cmd/hasp/tool.h"
#include "cmd/hasp/view/screen.h"
#include "cmd/hasp/view/status.h"

#define ROWS_PLAIN 10
#define INTERVAL_DEFAULT_MS 2000
#define INTERVAL_MIN_MS 100
/* Rows to request: more than any screen shows. */
#define ROWS_ASKED "200"

enum part { PART_ALL, PART_LOCKS, PART_WAITS, PART_SESSIONS, PART_COUNT };

struct top_view {
    struct tool *tool;
    struct screen screen;
    /* {"status", "locks", "waits", "sessions"}; NULL before the first refresh.
     */
    json_t *look;
    /* The cluster's line at the last refresh. */
    char cluster[STATUS_LINE_SIZE];
    uint64_t interval_ms;
    uint64_t left; /* Refreshes left; UINT64_MAX: unlimited. */
    enum part part;
    bool is_paused;
    bool is_helping; /* Shows the keys in place of the rows. */
};

static const struct view_field lock_fields[] = {
    {"name", "LOCK", FIELD_TEXT},
    {"grants_per_second", "GRANTS/S", FIELD_NUMBER},
    {"mode", "MODE", FIELD_TEXT},
    {"holders", "HOLDERS", FIELD_NUMBER},
    {"queue", "QUEUE", FIELD_NUMBER},
    {"holder", "HELD BY", FIELD_TEXT},
    {"holder_user", "USER", FIELD_TEXT},
    {"since_ms", "FOR", FIELD_DURATION},
    {0},
};

static const struct view_field wait_fields[] = {
    {"name", "LOCK", FIELD_TEXT},
    {"waiting_ms", "WAITING", FIELD_DURATION},
    {"client", "WHO", FIELD_TEXT},
    {"user", "USER", FIELD_TEXT},
    {"session", "SESSION", FIELD_NUMBER},
    {"mode", "MODE", FIELD_TEXT},
    {"holder", "HELD BY", FIELD_TEXT},
    {0},
};

static const struct view_field session_fields[] = {
    {"id", "SESSION", FIELD_NUMBER},      {"name", "NAME", FIELD_TEXT},
    {"user", "USER", FIELD_TEXT},         {"address", "ADDRESS", FIELD_TEXT},
    {"holds", "HOLDS", FIELD_COUNT},      {"waits", "WAITS", FIELD_COUNT},
    {"left_ms", "LEASE", FIELD_DURATION}, {0},
};

/* --- One refresh ---------------------------------------------------------- */

static int by_number(json_t *a, json_t *b, const char *key)
{
    uint64_t x = value_number(a, key), y = value_number(b, key);
    return (x < y) - (x > y);
}

static int compare_sessions(const void *a, const void *b)
{
    json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int order = by_number(x, y, "holds");
    return order != 0 ? order : by_number(y, x, "id");
}

static json_t *top_sorted(json_t *rows,
                          int (*compare)(const void *, const void *))
{
    size_t count = json_array_size(rows);
    json_t **all = memory_new((count + 1) * sizeof *all);
    json_t *result = json_array();
    for (size_t i = 0; i < count; i++) {
        all[i] = json_array_get(rows, i);
    }
    qsort(all, count, sizeof *all, compare);
    for (size_t i = 0; i < count; i++) {
        json_array_append(result, all[i]);
    }
    free(all);
    return result;
}

/* Adds rates, from the grants that the server counted in its window. */
static void add_rates(json_t *look)
{
    size_t i;
    json_t *lock;
    uint64_t window_ms = value_number(look, "window_ms");
    json_array_foreach (value_at(look, "locks"), i, lock) {
        uint64_t rate = value_number(lock, "grants") * 1000 /
                        (window_ms > 0 ? window_ms : 1);
        json_object_set_new(lock, "grants_per_second",
                            json_integer((json_int_t)rate));
        if (value_number(lock, "holders") == 0) {
            json_object_del(lock, "since_ms");
        }
    }
}

/* Requests everything; explains a failure. */
static int top_refresh(struct top_view *top)
{
    json_auto_t *status = NULL, *look = NULL, *sessions = NULL;
    uint64_t unheard;
    int exit_code = tool_ask(top->tool, WORDS("RAFT.STATUS"), "cannot refresh",
                             &status);
    if (exit_code != 0) {
        return exit_code;
    }
    json_auto_t *nodes = nodes_ask(top->tool, NODES_MEMBERS);
    status_sum_up(nodes, top->cluster, &unheard);
    exit_code = tool_ask(top->tool, WORDS("LOCK.TOP", "COUNT", ROWS_ASKED),
                         "cannot refresh", &look);
    if (exit_code == 0) {
        exit_code = tool_list(top->tool, "SESSION.LIST", NULL, &sessions);
    }
    if (exit_code != 0) {
        return exit_code;
    }
    add_rates(look);
    json_object_set(look, "status", status);
    json_object_set_new(look, "sessions",
                        top_sorted(sessions, compare_sessions));
    json_decref(top->look);
    top->look = json_incref(look);
    return 0;
}

/* --- The picture ---------------------------------------------------------- */

struct part_view {
    const char *title;
    const char *key;
    const char *count_key; /* NULL if the rows are complete. */
    const struct view_field *fields;
};

static void draw_part(struct top_view *top, const struct part_view *view,
                      size_t rows_max)
{
    size_t i;
    json_t *row, *rows = value_at(top->look, view->key);
    uint64_t count = view->count_key != NULL
                         ? value_number(top->look, view->count_key)
                         : json_array_size(rows);
    json_auto_t *shown = json_array();
    json_array_foreach (rows, i, row) {
        if (i < rows_max) {
            json_array_append(shown, row);
        }
    }
    printf("\n%s%s%s (%" PRIu64 ")\n", output_colour(COLOUR_BOLD), view->title,
           output_colour(COLOUR_NONE), count);
    output_rows(FORMAT_TABLE, view->fields, shown);
}

static void print_keys(const struct top_view *top)
{
    printf("\n"
           "  q  quit\n"
           "  p  pause or continue\n"
           "  s  switch between locks, waits, sessions and all\n"
           "  ?  close this help\n\n"
           "Node %s, term %" PRIu64 "; each %" PRIu64 " ms, see -i.\n",
           client_peer(top->tool->client),
           value_number(top->look, "status.term"), top->interval_ms);
}

static void draw_tables(struct top_view *top)
{
    static const struct part_view parts[] = {
        [PART_LOCKS] = {"Hottest locks", "locks", "lock_count", lock_fields},
        [PART_WAITS] = {"Longest waits", "waits", "wait_count", wait_fields},
        [PART_SESSIONS] = {"Sessions", "sessions", NULL, session_fields},
    };
    unsigned lines = screen_lines(&top->screen);
    size_t parts_count = top->part == PART_ALL ? 3 : 1;
    /* Each part has a blank line, a title and a header. */
    size_t room = lines > 2 ? (lines - 2) / parts_count : 0;
    size_t rows = room > 4 ? room - 3 : 1;
    if (!top->screen.is_terminal) {
        rows = ROWS_PLAIN;
    }
    printf("hasp top %s  %s%s\n", CLOCK(time(NULL)), top->cluster,
           top->is_paused            ? "  [paused]"
           : top->screen.is_terminal ? "  ?: help"
                                     : "");
    if (top->is_helping) {
        print_keys(top);
        return;
    }
    for (enum part part = PART_LOCKS; part < PART_COUNT; part++) {
        if (top->part == PART_ALL || top->part == part) {
            draw_part(top, &parts[part], rows);
        }
    }
    if (!top->screen.is_terminal) {
        putchar('\n');
    }
}

static void top_draw(struct top_view *top)
{
    if (top->look == NULL) {
        return;
    }
    if (top->tool->format == FORMAT_JSON) {
        json_dumpf(top->look, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
    } else if (top->tool->format == FORMAT_PLAIN) {
        output_rows(FORMAT_PLAIN, lock_fields, value_at(top->look, "locks"));
        fflush(stdout);
    } else {
        screen_draw_begin(&top->screen);
        draw_tables(top);
        screen_draw_end(&top->screen);
    }
}

/* --- The loop ------------------------------------------------------------- */

enum top_next { TOP_REFRESH, TOP_QUIT, TOP_SIGNAL };

/* Handles keys until the next refresh is due, which is never while paused. */
static enum top_next top_wait(struct top_view *top, uint64_t due_ns,
                              int *ret_signal)
{
    int key;
    while (top->is_paused || client_now_ns() < due_ns) {
        uint64_t wait_ns = top->is_paused ? client_now_ns() + NS_PER_S : due_ns;
        switch (screen_wait(&top->screen, wait_ns, &key)) {
        case SCREEN_END:
            *ret_signal = key;
            return TOP_SIGNAL;
        case SCREEN_KEY:
            if (key == 'q') {
                return TOP_QUIT;
            }
            top->is_paused ^= key == 'p';
            top->is_helping ^= key == '?';
            top->part = key == 's' ? (top->part + 1) % PART_COUNT : top->part;
            top_draw(top);
            break;
        case SCREEN_RESIZE:
            top_draw(top);
            break;
        case SCREEN_TIME:
            break;
        }
    }
    return TOP_REFRESH;
}

/* Refreshes until the last of --count, a key or a signal; returns the exit
 * code. */
static int top_loop(struct top_view *top)
{
    bool has_count = top->left != UINT64_MAX;
    for (;;) {
        uint64_t due_ns = client_now_ns() + top->interval_ms * NS_PER_MS;
        int signal, exit_code = top_refresh(top);
        if (exit_code == 0) {
            top_draw(top);
        } else if (top->look == NULL || has_count) {
            /* Later failures keep the old picture for the person who watches,
             * and are tried again. */
            return exit_code;
        }
        if (ferror(stdout) || (has_count && top->left == 1)) {
            return exit_code;
        }
        top->left -= has_count;
        switch (top_wait(top, due_ns, &signal)) {
        case TOP_QUIT:
            return exit_code;
        case TOP_SIGNAL:
            return 128 + signal;
        case TOP_REFRESH:
            break;
        }
    }
}

int run_top(struct tool *tool, char **argv)
{
    struct top_view top = {
        .tool = tool, .interval_ms = INTERVAL_DEFAULT_MS, .left = UINT64_MAX};
    const struct option_row rows[] = {
        {"count", OPTION_NUMBER, .value = &top.left, .min = 1},
        {"interval", OPTION_TIME, .value = &top.interval_ms,
         .min = INTERVAL_MIN_MS},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code != 0) {
        return exit_code;
    }
    screen_begin(&top.screen);
    exit_code = top_loop(&top);
    screen_end(&top.screen);
    json_decref(top.look);
    return exit_code;
}
