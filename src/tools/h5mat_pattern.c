#include "h5mat_pattern.h"

#include <math.h>
#include <stdlib.h>

#include "mix.h"
#include "quantity.h"

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

/* Any integer of the type. */
static inline double any_integer(enum scalar type, uint64_t bits)
{
    const unsigned unused = 64 - 8 * (unsigned)scalar_size(type);
    return scalar_is_signed(type) ? (double)((int64_t)bits >> unused) : (double)(bits >> unused);
}

static inline double value_of(enum pattern_kind kind, enum scalar type, uint64_t bits)
{
    const bool positive = scalar_is_integer(type) && !scalar_is_signed(type);
    switch (kind) {
    case PATTERN_RANDOM:
        if (scalar_is_integer(type))
            return any_integer(type, bits);
        return type == SCALAR_DOUBLE ? unit_double(bits) : unit_float(bits);
    case PATTERN_INTEGER: return positive ? abs(small_integer(bits)) : small_integer(bits);
    case PATTERN_ONES: return 1;
    case PATTERN_IDENTITY: /* fill_row sets the ones */
    case PATTERN_GENOTYPE: break;
    }
    return 0;
}

/* `index` is that of the row's first element, whose place in `to` is `at`. */
static void fill_row(const struct pattern *p, uint64_t index, int64_t cols, void *to, int64_t at)
{
    const uint64_t start = mix_bits(p->seed);
    for (int64_t j = 0; j < cols; j++) {
        uint64_t bits = mix_number(start, index + (uint64_t)j);
        bool none = p->complex && p->kind == PATTERN_ONES && (index + (uint64_t)j) % 2;
        scalar_put(p->type, none ? 0 : value_of(p->kind, p->type, bits), to, at + j);
    }
}

/* In units of 2^-32, so that a random number of 32 bits is less with that chance. */
static uint64_t allele_limit(const struct pattern *p, int64_t col)
{
    double frequency = p->frequency;
    if (frequency == PATTERN_OWN_FREQUENCY) {
        const uint64_t start = mix_bits(mix_bits(p->seed) + 1);
        double share = (double)(mix_number(start, (uint64_t)col) >> 11) * 0x1p-53;
        frequency = 0.05 + 0.45 * share;
    }
    return (uint64_t)(frequency * 0x1p32);
}

/* One individual at `cols` markers; the first element is as in fill_row. */
static void draw_genotypes(const struct pattern *p, const uint64_t *limits, uint64_t index,
                           int64_t cols, void *to, int64_t at)
{
    const uint64_t start = mix_bits(p->seed), gaps = mix_bits(start + 2);
    for (int64_t j = 0; j < cols; j++) {
        uint64_t bits = mix_number(start, index + (uint64_t)j);
        double value = (double)((bits >> 32 < limits[j]) + ((bits & UINT32_MAX) < limits[j]));
        if (p->missing > 0 &&
            (double)(mix_number(gaps, index + (uint64_t)j) >> 11) * 0x1p-53 < p->missing)
            value = NAN;
        scalar_put(p->type, value, to, at + j);
    }
}

static void fill_genotypes(const struct pattern *p, int64_t cols, const struct block *block,
                           void *to)
{
    enum { MARKERS = 512 };
    uint64_t limits[MARKERS];
    for (int64_t first = 0; first < block->cols; first += MARKERS) {
        int64_t count = min_i64(MARKERS, block->cols - first), col = block->col + first;
        for (int64_t j = 0; j < count; j++)
            limits[j] = allele_limit(p, col + j);
        for (int64_t i = 0; i < block->rows; i++)
            draw_genotypes(p, limits, (uint64_t)(block->row + i) * (uint64_t)cols + (uint64_t)col,
                           count, to, i * block->cols + first);
    }
}

void pattern_fill(const struct pattern *p, int64_t cols, const struct block *block, void *to)
{
    if (p->kind == PATTERN_GENOTYPE) {
        fill_genotypes(p, cols, block, to);
        return;
    }
    for (int64_t i = 0; i < block->rows; i++) {
        int64_t row = block->row + i, at = i * block->cols;
        fill_row(p, (uint64_t)row * (uint64_t)cols + (uint64_t)block->col, block->cols, to, at);
        int64_t diagonal = (p->complex ? 2 : 1) * row - block->col;
        if (p->kind == PATTERN_IDENTITY && diagonal >= 0 && diagonal < block->cols)
            scalar_put(p->type, 1, to, at + diagonal);
    }
}
