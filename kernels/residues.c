#include "residues.h"

#include <math.h>

/* The largest pairwise coprime numbers of 8 bits; residues of 256 are bytes as they are.  Behind
 * them those that are odd and have a root of -1: all their prime factors are 1 modulo 4. */
static const int moduli[][RESIDUES_MOST] = {
    {256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181},
    {241, 233, 229, 221, 205, 197, 193, 181, 173, 157, 149, 137, 113, 109, 101, 97, 89, 73}};

/* A sum of residues times weights has so many bits more than a weight: 2^11 is above the sum of
 * all p / 2. */
enum { WORDS = 6, WORD_BITS = 32, SUM_BITS = 11, PART_BITS = 53 - SUM_BITS };

/* An unsigned integer, its lowest word first. */
struct large {
    uint32_t words[WORDS];
};

static struct large large_times(struct large x, uint32_t factor)
{
    uint64_t carry = 0;
    for (int i = 0; i < WORDS; i++) {
        carry += (uint64_t)x.words[i] * factor;
        x.words[i] = (uint32_t)carry;
        carry >>= WORD_BITS;
    }
    return x;
}

static struct large large_divided(struct large x, uint32_t divisor, uint32_t *remainder)
{
    uint64_t rest = 0;
    for (int i = WORDS - 1; i >= 0; i--) {
        rest = rest << WORD_BITS | x.words[i];
        x.words[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    *remainder = (uint32_t)rest;
    return x;
}

static int large_bits(const struct large *x)
{
    int bits = WORDS * WORD_BITS;
    while (bits > 0 && !(x->words[(bits - 1) / WORD_BITS] >> (bits - 1) % WORD_BITS & 1))
        bits--;
    return bits;
}

/* The value of the bits from `low` up to, not including, `high`: exact where these are 53 at most.
 */
static double large_part(const struct large *x, int low, int high)
{
    double value = 0;
    for (int bit = high - 1; bit >= low; bit--)
        value = 2 * value + (x->words[bit / WORD_BITS] >> bit % WORD_BITS & 1);
    return ldexp(value, low);
}

/* The parts of x, which has at most `bits` bits. */
static void large_split(const struct large *x, int bits, double parts[RESIDUES_PARTS])
{
    for (int i = 0, high = bits; i < RESIDUES_PARTS; i++) {
        int low = high > PART_BITS ? high - PART_BITS : 0;
        parts[i] = large_part(x, low, high);
        high = low;
    }
}

static int balanced(uint32_t x, int p)
{
    int rest = (int)(x % (uint32_t)p);
    return rest > (p - 1) / 2 ? rest - p : rest;
}

static uint32_t inverse_modulo(uint32_t x, uint32_t p)
{
    uint32_t inverse = 1;
    while (x * inverse % p != 1)
        inverse++;
    return inverse;
}

static uint32_t root_of_minus_one(uint32_t p)
{
    uint32_t root = 1;
    while (root * root % p != p - 1)
        root++;
    return root;
}

/* 256^i times `factor`, as bytes. */
static void powers_make(uint32_t factor, int p, int32_t powers[2])
{
    uint32_t power = factor;
    for (int i = 0; i < 8; i++) {
        powers[i / 4] |= (int32_t)((uint32_t)(balanced(power, p) & 255) << 8 * (i % 4));
        power = power * 256 % (uint32_t)p;
    }
}

static void turns_make(struct modulus *m)
{
    const uint32_t p = (uint32_t)m->p, root = root_of_minus_one(p);
    powers_make(root, m->p, m->turned);
    m->half = balanced(inverse_modulo(2, p), m->p);
    m->half_turned = balanced(inverse_modulo(2 * root, p), m->p);
}

static int64_t rounded_ratio(int64_t x, int p)
{
    return (x + p / 2) / p;
}

static struct modulus modulus_make(int p, bool complex, const struct large *product)
{
    struct modulus m = {.p = p,
                        .inverse = 1.0F / (float)p,
                        .inverse_37 = (int32_t)rounded_ratio((int64_t)1 << 37, p)};
    uint32_t rest;
    powers_make(1, p, m.powers);
    if (complex)
        turns_make(&m);

    struct large others = large_divided(*product, (uint32_t)p, &rest);
    large_divided(others, (uint32_t)p, &rest);
    struct large weight = large_times(others, inverse_modulo(rest, (uint32_t)p));
    large_split(&weight, large_bits(product), m.weight);
    return m;
}

void residues_make(int count, bool complex, struct residues *residues)
{
    struct large product = {{1}};
    uint32_t rest;
    for (int q = 0; q < count; q++)
        product = large_times(product, (uint32_t)moduli[complex][q]);

    const int bits = large_bits(&product);
    *residues = (struct residues){
        .count = count, .parts = (bits + PART_BITS - 1) / PART_BITS, .complex = complex};
    for (int q = 0; q < count; q++)
        residues->moduli[q] = modulus_make(moduli[complex][q], complex, &product);
    large_split(&product, bits, residues->product);
    residues->inverse = 1 / large_part(&product, 0, bits);

    struct large limit = large_divided(large_times(product, 127), 256, &rest);
    residues->limit_log2 = large_bits(&limit) - 1;
    residues->limit_top =
        (uint32_t)ldexp(large_part(&limit, residues->limit_log2 - 31, residues->limit_log2 + 1),
                        31 - residues->limit_log2);
}
