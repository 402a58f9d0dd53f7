/* SPDX-License-Identifier: MIT */

#include "core/redis/script_pattern.h"

#include <string.h>

#include "base/check.h"
#include "core/redis/script.h"

#define NONE SIZE_MAX
#define OPEN (SIZE_MAX - 1) /* The size of a capture that is not closed. */
#define DEPTH_MAX 200

struct matcher {
    struct bytes text;
    struct bytes pattern;
    struct pattern_match *found;
    uint32_t *steps;
    uint32_t steps_max;
    uint32_t depth;
};

static size_t script_pattern_match(struct matcher *m, size_t s, size_t p);

/* Records the first error, and returns NONE: nothing matches. */
static size_t script_pattern_fail(struct matcher *m, const char *error)
{
    if (m->found->error == NULL) {
        m->found->error = error;
    }
    return NONE;
}

/* Counts the steps of reading 'size' bytes; false, with the error, if the
 * script has none left for them. */
static bool script_pattern_spend(struct matcher *m, size_t size)
{
    *m->steps += 1 + (uint32_t)(size / SCRIPT_STEP_SIZE);
    if (*m->steps > m->steps_max) {
        (void)script_pattern_fail(m, "pattern takes too many steps");
        return false;
    }
    return true;
}

static uint8_t pattern_at(const struct matcher *m, size_t p)
{
    return p < m->pattern.size ? m->pattern.data[p] : 0;
}

/* --- Single characters ---------------------------------------------------- */

/* Returns the end of the class that begins at 'p' (a character, %x, or a set);
 * NONE, with the error, if it has no end. */
static size_t class_end(struct matcher *m, size_t p)
{
    uint8_t c = pattern_at(m, p++);
    if (c == '%') {
        return p < m->pattern.size
                   ? p + 1
                   : script_pattern_fail(m,
                                         "malformed pattern (ends with '%')");
    }
    if (c == '[') {
        p += pattern_at(m, p) == '^';
        do { /* The first one may be ']' itself. */
            if (p >= m->pattern.size) {
                return script_pattern_fail(m,
                                           "malformed pattern (missing ']')");
            }
            p += m->pattern.data[p] == '%' ? 2 : 1;
        } while (pattern_at(m, p) != ']' || p >= m->pattern.size);
        p++;
    }
    return p;
}

static bool is_in(uint8_t c, uint8_t first, uint8_t last)
{
    return first <= c && c <= last;
}

static bool is_of_class(uint8_t c, uint8_t class)
{
    bool is_letter = is_in(c | 0x20, 'a', 'z'), is_digit = is_in(c, '0', '9');
    /* ASCII alone, like Redis, whatever the locale of the node is. */
    bool is;
    switch (class | 0x20) {
    case 'a':
        is = is_letter;
        break;
    case 'c':
        is = c < 0x20 || c == 0x7f;
        break;
    case 'd':
        is = is_digit;
        break;
    case 'l':
        is = is_in(c, 'a', 'z');
        break;
    case 'p':
        is = is_in(c, 0x21, 0x7e) && !is_letter && !is_digit;
        break;
    case 's':
        is = c == ' ' || is_in(c, '\t', '\r');
        break;
    case 'u':
        is = is_in(c, 'A', 'Z');
        break;
    case 'w':
        is = is_letter || is_digit;
        break;
    case 'x':
        is = is_digit || is_in(c | 0x20, 'a', 'f');
        break;
    case 'z':
        is = c == 0;
        break;
    default:
        return c == class;
    }
    return is_in(class, 'A', 'Z') ? !is : is;
}

/* True if the set, from '[' at 'p' to the byte before 'end', contains the
 * character. */
static bool is_of_set(const struct matcher *m, uint8_t c, size_t p, size_t end)
{
    bool is_not = pattern_at(m, p + 1) == '^';
    CHECK(p < end && end <= m->pattern.size);
    p += is_not ? 2 : 1;
    while (p < end - 1) {
        uint8_t first = m->pattern.data[p];
        if (first == '%') {
            if (is_of_class(c, pattern_at(m, p + 1))) {
                return !is_not;
            }
            p += 2;
        } else if (pattern_at(m, p + 1) == '-' && p + 2 < end - 1) {
            if (is_in(c, first, m->pattern.data[p + 2])) {
                return !is_not;
            }
            p += 3;
        } else if (first == c) {
            return !is_not;
        } else {
            p++;
        }
    }
    return is_not;
}

static bool is_single(const struct matcher *m, size_t s, size_t p, size_t end)
{
    if (s >= m->text.size) {
        return false;
    }
    uint8_t c = m->text.data[s];
    switch (m->pattern.data[p]) {
    case '.':
        return true;
    case '%':
        return is_of_class(c, m->pattern.data[p + 1]);
    case '[':
        return is_of_set(m, c, p, end);
    default:
        return m->pattern.data[p] == c;
    }
}

/* --- Parts ---------------------------------------------------------------- */

/* Matches as many characters as possible, and fewer if the rest needs it. */
static size_t match_most(struct matcher *m, size_t s, size_t p, size_t end)
{
    size_t count = 0;
    while (is_single(m, s + count, p, end)) {
        if (!script_pattern_spend(m, end - p)) {
            return NONE;
        }
        count++;
    }
    for (;; count--) {
        size_t rest = script_pattern_match(m, s + count, end + 1);
        if (rest != NONE || count == 0 || m->found->error != NULL) {
            return rest;
        }
    }
}

/* Matches as few characters as the rest allows. */
static size_t match_least(struct matcher *m, size_t s, size_t p, size_t end)
{
    for (;; s++) {
        size_t rest = script_pattern_match(m, s, end + 1);
        if (rest != NONE || m->found->error != NULL ||
            !script_pattern_spend(m, end - p) || !is_single(m, s, p, end)) {
            return rest;
        }
    }
}

static size_t open_capture(struct matcher *m, size_t s, size_t p, size_t size)
{
    struct pattern_match *found = m->found;
    if (found->count == PATTERN_CAPTURES_MAX) {
        return script_pattern_fail(m, "too many captures");
    }
    found->capture[found->count++] = (struct pattern_capture){s, size};
    size_t rest = script_pattern_match(m, s, p);
    if (rest == NONE) {
        found->count--;
    }
    return rest;
}

static size_t close_capture(struct matcher *m, size_t s, size_t p)
{
    uint32_t i = m->found->count;
    while (i > 0 && m->found->capture[i - 1].size != OPEN) {
        i--;
    }
    if (i == 0) {
        return script_pattern_fail(m, "invalid pattern capture");
    }
    struct pattern_capture *capture = &m->found->capture[i - 1];
    CHECK(capture->from <= s); /* Matching goes forward. */
    capture->size = s - capture->from;
    size_t rest = script_pattern_match(m, s, p);
    if (rest == NONE) {
        capture->size = OPEN;
    }
    return rest;
}

/* Matches %1 to %9: the text of that capture again. Returns its end, or
 * NONE. */
static size_t same_again(struct matcher *m, size_t s, uint8_t digit)
{
    uint32_t i = (uint32_t)(digit - '1');
    if (digit == '0' || i >= m->found->count ||
        m->found->capture[i].size >= OPEN) {
        return script_pattern_fail(m, "invalid capture index");
    }
    size_t size = m->found->capture[i].size;
    CHECK(size <= m->text.size &&
          m->found->capture[i].from <= m->text.size - size);
    bool is_same = m->text.size - s >= size && script_pattern_spend(m, size) &&
                   memcmp(m->text.data + m->found->capture[i].from,
                          m->text.data + s, size) == 0;
    return is_same ? s + size : NONE;
}

/* Matches %bxy: from x to the y that balances it. Returns its end, or NONE. */
static size_t script_pattern_balanced(struct matcher *m, size_t s, size_t p)
{
    if (p + 1 >= m->pattern.size) {
        return script_pattern_fail(m, "unbalanced pattern");
    }
    uint8_t open = m->pattern.data[p], close = m->pattern.data[p + 1];
    size_t depth = 1;
    if (s >= m->text.size || m->text.data[s] != open) {
        return NONE;
    }
    /* Each byte is paid for: patterns of a client run in the loop of the
     * node. */
    while (++s < m->text.size && script_pattern_spend(m, 0)) {
        uint8_t c = m->text.data[s];
        if (c == close) {
            if (--depth == 0) {
                return s + 1;
            }
        } else if (c == open) {
            depth++;
        }
    }
    return NONE;
}

/* Matches one character of the pattern with its repetition. Either the match is
 * complete and the return value is its result, or it continues at '*s' and
 * '*p'. */
static size_t match_single(struct matcher *m, size_t *s, size_t *p,
                           bool *ret_is_over)
{
    size_t end = class_end(m, *p);
    *ret_is_over = true;
    /* Backtracking is exponential in the worst case; the steps bound it. */
    if (end == NONE || !script_pattern_spend(m, end - *p)) {
        return NONE;
    }
    bool is_there = is_single(m, *s, *p, end);
    switch (pattern_at(m, end)) {
    case '*':
        return match_most(m, *s, *p, end);
    case '+':
        return is_there ? match_most(m, *s + 1, *p, end) : NONE;
    case '-':
        return match_least(m, *s, *p, end);
    case '?':
        if (is_there) {
            size_t rest = script_pattern_match(m, *s + 1, end + 1);
            if (rest != NONE || m->found->error != NULL) {
                return rest;
            }
        }
        *p = end + 1;
        break;
    default:
        if (!is_there) {
            return NONE;
        }
        *s += 1;
        *p = end;
    }
    *ret_is_over = false;
    return NONE;
}

static size_t match_from(struct matcher *m, size_t s, size_t p)
{
    while (p < m->pattern.size) {
        uint8_t c = m->pattern.data[p], next = pattern_at(m, p + 1);
        bool is_over;
        if (!script_pattern_spend(m, 0)) {
            return NONE;
        }
        if (c == '(') {
            return next == ')' ? open_capture(m, s, p + 2, PATTERN_POSITION)
                               : open_capture(m, s, p + 1, OPEN);
        }
        if (c == ')') {
            return close_capture(m, s, p + 1);
        }
        if (c == '$' && p + 1 == m->pattern.size) {
            return s == m->text.size ? s : NONE;
        }
        if (c == '%' && next == 'f') { /* Unlike the letter, as in Lua. */
            return script_pattern_fail(m,
                                       "hasp does not support frontiers (%f) "
                                       "in patterns");
        }
        if (c == '%' && (next == 'b' || is_in(next, '0', '9'))) {
            s = next == 'b' ? script_pattern_balanced(m, s, p + 2)
                            : same_again(m, s, next);
            p += next == 'b' ? 4 : 2;
            if (s == NONE) {
                return NONE;
            }
            continue;
        }
        size_t rest = match_single(m, &s, &p, &is_over);
        if (is_over) {
            return rest;
        }
    }
    return s;
}

static size_t script_pattern_match(struct matcher *m, size_t s, size_t p)
{
    CHECK(s <= m->text.size && p <= m->pattern.size);
    if (++m->depth > DEPTH_MAX) {
        m->depth--;
        return script_pattern_fail(m, "pattern too complex");
    }
    size_t end = match_from(m, s, p);
    CHECK(m->depth > 0);
    m->depth--;
    return end;
}

bool pattern_find(struct bytes text, struct bytes pattern, size_t from,
                  uint32_t *steps, uint32_t steps_max,
                  struct pattern_match *ret_match)
{
    bool is_anchored = pattern.size > 0 && pattern.data[0] == '^';
    struct matcher m = {.text = text,
                        .pattern = pattern,
                        .found = ret_match,
                        .steps = steps,
                        .steps_max = steps_max};
    ret_match->error = NULL;
    for (; from <= text.size; from++) {
        ret_match->count = 0;
        ret_match->from = from;
        ret_match->to = script_pattern_match(&m, from, is_anchored ? 1 : 0);
        if (ret_match->error != NULL) {
            return false;
        }
        if (ret_match->to != NONE) {
            CHECK(from <= ret_match->to && ret_match->to <= text.size);
            for (uint32_t i = 0; i < ret_match->count; i++) {
                /* "(a" without an end matches: only here is it known that no
                 * ")" followed. */
                if (ret_match->capture[i].size == OPEN) {
                    ret_match->error = "unfinished capture";
                    return false;
                }
            }
            return true;
        }
        if (is_anchored) {
            return false;
        }
    }
    return false;
}
