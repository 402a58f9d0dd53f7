/* SPDX-License-Identifier: MIT */

#include "base/edit_distance.h"

#include <string.h>

unsigned word_distance(const char *a, const char *b)
{
    unsigned cost[3][WORD_SIZE_MAX + 1] = {0};
    size_t m = strlen(a), n = strlen(b);
    /* The rows have no room for longer words. */
    if (m > WORD_SIZE_MAX || n > WORD_SIZE_MAX) {
        return WORD_SIZE_MAX;
    }
    for (unsigned j = 0; j <= n; j++) {
        cost[0][j] = j;
    }
    for (unsigned i = 1; i <= m; i++) {
        unsigned *now = cost[i % 3], *before = cost[(i + 2) % 3];
        now[0] = i;
        for (size_t j = 1; j <= n; j++) {
            unsigned best = before[j - 1] + (a[i - 1] != b[j - 1]);
            best = before[j] + 1 < best ? before[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && cost[(i + 1) % 3][j - 2] + 1 < best) {
                best = cost[(i + 1) % 3][j - 2] + 1;
            }
            now[j] = best;
        }
    }
    return cost[m % 3][n];
}
