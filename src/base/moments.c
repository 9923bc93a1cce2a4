#include "moments.h"

#include <math.h>
#include <string.h>

typedef unsigned __int128 wide;

enum {
    EXPONENT = 0x7ff, /* of what is not finite */
    UNIT = -1074,     /* the exponent of the unit of sums; that of squares is twice as low */
    LIMBS = MOMENT_SQUARES_WORDS + 1 /* of 64 bits, of squares times a number of elements */
};

/* A finite number is -1 or 1 times mantissa times 2^place units of sums. */
struct digits {
    uint64_t mantissa;
    int place, exponent;
    bool negative;
};

static inline struct digits digits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 52 & EXPONENT);
    const uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    return (struct digits){exponent > 0 ? mantissa | UINT64_C(1) << 52 : mantissa,
                           exponent > 0 ? exponent - 1 : 0, exponent, bits >> 63};
}

/* Add the value times 2^place: to three words, and what is carried beyond them.  To subtract, all
 * bits are flipped and 1 is carried in. */
static inline void add_value(uint64_t *words, int count, wide value, int place, bool negative)
{
    const int shift = place % 64;
    const wide low = value << shift;
    const uint64_t flip = 0 - (uint64_t)negative;
    const uint64_t parts[] = {(uint64_t)low, (uint64_t)(low >> 64),
                              (uint64_t)(value >> 64) >> 1 >> (63 - shift)};
    wide carry = negative;
    words += place / 64;
    count -= place / 64;
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        carry += (wide)words[i] + (parts[i] ^ flip);
        words[i] = (uint64_t)carry;
        carry >>= 64;
    }
    for (int i = 3; i < count && carry != negative; i++) {
        carry += (wide)words[i] + flip;
        words[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

void moments_add(struct moments *m, double x)
{
    const struct digits d = digits_of(x);
    m->missing += x != x;
    m->largest = fabs(x) > m->largest ? fabs(x) : m->largest;
    if (d.exponent < EXPONENT && d.mantissa != 0) {
        add_value(m->sum, MOMENT_SUM_WORDS, d.mantissa, d.place, d.negative);
        add_value(m->squares, MOMENT_SQUARES_WORDS, (wide)d.mantissa * d.mantissa, 2 * d.place,
                  false);
    }
}

void moments_add_sums(struct moments *m, const struct moment_sums *sums)
{
    for (int i = 0; i < sums->sum_parts; i++) {
        const struct digits d = digits_of(sums->sum[i]);
        if (d.mantissa != 0)
            add_value(m->sum, MOMENT_SUM_WORDS, d.mantissa, d.place, d.negative);
    }
    for (int i = 0; i < sums->squares_parts; i++) {
        const struct digits d = digits_of(sums->squares[i]);
        if (d.mantissa != 0)
            add_value(m->squares, MOMENT_SQUARES_WORDS, d.mantissa, d.place - UNIT, d.negative);
    }
    m->largest = fmax(m->largest, sums->largest);
    m->missing += sums->missing;
}

static void merge_words(uint64_t *words, const uint64_t *other, int count)
{
    wide carry = 0;
    for (int i = 0; i < count; i++) {
        carry += (wide)words[i] + other[i];
        words[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

void moments_merge(struct moments *m, const struct moments *other)
{
    merge_words(m->sum, other->sum, MOMENT_SUM_WORDS);
    merge_words(m->squares, other->squares, MOMENT_SQUARES_WORDS);
    m->largest = fmax(m->largest, other->largest);
    m->missing += other->missing;
}

/* A span is the first words of both sums, negative, and the ends of both. */
const double moment_no_span[MOMENT_SPAN] = {-MOMENT_SUM_WORDS, -MOMENT_SQUARES_WORDS, 0, 0};

/* Beyond its end a number has nothing but its sign. */
static void widen(const uint64_t *words, int count, double *first, double *end)
{
    const uint64_t sign = 0 - (words[count - 1] >> 63);
    int from = 0, to = count;
    while (from < count && words[from] == 0)
        from++;
    while (to > from && words[to - 1] == sign)
        to--;
    to += to < count && (to > from || sign); /* a word has the sign, too */
    *first = fmax(*first, -from);
    *end = fmax(*end, to);
}

void moments_widen(const struct moments *m, double span[MOMENT_SPAN])
{
    widen(m->sum, MOMENT_SUM_WORDS, &span[0], &span[2]);
    widen(m->squares, MOMENT_SQUARES_WORDS, &span[1], &span[3]);
}

static const int part_bits = 32;

static double *to_parts(const uint64_t *words, double first, double end, double *parts)
{
    for (int i = (int)-first; i < (int)end; i++) {
        *parts++ = (double)(uint32_t)words[i];
        *parts++ = i + 1 < (int)end ? (double)(words[i] >> part_bits)
                                    : (double)((int64_t)words[i] >> part_bits); /* with the sign */
    }
    return parts;
}

int moments_to_parts(const struct moments *m, const double span[MOMENT_SPAN], double *parts)
{
    double *end = to_parts(m->sum, span[0], span[2], parts);
    return (int)(to_parts(m->squares, span[1], span[3], end) - parts);
}

static const double *from_parts(uint64_t *words, int count, double first, double end,
                                const double *parts)
{
    __int128 carry = 0;
    for (int i = 0; i < count; i++) {
        if (i >= (int)-first && i < (int)end) {
            carry += (int64_t)parts[0] + (__int128)(int64_t)parts[1] * (INT64_C(1) << part_bits);
            parts += 2;
        }
        words[i] = (uint64_t)carry;
        carry >>= 64;
    }
    return parts;
}

void moments_from_parts(struct moments *m, const double span[MOMENT_SPAN], const double *parts)
{
    parts = from_parts(m->sum, MOMENT_SUM_WORDS, span[0], span[2], parts);
    from_parts(m->squares, MOMENT_SQUARES_WORDS, span[1], span[3], parts);
}

/* What remains is arithmetic with whole numbers of several limbs, the lowest first, and with pairs
 * of doubles whose sum is the number. */
struct pair {
    double high, low;
};

/* The absolute value of a sum.  Returns whether it is negative. */
static bool to_limbs(const uint64_t words[MOMENT_SUM_WORDS], uint64_t limbs[MOMENT_SUM_WORDS])
{
    const bool negative = words[MOMENT_SUM_WORDS - 1] >> 63;
    uint64_t more = negative;
    for (int i = 0; i < MOMENT_SUM_WORDS; i++) {
        limbs[i] = (negative ? ~words[i] : words[i]) + more;
        more = more && limbs[i] == 0;
    }
    return negative;
}

/* The limbs of a number without the zeros above it. */
static int length(const uint64_t *limbs, int count)
{
    while (count > 0 && limbs[count - 1] == 0)
        count--;
    return count;
}

static void multiply(const uint64_t *a, int a_limbs, const uint64_t *b, int b_limbs,
                     uint64_t product[LIMBS])
{
    memset(product, 0, LIMBS * sizeof *product);
    a_limbs = length(a, a_limbs);
    b_limbs = length(b, b_limbs);
    for (int j = 0; j < b_limbs; j++) {
        wide carry = 0;
        for (int i = 0; i < a_limbs && b[j] != 0; i++) {
            carry += (wide)a[i] * b[j] + product[i + j];
            product[i + j] = (uint64_t)carry;
            carry >>= 64;
        }
        product[a_limbs + j] = (uint64_t)carry;
    }
}

/* a := a - b, which is not negative. */
static void subtract(uint64_t a[LIMBS], const uint64_t b[LIMBS])
{
    __int128 borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        borrow += (__int128)a[i] - b[i];
        a[i] = (uint64_t)borrow;
        borrow >>= 64;
    }
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
static struct pair to_pair(const uint64_t *limbs, int count, int *exponent)
{
    struct pair x = {0, 0};
    int top = length(limbs, count) - 1, last = top < 2 ? 0 : top - 2;
    for (int i = top; i >= last; i--) {
        x = (struct pair){0x1p64 * x.high, 0x1p64 * x.low};
        x = add(x, 0x1p32 * (double)(limbs[i] >> 32));
        x = add(x, (double)(uint32_t)limbs[i]);
    }
    *exponent = 64 * last;
    return x;
}

/* With n elements whose sum is S and whose squares' is Q, those of the differences from the mean
 * have the sum (n Q - S^2) / n. */
struct mean moments_finish(const struct moments *m, int64_t elements, bool apart, double *deviation)
{
    const int64_t counted = apart ? elements - m->missing : elements;
    uint64_t sum[MOMENT_SUM_WORDS], square[LIMBS], spread[LIMBS];
    int exponent;
    *deviation = isinf(m->largest) ? NAN : 0;
    if (counted == 0 || isinf(m->largest))
        return (struct mean){*deviation, 0};
    const int sign = to_limbs(m->sum, sum) ? -1 : 1;
    const struct pair quotient = divide(to_pair(sum, MOMENT_SUM_WORDS, &exponent), (double)counted);
    const struct mean mean = {sign * ldexp(quotient.high, exponent + UNIT),
                              sign * ldexp(quotient.low, exponent + UNIT)};

    multiply(sum, MOMENT_SUM_WORDS, sum, MOMENT_SUM_WORDS, square);
    multiply(m->squares, MOMENT_SQUARES_WORDS, &(uint64_t){(uint64_t)counted}, 1, spread);
    subtract(spread, square);
    struct pair variance = to_pair(spread, LIMBS, &exponent);
    if (variance.high == 0)
        return mean;
    variance = divide(divide(variance, (double)counted), (double)(elements - 1));
    double root = sqrt(variance.high);
    root += (fma(-root, root, variance.high) + variance.low) / (2 * root);
    *deviation = ldexp(root, exponent / 2 + UNIT);
    return mean;
}
