#include "h5mat_pattern.h"

#include <string.h>

#include "mix.h"

/* As many random bits as the type holds in [-1, 1), so that no value is rounded up to 1. */
static inline double unit_double(uint64_t bits)
{
    return (double)(int64_t)(bits >> 11) * 0x1p-52 - 1.0;
}

static inline float unit_float(uint64_t bits)
{
    return (float)(int32_t)(bits >> 40) * 0x1p-23f - 1.0f;
}

static inline int small_integer(uint64_t bits)
{
    return (int)((bits >> 32) * 17 >> 32) - 8;
}

static void fill_double(enum pattern pattern, uint64_t start, uint64_t index, int64_t n, double *to)
{
    switch (pattern) {
    case PATTERN_RANDOM:
        for (int64_t i = 0; i < n; i++)
            to[i] = unit_double(mix_number(start, index + (uint64_t)i));
        break;
    case PATTERN_INTEGER:
        for (int64_t i = 0; i < n; i++)
            to[i] = small_integer(mix_number(start, index + (uint64_t)i));
        break;
    case PATTERN_ONES:
        for (int64_t i = 0; i < n; i++)
            to[i] = 1;
        break;
    case PATTERN_IDENTITY: memset(to, 0, (size_t)n * sizeof *to); break;
    }
}

static void fill_float(enum pattern pattern, uint64_t start, uint64_t index, int64_t n, float *to)
{
    switch (pattern) {
    case PATTERN_RANDOM:
        for (int64_t i = 0; i < n; i++)
            to[i] = unit_float(mix_number(start, index + (uint64_t)i));
        break;
    case PATTERN_INTEGER:
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)small_integer(mix_number(start, index + (uint64_t)i));
        break;
    case PATTERN_ONES:
        for (int64_t i = 0; i < n; i++)
            to[i] = 1;
        break;
    case PATTERN_IDENTITY: memset(to, 0, (size_t)n * sizeof *to); break;
    }
}

static void set_one(enum scalar type, int64_t at, void *to)
{
    if (type == SCALAR_DOUBLE)
        ((double *)to)[at] = 1;
    else
        ((float *)to)[at] = 1;
}

void pattern_fill(enum pattern pattern, uint64_t seed, enum scalar type, int64_t cols,
                  const struct block *block, void *to)
{
    uint64_t start = mix_bits(seed);
    for (int64_t i = 0; i < block->rows; i++) {
        int64_t row = block->row + i, at = i * block->cols;
        uint64_t index = (uint64_t)row * (uint64_t)cols + (uint64_t)block->col;
        if (type == SCALAR_DOUBLE)
            fill_double(pattern, start, index, block->cols, (double *)to + at);
        else
            fill_float(pattern, start, index, block->cols, (float *)to + at);
        int64_t diagonal = row - block->col;
        if (pattern == PATTERN_IDENTITY && diagonal >= 0 && diagonal < block->cols)
            set_one(type, at + diagonal, to);
    }
}
