/* SPDX-License-Identifier: MIT */

/* Counters by class of lock names, for the metrics (metrics.class).
 *
 * A class is a prefix; a name belongs to the longest that it begins with, or to
 * the class "other". There are at most NAME_CLASS_COUNT_MAX and "other", so the
 * metrics stay small whatever names clients choose. To find the class of a name
 * takes one way down a radix tree, of at most as many steps as the prefix has
 * bytes. Threads: one. */

#ifndef HASP_CORE_NAME_CLASSES_H
#define HASP_CORE_NAME_CLASSES_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/radix_tree.h"
#include "core/core.h"

#define NAME_CLASS_COUNT_MAX 16
/* Bytes of a prefix. */
#define NAME_CLASS_SIZE_MAX 60
#define NAME_CLASS_OTHER "other"

/* Lives as long as the core. Zeroed memory has no classes. */
struct name_classes {
    struct radix_tree by_prefix;
    /* Owned; the last one is "other". */
    struct core_class *row[NAME_CLASS_COUNT_MAX + 1];
    uint32_t count; /* 0: nothing is counted. */
};

/* True for a list of prefixes, separated by blanks: NULL, or at most
 * NAME_CLASS_COUNT_MAX printable ones of ASCII without '"' and '\\', each once
 * and none "other". Otherwise 'ret_wrong' is the first that is not allowed, or
 * the first beyond the bound; borrowed from 'text'. */
bool name_classes_are_valid(const char *text, struct bytes *ret_wrong);

/* Uses the prefixes of a valid list from now on. A class that was there before
 * keeps its counts; all other names count as "other" from now on. NULL or an
 * empty list: no classes, not even "other". */
void name_classes_use(struct name_classes *classes, const char *text);
void name_classes_done(struct name_classes *classes);

/* The class of a name; NULL: there are no classes. */
struct core_class *name_classes_find(const struct name_classes *classes,
                                     struct bytes name);

#endif /* HASP_CORE_NAME_CLASSES_H */
