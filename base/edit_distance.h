/* SPDX-License-Identifier: MIT */

/* How alike two words are, to ask "did you mean ...?". */

#ifndef HASP_BASE_EDIT_DISTANCE_H
#define HASP_BASE_EDIT_DISTANCE_H

/* Longer words are like none. */
#define WORD_SIZE_MAX 64

/* How many letters must be added, removed, changed or swapped with the next one
 * to make 'b' of 'a' (Damerau 1964, Levenshtein 1966); WORD_SIZE_MAX if one is
 * longer than that. */
unsigned word_distance(const char *a, const char *b);

#endif /* HASP_BASE_EDIT_DISTANCE_H */
