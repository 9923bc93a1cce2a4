#include "h5mat_pattern.h"

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

static inline double value_of(enum pattern pattern, enum scalar type, uint64_t bits)
{
    switch (pattern) {
    case PATTERN_RANDOM: return type == SCALAR_DOUBLE ? unit_double(bits) : unit_float(bits);
    case PATTERN_INTEGER: return small_integer(bits);
    case PATTERN_ONES: return 1;
    case PATTERN_IDENTITY: break; /* pattern_fill sets the ones */
    }
    return 0;
}

static inline void set(enum scalar type, void *to, int64_t at, double value)
{
    if (type == SCALAR_DOUBLE)
        ((double *)to)[at] = value;
    else
        ((float *)to)[at] = (float)value;
}

void pattern_fill(enum pattern pattern, uint64_t seed, enum scalar type, int64_t cols,
                  const struct block *block, void *to)
{
    uint64_t start = mix_bits(seed);
    for (int64_t i = 0; i < block->rows; i++) {
        int64_t row = block->row + i, at = i * block->cols;
        uint64_t index = (uint64_t)row * (uint64_t)cols + (uint64_t)block->col;
        for (int64_t j = 0; j < block->cols; j++)
            set(type, to, at + j, value_of(pattern, type, mix_number(start, index + (uint64_t)j)));
        int64_t diagonal = row - block->col;
        if (pattern == PATTERN_IDENTITY && diagonal >= 0 && diagonal < block->cols)
            set(type, to, at + diagonal, 1);
    }
}
