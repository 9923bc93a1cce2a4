#include "moments.h"

#include <math.h>
#include <string.h>

typedef unsigned __int128 wide;

enum {
    SUM,
    SQUARES,
    EXPONENT = 0x7ff,     /* of what is not finite */
    TOP_INFINITE = 1000,  /* of a word above that of any finite element, and square */
    UNIT = -1074,         /* the exponent of the unit of sums; that of squares is twice as low */
    LIMBS_SUM = 6,        /* of 64 bits, of a sum; */
    LIMBS = 2 * LIMBS_SUM /* and of its square */
};

static void raise_words(__int128 words[MOMENT_WORDS], int32_t *top, int32_t to)
{
    int32_t shift = to - *top;
    if (shift <= 0)
        return;
    for (int i = MOMENT_WORDS - 1; i >= 0; i--)
        words[i] = i >= shift ? words[i - shift] : 0;
    *top = to;
}

void moments_raise(struct moments *m, const int32_t top[2])
{
    raise_words(m->sum, &m->top[SUM], top[SUM]);
    raise_words(m->squares, &m->top[SQUARES], top[SQUARES]);
}

/* Add to the word `below` the top, if the window has it. */
static inline void add_word(__int128 words[MOMENT_WORDS], int32_t below, uint64_t value,
                            bool negative)
{
    if (below < MOMENT_WORDS)
        words[below] += negative ? -(__int128)value : (__int128)value;
}

/* Place p has the unit's multiples of 2^p: the mantissa covers at most two words from that of its
 * place on, its square three. */
void moments_add(struct moments *m, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 52 & EXPONENT);
    const bool negative = bits >> 63;
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == EXPONENT) {
        m->missing += mantissa != 0;
        if (mantissa == 0)
            moments_raise(m, (const int32_t[]){TOP_INFINITE, TOP_INFINITE});
        return;
    }
    if (exponent > 0)
        mantissa |= UINT64_C(1) << 52;
    if (mantissa == 0)
        return;
    const int place = exponent > 0 ? exponent - 1 : 0, shift = place % 64, twice = 2 * place % 64;
    const int32_t top[2] = {place / 64 + 1, place / 32 + 2};
    const wide sum = (wide)mantissa << shift, square = (wide)mantissa * mantissa,
               low = square << twice;
    if (top[SUM] > m->top[SUM] || top[SQUARES] > m->top[SQUARES])
        moments_raise(m, top);
    const int32_t down[2] = {m->top[SUM] - top[SUM], m->top[SQUARES] - top[SQUARES]};
    add_word(m->sum, down[SUM], (uint64_t)(sum >> 64), negative);
    add_word(m->sum, down[SUM] + 1, (uint64_t)sum, negative);
    add_word(m->squares, down[SQUARES], twice ? (uint64_t)(square >> (128 - twice)) : 0, false);
    add_word(m->squares, down[SQUARES] + 1, (uint64_t)(low >> 64), false);
    add_word(m->squares, down[SQUARES] + 2, (uint64_t)low, false);
}

static void merge_words(__int128 words[MOMENT_WORDS], int32_t top,
                        const __int128 other[MOMENT_WORDS], int32_t other_top)
{
    for (int i = 0; i + top - other_top < MOMENT_WORDS; i++)
        words[i + top - other_top] += other[i];
}

void moments_merge(struct moments *m, const struct moments *other)
{
    moments_raise(m, other->top);
    merge_words(m->sum, m->top[SUM], other->sum, other->top[SUM]);
    merge_words(m->squares, m->top[SQUARES], other->squares, other->top[SQUARES]);
    m->missing += other->missing;
}

enum { PARTS_WORD = MOMENT_PARTS / (2 * MOMENT_WORDS), PART_BITS = 32 };

void moments_to_parts(const struct moments *m, double parts[MOMENT_PARTS])
{
    for (int i = 0; i < 2 * MOMENT_WORDS; i++) {
        __int128 word = i < MOMENT_WORDS ? m->sum[i] : m->squares[i - MOMENT_WORDS];
        for (int j = 0; j < PARTS_WORD - 1; j++, word >>= PART_BITS)
            parts[i * PARTS_WORD + j] = (double)(uint32_t)word;
        parts[i * PARTS_WORD + PARTS_WORD - 1] = (double)(int64_t)word; /* with the sign */
    }
}

void moments_from_parts(struct moments *m, const double parts[MOMENT_PARTS])
{
    for (int i = 0; i < 2 * MOMENT_WORDS; i++) {
        __int128 word = 0;
        for (int j = PARTS_WORD - 1; j >= 0; j--)
            word = word * (INT64_C(1) << PART_BITS) + (int64_t)parts[i * PARTS_WORD + j];
        *(i < MOMENT_WORDS ? &m->sum[i] : &m->squares[i - MOMENT_WORDS]) = word;
    }
}

/* What remains is arithmetic with whole numbers of several limbs, the lowest first, and with pairs
 * of doubles whose sum is the number. */
struct pair {
    double high, low;
};

/* The absolute value of the words as one number.  Returns whether it is negative. */
static bool to_limbs(const __int128 words[MOMENT_WORDS], uint64_t limbs[LIMBS])
{
    __int128 carry = 0;
    memset(limbs, 0, LIMBS * sizeof *limbs);
    for (int i = 0; i < LIMBS_SUM; i++) {
        carry += i < MOMENT_WORDS ? words[MOMENT_WORDS - 1 - i] : 0;
        limbs[i] = (uint64_t)carry;
        carry >>= 64;
    }
    for (int i = 0, more = 1; carry < 0 && i < LIMBS_SUM; i++) {
        limbs[i] = ~limbs[i] + (uint64_t)more;
        more = more && limbs[i] == 0;
    }
    return carry < 0;
}

static void multiply(const uint64_t a[LIMBS_SUM], const uint64_t *b, int b_limbs,
                     uint64_t product[LIMBS])
{
    memset(product, 0, LIMBS * sizeof *product);
    for (int j = 0; j < b_limbs; j++) {
        wide carry = 0;
        for (int i = 0; i < LIMBS_SUM; i++) {
            carry += (wide)a[i] * b[j] + product[i + j];
            product[i + j] = (uint64_t)carry;
            carry >>= 64;
        }
        product[LIMBS_SUM + j] = (uint64_t)carry;
    }
}

/* a := 2^(64 limbs) a - b, or 0 where that is negative. */
static void shift_and_subtract(uint64_t a[LIMBS], int limbs, const uint64_t b[LIMBS])
{
    __int128 borrow = 0;
    memmove(a + limbs, a, (size_t)(LIMBS - limbs) * sizeof *a);
    memset(a, 0, (size_t)limbs * sizeof *a);
    for (int i = 0; i < LIMBS; i++) {
        borrow += (__int128)a[i] - b[i];
        a[i] = (uint64_t)borrow;
        borrow >>= 64;
    }
    if (borrow < 0)
        memset(a, 0, LIMBS * sizeof *a);
}

static struct pair add(struct pair x, double y)
{
    double high = x.high + y, part = high - x.high;
    double low = (x.high - (high - part)) + (y - part) + x.low;
    double sum = high + low;
    return (struct pair){sum, low - (sum - high)};
}

static struct pair divide(struct pair x, double y)
{
    double high = x.high / y, low = (fma(-high, y, x.high) + x.low) / y, sum = high + low;
    return (struct pair){sum, low - (sum - high)};
}

/* The number times 2^-*exponent, from its three highest limbs; *exponent is a multiple of 64. */
static struct pair to_pair(const uint64_t limbs[LIMBS], int *exponent)
{
    struct pair x = {0, 0};
    int top = LIMBS - 1;
    while (top > 0 && limbs[top] == 0)
        top--;
    int last = top < 2 ? 0 : top - 2;
    for (int i = top; i >= last; i--) {
        x = (struct pair){0x1p64 * x.high, 0x1p64 * x.low};
        x = add(x, 0x1p32 * (double)(limbs[i] >> 32));
        x = add(x, (double)(uint32_t)limbs[i]);
    }
    *exponent = 64 * last;
    return x;
}

/* The exponent of the lowest word's multiples, whose unit is UNIT's. */
static int lowest(int32_t top)
{
    return 64 * (top - (MOMENT_WORDS - 1)) + UNIT;
}

/* With n elements whose sum is S and whose squares' is Q, those of the differences from the mean
 * have the sum (n Q - S^2) / n. */
struct mean moments_finish(const struct moments *m, int64_t elements, bool apart, double *deviation)
{
    const int64_t counted = apart ? elements - m->missing : elements;
    uint64_t sum[LIMBS], squares[LIMBS], square[LIMBS], spread[LIMBS];
    int exponent;
    *deviation = m->top[SUM] == TOP_INFINITE ? NAN : 0;
    if (counted == 0 || m->top[SUM] == TOP_INFINITE || m->top[SUM] == 0)
        return (struct mean){*deviation, 0};
    const bool negative = to_limbs(m->sum, sum);
    const struct pair quotient = divide(to_pair(sum, &exponent), (double)counted);
    const int sign = negative ? -1 : 1;
    exponent += lowest(m->top[SUM]);
    const struct mean mean = {sign * ldexp(quotient.high, exponent),
                              sign * ldexp(quotient.low, exponent)};

    to_limbs(m->squares, squares);
    multiply(sum, sum, LIMBS_SUM, square);
    multiply(squares, &(uint64_t){(uint64_t)counted}, 1, spread);
    shift_and_subtract(spread, m->top[SQUARES] - 2 * m->top[SUM] + MOMENT_WORDS - 1, square);
    struct pair variance = to_pair(spread, &exponent);
    if (variance.high == 0)
        return mean;
    variance = divide(divide(variance, (double)counted), (double)(elements - 1));
    double root = sqrt(variance.high);
    root += (fma(-root, root, variance.high) + variance.low) / (2 * root);
    *deviation = ldexp(root, exponent / 2 + lowest(m->top[SUM]));
    return mean;
}
