/* SPDX-License-Identifier: MIT */

#include "core/name_classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

/* The next word of a list; false: there is none. */
static bool next_word(const char **at, struct bytes *ret_word)
{
    const char *start = *at + strspn(*at, " \t");
    *ret_word = bytes_of(start, strcspn(start, " \t"));
    *at = start + ret_word->size;
    return ret_word->size > 0;
}

/* A prefix is the value of a label, in which nothing has to be escaped. */
static bool word_is_valid(struct bytes word)
{
    if (word.size > NAME_CLASS_SIZE_MAX ||
        bytes_is_word(word, NAME_CLASS_OTHER)) {
        return false;
    }
    for (size_t i = 0; i < word.size; i++) {
        uint8_t c = word.data[i];
        if (c < 0x21 || c > 0x7e || c == '"' || c == '\\') {
            return false;
        }
    }
    return true;
}

bool name_classes_are_valid(const char *text, struct bytes *ret_wrong)
{
    struct bytes words[NAME_CLASS_COUNT_MAX], word;
    uint32_t count = 0;
    for (const char *at = text; at != NULL && next_word(&at, &word); count++) {
        bool is_good = count < NAME_CLASS_COUNT_MAX && word_is_valid(word);
        for (uint32_t i = 0; is_good && i < count; i++) {
            is_good = !bytes_equal(words[i], word);
        }
        if (!is_good) {
            *ret_wrong = word;
            return false;
        }
        words[count] = word;
    }
    return true;
}

static struct core_class *class_new(struct bytes prefix)
{
    struct core_class *class = memory_new(sizeof *class);
    CHECK(prefix.size < sizeof class->prefix);
    memcpy(class->prefix, prefix.data, prefix.size);
    return class;
}

/* Takes the class of this prefix out of the former ones, or makes one. */
static struct core_class *class_take(struct name_classes *former,
                                     struct bytes prefix)
{
    for (uint32_t i = 0; i < former->count; i++) {
        struct core_class *class = former->row[i];
        if (class != NULL && bytes_is_word(prefix, class->prefix)) {
            former->row[i] = NULL;
            return class;
        }
    }
    return class_new(prefix);
}

void name_classes_use(struct name_classes *classes, const char *text)
{
    struct name_classes next = {0};
    struct bytes word;
    for (uint32_t i = 0; i + 1 < classes->count; i++) {
        radix_tree_remove(&classes->by_prefix,
                          bytes_of_text(classes->row[i]->prefix));
    }
    for (const char *at = text; at != NULL && next_word(&at, &word);) {
        CHECK(next.count < NAME_CLASS_COUNT_MAX);
        struct core_class *class = class_take(classes, word);
        next.row[next.count++] = class;
        radix_tree_add(&next.by_prefix, word, class);
    }
    if (next.count > 0) {
        next.row[next.count++] = class_take(classes,
                                            bytes_of_text(NAME_CLASS_OTHER));
    }
    for (uint32_t i = 0; i < classes->count; i++) {
        free(classes->row[i]);
    }
    *classes = next;
}

void name_classes_done(struct name_classes *classes)
{
    name_classes_use(classes, NULL);
}

struct core_class *name_classes_find(const struct name_classes *classes,
                                     struct bytes name)
{
    if (classes->count == 0) {
        return NULL;
    }
    struct core_class *longest = classes->row[classes->count - 1];
    struct radix_tree_walk walk = radix_tree_begin(&classes->by_prefix, name);
    struct core_class *class;
    while ((class = radix_tree_next(&walk)) != NULL) {
        longest = class;
    }
    return longest;
}
