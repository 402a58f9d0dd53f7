/* SPDX-License-Identifier: MIT */

/* A key as a run sees it, for those who carry its commands out (keys.h). What
 * fails here says why in keys->error and, as text, in '*call->ret'. */

#ifndef HASP_CORE_REDIS_VIEWS_H
#define HASP_CORE_REDIS_VIEWS_H

#include "core/redis/keys.h"

/* A command of a run. */
struct key_call {
    struct redis_keys *keys;
    const struct key_command *command;
    const struct bytes *argument; /* Its name first, ... */
    uint32_t count;               /* ... and as many as its row allows. */
    struct redis_view *view;      /* Of the first key, if the row has a type. */
    struct value *ret;            /* The answer. */
};

struct key_command {
    const char *name;
    uint32_t min; /* Arguments, with the name. */
    uint32_t max;
    /* Carries it out; false with the error. */
    bool (*run)(struct key_call *call);
    enum key_type type; /* Of the first key; KEY_ANY: run() looks for keys. */
    int variant;        /* Tells those apart that share run(). */
};

/* The tables end with a row without a name. */
extern const struct key_command key_any_commands[];
extern const struct key_command key_text_commands[];
extern const struct key_command key_hash_commands[];
extern const struct key_command key_list_commands[];
extern const struct key_command key_set_commands[];
extern const struct key_command key_zset_commands[];

/* So many members are gone through in the time of one step of a script. */
#define MEMBERS_PER_STEP 16

/* Counts that a command goes through so many members once more, besides the one
 * time for which view_find_type() has counted; false, with the error, once it
 * would hold up other clients. */
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
/* A list, empty so far. */
static inline bool answer_list(struct key_call *call)
{
    return view_answer(call, value_new_table(call->keys->arena));
}
/* Appends to it; each item is a step of the script. */
void answer_append(struct key_call *call, struct value item);
/* How many bytes the answer has that is a text; 0: it is nil. */
bool answer_length(struct key_call *call);
/* A list of the first key's members, from 'from' on and before 'to'. */
bool answer_members(struct key_call *call, uint32_t from, uint32_t to);
/* How many members the first key has. */
bool answer_count(struct key_call *call);

/* --- Keys ----------------------------------------------------------------- */

/* Finds a key, whatever it is. False with the error. */
bool view_find(struct key_call *call, struct bytes name,
               struct redis_view **ret_view);
/* Finds a key that has a value of this type, or none; it counts as looked at
 * from now on. */
bool view_find_type(struct key_call *call, struct bytes name,
                    enum key_type type, struct redis_view **ret_view);
/* Finds the first key: call->view. */
bool view_find_first(struct key_call *call, enum key_type type);

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
/* Likewise as an answer; nil if there is no such key. */
struct value view_value(const struct redis_keys *keys,
                        const struct redis_view *view);
/* As Redis: -2 absent, -1 without a time to live. Of what a session holds its
 * lease, so that clients who wait for so long ask again. */
int64_t view_left_ms(const struct redis_keys *keys,
                     const struct redis_view *view);
enum time_form { TIME_PX, TIME_EX, TIME_PXAT, TIME_EXAT };
/* A time to live, or a point in time, as a time to live, which may be over. */
bool view_px(struct key_call *call, struct bytes text, enum time_form form,
             int64_t *ret_px_ms);
/* An integer that a double holds. */
bool view_integer(struct bytes text, int64_t *ret_number);
/* The same of an argument; false with the error. */
bool view_take_integer(struct key_call *call, uint32_t at, int64_t *ret_number);
/* How many members a command takes that may say so in its third argument. */
bool view_take_wanted(struct key_call *call, int64_t *ret_wanted);

/* Two places of 'count' in arguments 2 and 3, -1 being the last, as from and
 * behind the last; equal if there is nothing between them. */
bool view_range(struct key_call *call, uint32_t count, uint32_t *ret_from,
                uint32_t *ret_to);
/* The text of a number. */
struct value view_digits(struct redis_keys *keys, int64_t number);

/* Sets a string. Of a key that is there it must have been looked at, or be the
 * same. It has no time to live until that is said. */
bool view_write(struct key_call *call, struct redis_view *view,
                struct bytes value);
void view_set_time(struct redis_view *view, uint64_t px_ms);
/* Nothing is done if there is no such key. */
bool view_delete(struct key_call *call, struct redis_view *view);

/* Reads the members of a key that is there; who asks for no more than whether
 * there is one, or of which type, need not. view_find_type() has done it. */
void view_read_members(struct redis_keys *keys, struct redis_view *view);

/* Before members of a key are added, changed or removed: makes a key that is
 * not there one of this type, without a time to live. */
bool view_edit(struct key_call *call, struct redis_view *view,
               enum key_type type);
/* After it. 'is_replaced': members came or went, so that whoever holds it now
 * is somebody else. A key without members is deleted. */
bool view_edited(struct key_call *call, struct redis_view *view,
                 bool is_replaced);
/* Removes members of the first key by name, and answers how many there were. */
bool view_remove(struct key_call *call);

#endif /* HASP_CORE_REDIS_VIEWS_H */
