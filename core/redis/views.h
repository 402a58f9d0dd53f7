/* SPDX-License-Identifier: MIT */

/* A key as a run sees it, for those who carry its commands out (keys.h). What
 * fails here says why in keys->error and, as text, in '*ret'. */

#ifndef HASP_CORE_REDIS_VIEWS_H
#define HASP_CORE_REDIS_VIEWS_H

#include "core/redis/keys.h"

/* What carries a command out: 'argument' with its name, 'count' within the
 * bounds of its row. */
typedef bool key_command_fn(struct redis_keys *keys,
                            const struct bytes *argument, uint32_t count,
                            struct value *ret);

struct key_command {
    const char *name;
    uint32_t min; /* Arguments, with the name. */
    uint32_t max;
    key_command_fn *run;
};

/* The tables end with a row without a name. */
extern const struct key_command key_any_commands[];
extern const struct key_command key_text_commands[];
extern const struct key_command key_hash_commands[];
extern const struct key_command key_list_commands[];
extern const struct key_command key_set_commands[];
extern const struct key_command key_zset_commands[];

/* --- Answers -------------------------------------------------------------- */

/* False. */
bool view_fail(struct redis_keys *keys, struct value *ret, const char *format,
               ...) __attribute__((format(printf, 3, 4)));
bool view_fail_integer(struct redis_keys *keys, struct value *ret);
bool view_fail_type(struct redis_keys *keys, struct value *ret);

static inline bool answer_ok(struct redis_keys *keys, struct value *ret)
{
    *ret = value_of_status(keys->arena, "ok", BYTES_LITERAL("OK"));
    return true;
}
static inline bool answer_number(struct value *ret, int64_t number)
{
    *ret = value_of_number((double)number);
    return true;
}
static inline bool answer_nil(struct value *ret)
{
    *ret = value_of_bool(false);
    return true;
}
static inline bool answer_text(struct value *ret, struct bytes text)
{
    *ret = value_of_text(text);
    return true;
}
/* Appends to a list that is an answer; each item is a step of the script. */
void answer_append(struct redis_keys *keys, const struct value *list,
                   struct value item);

/* --- Keys ----------------------------------------------------------------- */

/* Finds a key, whatever it is. False with the error. */
bool view_find(struct redis_keys *keys, struct bytes name,
               struct redis_view **ret_view, struct value *ret);
/* Finds a key that has a value of this type, or none; it counts as looked at
 * from now on. */
bool view_find_type(struct redis_keys *keys, struct bytes name,
                    enum key_type type, struct redis_view **ret_view,
                    struct value *ret);

static inline bool view_is_foreign(const struct redis_view *view)
{
    return view->key.was == REDIS_OTHER;
}
/* True if it is this string. */
static inline bool view_equals(const struct redis_view *view,
                               struct bytes value)
{
    return view->is_there && !view_is_foreign(view) && view->type == KEY_TEXT &&
           bytes_equal(view->value, value);
}
/* As GET tells it: of a lock that is no client's of Redis the holder's value,
 * if it has one; to a script none, since it might take it for its own. */
struct bytes view_text(const struct redis_keys *keys,
                       const struct redis_view *view);
/* As Redis: -2 absent, -1 without a time to live. Of what a session holds its
 * lease, so that clients who wait for so long ask again. */
int64_t view_left_ms(const struct redis_keys *keys,
                     const struct redis_view *view);
enum time_form { TIME_PX, TIME_EX, TIME_PXAT, TIME_EXAT };
/* A time to live, or a point in time, as a time to live, which may be over. */
bool view_px(struct redis_keys *keys, struct bytes text, enum time_form form,
             int64_t *ret_px_ms, struct value *ret);
/* An integer that a double holds. */
bool view_integer(struct bytes text, int64_t *ret_number);

/* Two places of 'count', -1 being the last, as from and behind the last; equal
 * if there is nothing between them. */
bool view_range(struct redis_keys *keys, const struct bytes *argument,
                uint32_t count, uint32_t *ret_from, uint32_t *ret_to,
                struct value *ret);

/* Sets a string. Of a key that is there it must have been looked at, or be the
 * same. It has no time to live until that is said. */
bool view_write(struct redis_keys *keys, struct redis_view *view,
                struct bytes value, struct value *ret);
void view_set_time(struct redis_view *view, uint64_t px_ms);
/* Nothing is done if there is no such key. */
bool view_delete(struct redis_keys *keys, struct redis_view *view,
                 struct value *ret);

/* Reads the members of a key that is there; who asks for no more than whether
 * there is one, or of which type, need not. view_find_type() has done it. */
void view_read_members(struct redis_keys *keys, struct redis_view *view);

/* Before members of a key are added, changed or removed: makes a key that is
 * not there one of this type, without a time to live. */
bool view_edit(struct redis_keys *keys, struct redis_view *view,
               enum key_type type, struct value *ret);
/* After it. 'is_replaced': members came or went, so that whoever holds it now
 * is somebody else. A key without members is deleted. */
bool view_edited(struct redis_keys *keys, struct redis_view *view,
                 bool is_replaced, struct value *ret);
/* Removes members by name, and answers how many there were. */
bool view_remove(struct redis_keys *keys, struct redis_view *view,
                 const struct bytes *name, uint32_t count, struct value *ret);

#endif /* HASP_CORE_REDIS_VIEWS_H */
