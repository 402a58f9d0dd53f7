/* SPDX-License-Identifier: MIT */

/* A key as a run sees it, for the functions that execute commands (keys.h). A
 * function that fails sets keys->error and, as a text, '*call->ret'. */

#ifndef HASP_CORE_REDIS_VIEWS_H
#define HASP_CORE_REDIS_VIEWS_H

#include "core/redis/keys.h"

/* A command of a run. */
struct key_call {
    struct redis_keys *keys;
    const struct key_command *command;
    const struct bytes *argument; /* The name first, ... */
    uint32_t count;               /* ... as many as the row allows. */
    struct redis_view *view;      /* The first key's, if the row has a type. */
    struct value *ret;            /* The answer. */
};

struct key_command {
    const char *name;
    uint32_t min; /* Arguments, with the name. */
    uint32_t max;
    /* Executes it; false with the error. */
    bool (*run)(struct key_call *call);
    enum key_type type; /* The first key's; KEY_ANY: run() finds the keys. */
    int variant;        /* Distinguishes commands that share run(). */
};

/* Each table ends with a row without a name. */
extern const struct key_command key_any_commands[];
extern const struct key_command key_text_commands[];
extern const struct key_command key_hash_commands[];
extern const struct key_command key_list_commands[];
extern const struct key_command key_set_commands[];
extern const struct key_command key_zset_commands[];

/* Members read in the time of one step of a script. */
#define MEMBERS_PER_STEP 16

/* Counts that a command reads this many members once more, besides the one time
 * for which view_find_type() has counted; false, with the error, once it would
 * delay other clients. */
bool view_spend(struct key_call *call, uint32_t members);

/* --- Answers -------------------------------------------------------------- */

/* False. */
bool view_fail(struct key_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool view_fail_integer(struct key_call *call);
bool view_fail_type(struct key_call *call);

static inline bool view_answer(struct key_call *call, struct value value)
{
    *call->ret = value;
    return true;
}
static inline bool answer_ok(struct key_call *call)
{
    return view_answer(
        call, value_of_status(call->keys->arena, "ok", BYTES_LITERAL("OK")));
}
static inline bool answer_number(struct key_call *call, int64_t number)
{
    return view_answer(call, value_of_number((double)number));
}
static inline bool answer_nil(struct key_call *call)
{
    return view_answer(call, value_of_bool(false));
}
static inline bool answer_text(struct key_call *call, struct bytes text)
{
    return view_answer(call, value_of_text(text));
}
/* An empty list. */
static inline bool answer_list(struct key_call *call)
{
    return view_answer(call, value_new_table(call->keys->arena));
}
/* Appends to the list; each item is a step of the script. */
void answer_append(struct key_call *call, struct value item);
/* Answers the length of the text in the answer; 0 if it is nil. */
bool answer_length(struct key_call *call);
/* Answers the first key's members, from 'from' to before 'to'. */
bool answer_members(struct key_call *call, uint32_t from, uint32_t to);
/* Answers how many members the first key has. */
bool answer_count(struct key_call *call);

/* --- Keys ----------------------------------------------------------------- */

/* Finds a key of any kind. False with the error. */
bool view_find(struct key_call *call, struct bytes name,
               struct redis_view **ret_view);
/* Finds a key that has a value of this type, or none; it counts as read from
 * now on. */
bool view_find_type(struct key_call *call, struct bytes name,
                    enum key_type type, struct redis_view **ret_view);
/* Finds the first key: call->view. */
bool view_find_first(struct key_call *call, enum key_type type);

static inline bool view_is_foreign(const struct redis_view *view)
{
    return view->key.was == REDIS_OTHER;
}
/* True if its value is this string. */
static inline bool view_equals(const struct redis_view *view,
                               struct bytes value)
{
    return view->is_there && !view_is_foreign(view) && view->type == KEY_TEXT &&
           bytes_equal(view->value, value);
}
/* As GET returns it: for a lock that does not belong to a Redis client, the
 * holder's value, if it has one; to a script nothing, because the script might
 * take it for its own. */
struct bytes view_text(const struct redis_keys *keys,
                       const struct redis_view *view);
/* The same as an answer; nil if the key does not exist. */
struct value view_value(const struct redis_keys *keys,
                        const struct redis_view *view);
/* As in Redis: -2 absent, -1 without a time to live. For a lock that a session
 * holds, its lease, so that clients that wait this long ask again. */
int64_t view_left_ms(const struct redis_keys *keys,
                     const struct redis_view *view);
enum time_form { TIME_PX, TIME_EX, TIME_PXAT, TIME_EXAT };
/* Converts a time to live or a point in time to a time to live, which may be
 * over. */
bool view_px(struct key_call *call, struct bytes text, enum time_form form,
             int64_t *ret_px_ms);
/* An integer that a double holds. */
bool view_integer(struct bytes text, int64_t *ret_number);
/* The same of an argument; false with the error. */
bool view_take_integer(struct key_call *call, uint32_t at, int64_t *ret_number);
/* How many members a command removes that accepts a count as its third
 * argument. */
bool view_take_wanted(struct key_call *call, int64_t *ret_wanted);

/* Converts two places among 'count' in arguments 2 and 3, -1 being the last, to
 * 'from' and after the last; they are equal if the range is empty. */
bool view_range(struct key_call *call, uint32_t count, uint32_t *ret_from,
                uint32_t *ret_to);
/* The text of a number. */
struct value view_digits(struct redis_keys *keys, int64_t number);

/* Sets a string. A key that exists must have been read, or have the same value.
 * It has no time to live until one is set. */
bool view_write(struct key_call *call, struct redis_view *view,
                struct bytes value);
void view_set_time(struct redis_view *view, uint64_t px_ms);
/* Does nothing if the key does not exist. */
bool view_delete(struct key_call *call, struct redis_view *view);

/* Reads the members of a key that exists. view_find_type() has done it; a
 * caller that needs only the existence or the type does not need them. */
void view_read_members(struct redis_keys *keys, struct redis_view *view);

/* Called before members of a key are added, changed or removed: a key that does
 * not exist becomes one of this type, without a time to live. */
bool view_edit(struct key_call *call, struct redis_view *view,
               enum key_type type);
/* Called after it. 'is_replaced': members were added or removed, so that its
 * holder is now another one. A key without members is deleted. */
bool view_edited(struct key_call *call, struct redis_view *view,
                 bool is_replaced);
/* Removes members of the first key by name, and answers how many it had. */
bool view_remove(struct key_call *call);

#endif /* HASP_CORE_REDIS_VIEWS_H */
