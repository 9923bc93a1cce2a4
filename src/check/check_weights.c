/* The random vectors of the online check and of the full one. */
#include <string.h>

#include "check.h"
#include "mix.h"

double check_weight(uint64_t seed, enum check_kind kind, int64_t col)
{
    uint64_t bits = mix_number(mix_number(seed, (uint64_t)kind), (uint64_t)col);
    double magnitude = 0.5 + 0.5 * (double)(bits >> 11) * 0x1p-53;
    return bits & 1 ? magnitude : -magnitude;
}

/* Where sums are exact: an odd number (freivalds.h). */
static uint64_t exact_weight(uint64_t seed, int64_t col)
{
    return mix_number(mix_number(seed, CHECK_ONLINE), (uint64_t)col) | 1;
}

void check_set_weights(struct check *c)
{
    for (int64_t j = 0; j < c->tile.cols; j++) {
        const uint64_t odd = exact_weight(c->seed, c->tile.col + j);
        if (problem_is_exact(c->problem))
            memcpy(&c->host[j], &odd, sizeof odd);
        else
            c->host[j] = check_weight(c->seed, CHECK_ONLINE, c->tile.col + j);
    }
}
