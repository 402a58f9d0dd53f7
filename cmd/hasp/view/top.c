/* SPDX-License-Identifier: MIT */

/* hasp top: the hottest locks, the longest waits and the sessions, looked at
 * again and again.
 *
 * Three questions make a look: RAFT.STATUS, LOCK.LIST, SESSION.LIST. How hot a
 * lock is, is counted from the events of all locks, which come on a connection
 * of their own; without it (it was lost, or the node is another one since) the
 * counts begin anew. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/number.h"
#include "cmd/hasp/nodes.h"
#include "cmd/hasp/tool.h"
#include "cmd/hasp/view/screen.h"
#include "cmd/hasp/view/status.h"

#define ROWS_PLAIN 10
#define BEGIN_MS 1000
#define INTERVAL_DEFAULT_MS 2000
#define INTERVAL_MIN_MS 100
/* The first look comes soon, but not before some grants are counted. */
#define FIRST_LOOK_MS 500

enum part { PART_ALL, PART_LOCKS, PART_WAITS, PART_SESSIONS, PART_COUNT };

struct top {
    struct tool *tool;
    struct screen screen;
    struct client *events;
    bool has_events;
    json_t *grants; /* Name -> grants since 'grants_ns'. */
    uint64_t grants_ns;
    json_t *look; /* {"status", "locks", "waits", "sessions"}; NULL before. */
    char cluster[STATUS_LINE_SIZE]; /* As it was then. */
    uint64_t interval_ms;
    uint64_t left; /* Looks; UINT64_MAX: no end. */
    enum part part;
    bool is_paused;
    bool is_helping; /* The keys are shown instead. */
};

static const struct field lock_fields[] = {
    {"name", "LOCK", FIELD_TEXT},
    {"grants_per_second", "GRANTS/S", FIELD_NUMBER},
    {"mode", "MODE", FIELD_TEXT},
    {"holders", "HOLDERS", FIELD_COUNT},
    {"queue", "QUEUE", FIELD_COUNT},
    {"holders.0.client", "HELD BY", FIELD_TEXT},
    {"holders.0.since_ms", "FOR", FIELD_DURATION},
    {0},
};

static const struct field wait_fields[] = {
    {"name", "LOCK", FIELD_TEXT},
    {"waiting_ms", "WAITING", FIELD_DURATION},
    {"client", "WHO", FIELD_TEXT},
    {"session", "SESSION", FIELD_NUMBER},
    {"mode", "MODE", FIELD_TEXT},
    {"holder", "HELD BY", FIELD_TEXT},
    {0},
};

static const struct field session_fields[] = {
    {"id", "SESSION", FIELD_NUMBER},
    {"name", "NAME", FIELD_TEXT},
    {"address", "ADDRESS", FIELD_TEXT},
    {"holds", "HOLDS", FIELD_COUNT},
    {"waits", "WAITS", FIELD_COUNT},
    {"left_ms", "LEASE", FIELD_DURATION},
    {0},
};

/* --- Events --------------------------------------------------------------- */

/* A connection_push_fn. */
static void take_event(void *data, const struct resp_reply *reply)
{
    struct top *top = data;
    json_auto_t *push = value_of_reply(reply, 0);
    if (strcmp(value_text(push, "1"), "granted") == 0) {
        const char *name = value_text(push, "2.lock");
        json_object_set_new(
            top->grants, name,
            json_integer(
                json_integer_value(json_object_get(top->grants, name)) + 1));
    }
}

static void begin_events(struct top *top)
{
    struct client_options options = {
        .deadline_ns = client_now_ns() + BEGIN_MS * NS_PER_MS, .is_read = true};
    top->has_events = tool_send(top->events, WORDS("LOCK.WATCH", ""), &options,
                                NULL) == 0;
    json_object_clear(top->grants);
    top->grants_ns = client_now_ns();
}

static void take_events(struct top *top)
{
    int error;
    do {
        error = client_wait_push(top->events, client_now_ns());
    } while (error == 0);
    if (error != HASP_ETIMEDOUT) {
        client_drop(top->events);
        top->has_events = false;
    }
}

/* --- One look ------------------------------------------------------------- */

static int by_number(json_t *a, json_t *b, const char *key)
{
    uint64_t x = value_number(a, key), y = value_number(b, key);
    return (x < y) - (x > y);
}

static int compare_locks(const void *a, const void *b)
{
    json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int order = by_number(x, y, "grants_per_second");
    if (order != 0) {
        return order;
    }
    size_t n = json_array_size(value_at(x, "queue"));
    size_t m = json_array_size(value_at(y, "queue"));
    return n != m ? (n < m) - (n > m)
                  : strcmp(value_text(x, "name"), value_text(y, "name"));
}

static int compare_waits(const void *a, const void *b)
{
    return by_number(*(json_t *const *)a, *(json_t *const *)b, "waiting_ms");
}

static int compare_sessions(const void *a, const void *b)
{
    json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int order = by_number(x, y, "holds");
    return order != 0 ? order : by_number(y, x, "id");
}

static json_t *sorted(json_t *rows, int (*compare)(const void *, const void *))
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

/* Locks that were granted and given back between two looks are not in the list
 * any more, but hot. */
static void add_grants(struct top *top, json_t *locks)
{
    size_t i;
    json_t *lock, *count;
    const char *name;
    uint64_t past_ms = (client_now_ns() - top->grants_ns) / NS_PER_MS + 1;
    json_array_foreach(locks, i, lock)
    {
        name = value_text(lock, "name");
        count = json_object_get(top->grants, name);
        json_object_set_new(lock, "grants_per_second",
                            json_integer(json_integer_value(count) * 1000 /
                                         (json_int_t)past_ms));
        json_object_del(top->grants, name);
    }
    json_object_foreach(top->grants, name, count)
    {
        json_array_append_new(locks, json_pack("{s:s, s:I, s:[], s:[]}", "name",
                                               name, "grants_per_second",
                                               json_integer_value(count) *
                                                   1000 / (json_int_t)past_ms,
                                               "holders", "queue"));
    }
    json_object_clear(top->grants);
    top->grants_ns = client_now_ns();
}

static json_t *waits_of(json_t *locks)
{
    size_t i, j;
    json_t *lock, *waiter, *waits = json_array();
    json_array_foreach(locks, i, lock)
    {
        json_array_foreach(value_at(lock, "queue"), j, waiter)
        {
            json_t *wait = json_copy(waiter);
            json_object_set(wait, "name", value_at(lock, "name"));
            json_object_set_new(
                wait, "holder",
                json_string(value_text(lock, "holders.0.client")));
            json_array_append_new(waits, wait);
        }
    }
    return waits;
}

/* Asks for everything; what fails has been explained. */
static int take_look(struct top *top)
{
    json_auto_t *status = NULL, *locks = NULL, *sessions = NULL;
    uint64_t unheard;
    int exit_code = tool_ask(top->tool, WORDS("RAFT.STATUS"), "cannot look",
                             &status);
    if (exit_code != 0) {
        return exit_code;
    }
    json_auto_t *nodes = nodes_ask(top->tool, NODES_MEMBERS);
    status_sum_up(nodes, top->cluster, &unheard);
    exit_code = tool_list(top->tool, "LOCK.LIST", NULL, &locks);
    if (exit_code == 0) {
        exit_code = tool_list(top->tool, "SESSION.LIST", NULL, &sessions);
    }
    if (exit_code != 0) {
        return exit_code;
    }
    add_grants(top, locks);
    json_auto_t *waits = waits_of(locks);
    json_decref(top->look);
    top->look = json_pack("{s:O, s:o, s:o, s:o}", "status", status, "locks",
                          sorted(locks, compare_locks), "waits",
                          sorted(waits, compare_waits), "sessions",
                          sorted(sessions, compare_sessions));
    return 0;
}

/* --- The picture ---------------------------------------------------------- */

static void draw_part(struct top *top, const char *title, const char *key,
                      const struct field *fields, size_t rows_max)
{
    size_t i;
    json_t *row, *rows = value_at(top->look, key);
    json_auto_t *shown = json_array();
    json_array_foreach(rows, i, row)
    {
        if (i < rows_max) {
            json_array_append(shown, row);
        }
    }
    printf("\n%s%s%s (%zu)\n", output_colour(COLOUR_BOLD), title,
           output_colour(COLOUR_NONE), json_array_size(rows));
    output_rows(FORMAT_TABLE, fields, shown);
}

static void print_keys(const struct top *top)
{
    printf("\n  q  ends\n  p  pauses, and goes on\n"
           "  s  shows the next of: locks, waits, sessions, all\n"
           "  ?  shows the picture again\n\n"
           "Of node %s, term %" PRIu64 "; each %" PRIu64 " ms, see -i.\n",
           client_peer(top->tool->client),
           value_number(top->look, "status.term"), top->interval_ms);
}

static void draw_tables(struct top *top)
{
    static const struct {
        const char *title;
        const char *key;
        const struct field *fields;
    } parts[] = {
        [PART_LOCKS] = {"Hottest locks", "locks", lock_fields},
        [PART_WAITS] = {"Longest waits", "waits", wait_fields},
        [PART_SESSIONS] = {"Sessions", "sessions", session_fields},
    };
    unsigned lines = screen_lines(&top->screen);
    size_t parts_count = top->part == PART_ALL ? 3 : 1;
    /* Each has a blank line, a title and a header. */
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
            draw_part(top, parts[part].title, parts[part].key,
                      parts[part].fields, rows);
        }
    }
    if (!top->screen.is_terminal) {
        putchar('\n');
    }
}

static void draw(struct top *top)
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

/* Waits for the next look; false: the end. A first wait is short: it is for the
 * grants to be counted at all. */
static bool wait_for_next(struct top *top, uint64_t until_ns, int *exit_code)
{
    int key;
    while (top->is_paused || client_now_ns() < until_ns) {
        uint64_t wait_ns = top->is_paused ? client_now_ns() + NS_PER_S
                                          : until_ns;
        switch (screen_wait(&top->screen, wait_ns,
                            top->has_events ? client_fd(top->events) : -1,
                            &key)) {
        case SCREEN_OTHER:
            take_events(top);
            break;
        case SCREEN_END:
            *exit_code = 128 + key;
            return false;
        case SCREEN_KEY:
            if (key == 'q') {
                return false;
            }
            top->is_paused ^= key == 'p';
            top->is_helping ^= key == '?';
            top->part = key == 's' ? (top->part + 1) % PART_COUNT : top->part;
            draw(top);
            break;
        case SCREEN_RESIZE:
            draw(top);
            break;
        case SCREEN_TIME:
            break;
        }
    }
    return true;
}

static int look_again_and_again(struct top *top)
{
    int exit_code = 0;
    uint64_t first_ms = u64_min(top->interval_ms, FIRST_LOOK_MS);
    uint64_t until_ns = client_now_ns() + first_ms * NS_PER_MS;
    while (wait_for_next(top, until_ns, &exit_code)) {
        until_ns = client_now_ns() + top->interval_ms * NS_PER_MS;
        if (!top->has_events) {
            begin_events(top);
        }
        exit_code = take_look(top);
        if (exit_code != 0 && (top->look == NULL || top->left != UINT64_MAX)) {
            break;
        }
        if (exit_code == 0) {
            draw(top);
        }
        if (ferror(stdout) || (top->left != UINT64_MAX && --top->left == 0)) {
            break;
        }
    }
    return exit_code;
}

int run_top(struct tool *tool, char **argv)
{
    struct top top = {
        .tool = tool, .interval_ms = INTERVAL_DEFAULT_MS, .left = UINT64_MAX};
    const struct option_row rows[] = {
        {'n', "count", OPTION_NUMBER, .value = &top.left, .min = 1},
        {'i', "interval", OPTION_TIME, .value = &top.interval_ms,
         .min = INTERVAL_MIN_MS},
        {0},
    };
    int exit_code = options_read(tool, argv, rows, 0, 0);
    if (exit_code != 0) {
        return exit_code;
    }
    top.grants = json_object();
    top.events = client_new(&tool->endpoints, tool->tls);
    client_set_push(top.events, take_event, &top);
    begin_events(&top);
    screen_begin(&top.screen);
    exit_code = look_again_and_again(&top);
    screen_end(&top.screen);
    json_decref(top.look);
    json_decref(top.grants);
    client_free(top.events);
    return exit_code;
}
