/* SPDX-License-Identifier: MIT */

/* A seeded generator (SplitMix64, Steele et al., OOPSLA 2014): the only source
 * of randomness of pure code and of the simulator. Not for secrets. */

#ifndef HASP_BASE_PRNG_H
#define HASP_BASE_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct prng {
    uint64_t state;
};

static inline uint64_t prng_next(struct prng *prng)
{
    uint64_t z = (prng->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
/* A number from 0 to 'bound' - 1; 0 if 'bound' is 0. */
static inline uint64_t prng_below(struct prng *prng, uint64_t bound)
{
    return bound == 0 ? 0 : prng_next(prng) % bound;
}
static inline bool prng_chance(struct prng *prng, double probability)
{
    return (double)(prng_next(prng) >> 11) * 0x1p-53 < probability;
}

#endif /* HASP_BASE_PRNG_H */
