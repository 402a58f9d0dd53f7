/* SPDX-License-Identifier: MIT */

/* Appends applied acts to a file, as lines of JSON. */

#include "node/audit_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "lockfsm/user/audit.h"
#include "net/json.h"
#include "node/node.h"

/* Far longer than a line, since an act's texts are bounded. */
#define TAIL_SIZE 65536
/* Values in the map of an act or a denial, at most. */
#define MAP_VALUES_MAX 64
/* Acts whose lines the loop makes at a time. */
#define ACTS_AT_ONCE 64

bool audit_gap_next(struct audit_place *place,
                    const struct audit_source *source,
                    struct audit_gap *ret_gap)
{
    bool is_same_life = strcmp(place->cluster, source->cluster) == 0;
    CHECK(source->first_of_life > 0 && source->oldest > 0);
    /* A restored state numbers its acts from where the backup ended, so numbers
     * that the file already has are used again for others (rule 21). */
    if (!is_same_life && place->number >= source->first_of_life) {
        *ret_gap = (struct audit_gap){.from = source->first_of_life,
                                      .to = place->number,
                                      .why = "undone by a restore"};
        place->number = source->first_of_life - 1;
    } else if (place->number + 1 < source->oldest) {
        *ret_gap = (struct audit_gap){.from = place->number + 1,
                                      .to = source->oldest - 1,
                                      .why = "no longer known to this node"};
        place->number = source->oldest - 1;
    } else {
        return false;
    }
    memcpy(place->cluster, source->cluster, sizeof place->cluster);
    return true;
}

/* --- The worker ----------------------------------------------------------- */

static int audit_file_fail(struct audit_file *file, const char *what)
{
    snprintf(file->why, sizeof file->why, "cannot %s '%.300s': %s", what,
             file->node->options.audit_file, strerror(errno));
    return HASP_EIO;
}

static int audit_file_refuse(struct audit_file *file, const char *what)
{
    snprintf(file->why, sizeof file->why,
             "'%.300s' %s, so nothing is written to it: set audit.file to "
             "another file",
             file->node->options.audit_file, what);
    return HASP_EINVALID;
}

static bool read_place(const char *line, size_t size, struct audit_place *place)
{
    json_t *document = json_loadb(line, size, 0, NULL);
    const json_t *number = json_object_get(document, "number");
    const json_t *cluster = json_object_get(document, "cluster");
    const char *text = json_is_string(cluster) ? json_string_value(cluster)
                                               : "";
    bool is_ours = json_is_integer(number) && json_integer_value(number) >= 0 &&
                   (json_is_null(cluster) || json_is_string(cluster)) &&
                   strlen(text) < CLUSTER_ID_TEXT_SIZE;
    if (is_ours) {
        snprintf(place->cluster, sizeof place->cluster, "%s", text);
        place->number = (uint64_t)json_integer_value(number);
    }
    json_decref(document);
    return is_ours;
}

/* Finds the last line in 'tail', the file's end, and cuts off a torn line after
 * it. A file of another kind is not changed. */
static int find_place(struct audit_file *file, const char *tail, size_t size,
                      off_t at)
{
    const char *end = memrchr(tail, '\n', size);
    size_t whole = end != NULL ? (size_t)(end - tail) : 0;
    if (end != NULL) {
        const char *before = memrchr(tail, '\n', whole);
        const char *line = before != NULL ? before + 1 : tail;
        if (!read_place(line, (size_t)(end - line), &file->to)) {
            return audit_file_refuse(file, "has lines that are not acts");
        }
        whole++;
    } else if (at > 0 || (size > 0 && tail[0] != '{' && tail[0] != '\0')) {
        return audit_file_refuse(file, "has no line of an act");
    }
    file->is_empty = whole == 0;
    /* A process that was killed can leave part of a line; the act is written
     * again, whole. */
    if (whole < size && ftruncate(file->fd, at + (off_t)whole) != 0) {
        return audit_file_fail(file, "cut the torn end of");
    }
    return 0;
}

static int read_tail(struct audit_file *file, off_t size)
{
    char *tail = memory_new(TAIL_SIZE);
    off_t at = size > TAIL_SIZE ? size - TAIL_SIZE : 0;
    size_t got = 0, wanted = (size_t)(size - at);
    ssize_t n = 1;
    while (got < wanted && n > 0) {
        n = pread(file->fd, tail + got, wanted - got, at + (off_t)got);
        got += n > 0 ? (size_t)n : 0;
    }
    int rv = n < 0 ? audit_file_fail(file, "read")
                   : find_place(file, tail, got, at);
    free(tail);
    return rv;
}

static void close_file(struct audit_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
        file->fd = -1;
    }
}

static int open_file(struct audit_file *file)
{
    struct stat found;
    close_file(file);
    file->fd = open(
        file->node->options.audit_file,
        O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (file->fd < 0 || fstat(file->fd, &found) != 0) {
        return audit_file_fail(file, "open");
    }
    /* A write to a FIFO could block, and lines written to a device are lost.
     * O_NONBLOCK lets open() return from a FIFO. */
    if (!S_ISREG(found.st_mode)) {
        return audit_file_refuse(file, "is not a regular file");
    }
    if (flock(file->fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK
                   ? audit_file_refuse(file, "is written by another node")
                   : audit_file_fail(file, "lock");
    }
    return read_tail(file, found.st_size);
}

/* Appends all lines, or none. */
static int audit_file_append(struct audit_file *file)
{
    struct stat before;
    size_t done = 0;
    if (fstat(file->fd, &before) != 0) {
        return audit_file_fail(file, "read the size of");
    }
    while (done < file->lines.size) {
        ssize_t n = write(file->fd, file->lines.data + done,
                          file->lines.size - done);
        if (n < 0 && errno != EINTR) {
            int rv = audit_file_fail(file, "write");
            /* If this fails, the torn line is cut off when the file is next
             * opened. */
            (void)!ftruncate(file->fd, before.st_size);
            return rv;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return fdatasync(file->fd) != 0 ? audit_file_fail(file, "flush") : 0;
}

static void audit_file_carry_out(uv_work_t *work)
{
    struct audit_file *file = work->data;
    file->error = file->lines.size > 0 ? audit_file_append(file)
                                       : open_file(file);
    if (file->error != 0) {
        close_file(file);
    }
}

/* --- The loop ------------------------------------------------------------- */

/* Subtracts the denials that have been written. */
static void forget_denials(struct core *core)
{
    struct core_denial *denial;
    for (uint32_t i = 0; (denial = core_denial(core, i)) != NULL; i++) {
        CHECK(denial->unwritten_count >= denial->in_writing);
        denial->unwritten_count -= denial->in_writing;
        denial->in_writing = 0;
    }
}

static void carried_out(uv_work_t *work, int status)
{
    struct audit_file *file = work->data;
    CHECK(status == 0 && file->is_busy);
    file->is_busy = false;
    if (file->error != 0) {
        file->failed_count++;
        file->must_open = true;
        file->retry_ns = turn_now() + NS_PER_S;
        if (!file->has_failed) {
            LOG_ERROR("audit file not written, retried each second",
                      "reason=%s", log_quote(file->why));
        }
        file->has_failed = true;
        return;
    }
    if (file->has_denials) {
        forget_denials(file->node->core);
    }
    file->is_empty &= file->lines.size == 0;
    file->place = file->to;
    turn_wake(&file->node->turn); /* More acts may be waiting. */
}

static void audit_file_start(struct audit_file *file)
{
    CHECK(!file->is_busy);
    file->is_busy = true;
    file->error = 0;
    CHECK(uv_queue_work(&file->node->uv, &file->work, audit_file_carry_out,
                        carried_out) == 0);
}

static json_t *line_new(const char *cluster, uint64_t number)
{
    json_t *line = json_object();
    json_put(line, "cluster",
             cluster[0] != '\0' ? json_string(cluster) : json_null());
    json_put(line, "number", json_integer((json_int_t)number));
    return line;
}

static void put_gap(const struct audit_gap *gap,
                    const struct audit_place *behind, struct buffer *out)
{
    json_t *line = line_new(behind->cluster, behind->number);
    json_put(line, "gap",
             json_pack("{sI, sI, ss}", "from", (json_int_t)gap->from, "to",
                       (json_int_t)gap->to, "why", gap->why));
    json_write(line, out);
}

/* The map that AUDIT.LIST or AUDIT.DENIED has of it. */
static json_t *json_of_map(struct buffer *map)
{
    struct resp_reply reply = {0};
    size_t used;
    int error = resp_parse_reply(buffer_bytes(map), MAP_VALUES_MAX, &reply,
                                 &used);
    CHECK(error == 0);
    json_t *json = json_of_reply(&reply, 0, NULL);
    resp_reply_done(&reply);
    return json;
}

static void audit_file_put_act(const struct act *act, const char *cluster,
                               struct buffer *out)
{
    AUTO(buffer_done) struct buffer map = {0};
    core_act_put(act, &(struct resp_writer){&map, 3});
    json_t *line = line_new(cluster, act->number);
    CHECK(json_object_update_new(line, json_of_map(&map)) == 0);
    json_write(line, out);
}

static void audit_file_put_denial(const struct core_denial *denial,
                                  const struct audit_place *behind,
                                  struct buffer *out)
{
    AUTO(buffer_done) struct buffer map = {0};
    core_denial_put(denial, denial->in_writing, &(struct resp_writer){&map, 3});
    json_t *line = line_new(behind->cluster, behind->number);
    json_put(line, "denied", json_of_map(&map));
    json_write(line, out);
}

/* Writes the denials that the file does not have yet. */
static void put_denials(struct audit_file *file)
{
    struct core_denial *denial;
    file->has_denials = false;
    for (uint32_t i = 0; (denial = core_denial(file->node->core, i)) != NULL;
         i++) {
        denial->in_writing = denial->unwritten_count;
        if (denial->in_writing > 0) {
            audit_file_put_denial(denial, &file->to, &file->lines);
            file->has_denials = true;
        }
    }
}

/* Writes the lines of the acts after file->to, at most ACTS_AT_ONCE. */
static void put_acts(struct audit_file *file, const struct lockfsm *fsm,
                     const struct audit_source *source)
{
    const struct list *acts = lockfsm_acts(fsm);
    const struct list *at = acts;
    struct audit_place *to = &file->to;
    while (at->prev != acts &&
           LIST_ENTRY(at->prev, const struct act, in_order)->number >
               to->number) {
        at = at->prev;
    }
    for (int i = 0; i < ACTS_AT_ONCE && at != acts; i++, at = at->next) {
        const struct act *act = LIST_ENTRY(at, const struct act, in_order);
        /* The state does not have the cluster id of an earlier epoch. */
        const char *cluster = act->number >= source->first_of_life
                                  ? source->cluster
                                  : "";
        CHECK(act->number == to->number + 1);
        audit_file_put_act(act, cluster, &file->lines);
        snprintf(to->cluster, sizeof to->cluster, "%s", cluster);
        to->number = act->number;
    }
}

static void put_lines(struct audit_file *file, const struct lockfsm *fsm)
{
    struct audit_gap gap;
    uint64_t first = lockfsm_first_act(fsm);
    struct audit_source source = {
        /* 0 if there was only one epoch. */
        .first_of_life = first > 0 ? first : 1,
        .oldest = lockfsm_last_act(fsm) - lockfsm_act_count(fsm) + 1};
    uint8_t cluster[CLUSTER_ID_SIZE];
    lockfsm_cluster_id(fsm, cluster);
    cluster_id_format(cluster, source.cluster);
    if (source.cluster[0] == '\0') {
        return; /* There is no state yet, or its epoch has not started. */
    }
    if (file->is_empty && file->to.number > 0) {
        json_t *line = line_new(file->to.cluster, file->to.number);
        json_put(line, "goes_on", json_true());
        json_write(line, &file->lines);
    }
    while (audit_gap_next(&file->to, &source, &gap)) {
        put_gap(&gap, &file->to, &file->lines);
    }
    if (lockfsm_last_act(fsm) > file->to.number) {
        put_acts(file, fsm, &source);
    }
    put_denials(file);
}

void audit_file_init(struct audit_file *file, struct hasp_node *node)
{
    *file = (struct audit_file){.node = node, .fd = -1, .must_open = true};
    file->work.data = file;
}

void audit_file_turn(struct audit_file *file, uint64_t now_ns)
{
    if (file->node->options.audit_file == NULL || file->is_busy ||
        now_ns < file->retry_ns) {
        return;
    }
    CHECK(file->node->has_begun);
    buffer_clear(&file->lines);
    /* 'place' advances only when the worker reports that the lines are durable;
     * until then they are written again. */
    file->to = file->place;
    file->has_denials = false;
    if (file->must_open) {
        file->must_open = false;
        audit_file_start(file);
        return;
    }
    put_lines(file, core_state(file->node->core));
    if (file->lines.size > 0) {
        audit_file_start(file);
    } else if (file->has_failed) {
        file->has_failed = false;
        LOG_INFO("audit file is written again", "number=%" PRIu64,
                 file->place.number);
    }
}

void audit_file_reopen(struct audit_file *file)
{
    file->must_open = true;
    file->retry_ns = 0;
    turn_wake(&file->node->turn);
}

void audit_file_finish(struct audit_file *file)
{
    CHECK(!file->is_busy);
    if (file->fd < 0 || file->must_open) {
        return;
    }
    buffer_clear(&file->lines);
    file->to = file->place;
    put_lines(file, core_state(file->node->core));
    if (file->lines.size > 0 && audit_file_append(file) != 0) {
        LOG_ERROR("audit file not written", "reason=%s", log_quote(file->why));
    }
}

void audit_file_done(struct audit_file *file)
{
    CHECK(!file->is_busy);
    close_file(file);
    buffer_done(&file->lines);
}
