/* The arithmetic of products in residues (ozaki.h), element by element: plain functions of the CPU
 * and of the GPU, so that both give the same bits.
 *
 * The scale of a row.  Let a_h be its elements in a block, |a_h| < 2^E, and q_h = |a_h| 2^(15-E)
 * rounded up, so that ||a||^2 <= 2^(2(E-15)) S with S = sum q_h^2 < 2^44.  The shift s is the
 * largest with 2^(2(s+E-15)) S <= L = P/2 (1 - 2^-7).  The row of integers a'_h = rint(2^s a_h) has
 *     ||a'|| <= 2^s ||a|| + sqrt(8192) / 2 < sqrt(L) + 46 < sqrt(P/2)
 * for every P of 2^29 or more, and by Cauchy and Schwarz each element of the product is below P/2
 * in magnitude, for the columns of op(B) are scaled likewise. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "ozaki.h"

#ifdef __CUDACC__
#define OZAKI static inline __host__ __device__
#else
#define OZAKI static inline
#endif

/* Exponents of rows beside those of numbers, -1073 to 1024. */
enum { OZAKI_ZERO = -5000, OZAKI_NOT_FINITE = 5000 };

/* Bits of q_h, and of integers. */
enum { OZAKI_COARSE_BITS = 15, OZAKI_BITS = 62 };

/* E: |x| is below 2^E, and at least half of that.  The exponent of a row is the largest one of its
 * elements. */
OZAKI int ozaki_exponent(double x)
{
    int exponent = OZAKI_ZERO;
    if (!isfinite(x))
        return OZAKI_NOT_FINITE;
    if (x != 0)
        frexp(x, &exponent);
    return exponent;
}

/* 2^exponent, of a normal number. */
OZAKI double ozaki_power(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* A product that is never fused with an addition. */
OZAKI double ozaki_times(double x, double y)
{
#ifdef __CUDA_ARCH__
    return __dmul_rn(x, y);
#else
    return x * y;
#endif
}

/* 2^exponent x, rounded once where |x| is 2^-100 or more or the result is a normal number: to those
 * who scale less than that, numbers below 2^-1022 are alike. */
OZAKI double ozaki_scaled(double x, int exponent)
{
    const int most = 900;
    const int first = exponent > most ? most : exponent < -most ? -most : exponent;
    const int rest = exponent - first;
    double scaled = ozaki_times(x, ozaki_power(first));
    if (rest != 0)
        scaled = ozaki_times(scaled, ozaki_power(rest > most ? most : rest < -most ? -most : rest));
    return scaled;
}

/* q_h, of a finite element of a row with this exponent. */
OZAKI uint64_t ozaki_coarse(double x, int exponent)
{
    const double q = ceil(ozaki_scaled(fabs(x), OZAKI_COARSE_BITS - exponent));
    return x != 0 && q == 0 ? 1 : (uint64_t)q;
}

/* The shift s of a row, of which S is `squares`; 0 of a row of zeros and of one that is not
 * finite. */
OZAKI int ozaki_shift(const struct residues *residues, int exponent, uint64_t squares)
{
    if (exponent == OZAKI_ZERO || exponent == OZAKI_NOT_FINITE)
        return 0;
    int log2 = 0; /* of S, rounded down */
    while (squares >> log2 > 1)
        log2++;
    /* Whether S / 2^log2 is more than L / 2^limit_log2, both from 1 to 2. */
    const bool more = squares << (63 - log2) > (uint64_t)residues->limit_top << 32;
    const int room = residues->limit_log2 - log2 - more; /* of 2(s+E-15) */
    const int shift = (room >= 0 ? room / 2 : -((1 - room) / 2)) + OZAKI_COARSE_BITS - exponent;
    return shift + exponent > OZAKI_BITS ? OZAKI_BITS - exponent : shift;
}

/* a'_h. */
OZAKI int64_t ozaki_integer(double x, int shift)
{
    return (int64_t)rint(ozaki_scaled(x, shift));
}

/* The sum of products of four signed bytes each, and `sum`. */
OZAKI int ozaki_dot(uint32_t a, int32_t b, int sum)
{
#ifdef __CUDA_ARCH__
    return __dp4a((int)a, b, sum);
#else
    for (int i = 0; i < 32; i += 8)
        sum += (int8_t)(a >> i) * (int8_t)(b >> i);
    return sum;
#endif
}

/* The 8 digits to the base 256, from -128 to 127, of an integer of up to 2^62 in magnitude. */
OZAKI uint64_t ozaki_digits(int64_t x)
{
    const uint64_t halves = 0x8080808080808080u;
    return ((uint64_t)x + halves) ^ halves;
}

/* 1.5 2^23 as a float.  Near it floats are whole numbers: its bits plus x are those of 1.5 2^23 +
 * x, for integers x below 2^22 in magnitude. */
#define OZAKI_WHOLE 0x1.8p23f
enum { OZAKI_WHOLE_BITS = 0x4b400000 };

OZAKI float ozaki_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

OZAKI uint32_t ozaki_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The balanced residue of x, below 2^18 in magnitude, given the bits OZAKI_WHOLE_BITS + x.  The
 * quotient is rounded once.  For odd p it is at least 1 / (2 p) away from where rounding changes,
 * and the error of 1 / p times x is 2^-5 of that at most.  The residue is the lowest byte, which is
 * right for p = 256 whatever the quotient; the other bytes are left over. */
OZAKI uint32_t ozaki_rest(const struct modulus *m, uint32_t bits)
{
    const float quotient = fmaf(ozaki_float(bits) - OZAKI_WHOLE, m->inverse, OZAKI_WHOLE);
    return bits - ozaki_bits(quotient) * (uint32_t)m->p;
}

/* `sum`, and the digits times residues of powers of 256: these are 2^17 at most. */
OZAKI uint32_t ozaki_digit_sum(uint64_t digits, const int32_t powers[2], uint32_t sum)
{
    const int low = ozaki_dot((uint32_t)digits, powers[0], (int)sum);
    return (uint32_t)ozaki_dot((uint32_t)(digits >> 32), powers[1], low);
}

/* The balanced residue of an integer, of its digits: the lowest byte, as in ozaki_rest. */
OZAKI uint32_t ozaki_residue(const struct modulus *m, uint64_t digits)
{
    return ozaki_rest(m, ozaki_digit_sum(digits, m->powers, OZAKI_WHOLE_BITS));
}

/* Those of a complex integer, of the digits of its parts. */
OZAKI void ozaki_residues(const struct modulus *m, uint64_t re, uint64_t im, uint32_t *plus,
                          uint32_t *minus)
{
    const uint32_t straight = ozaki_digit_sum(re, m->powers, OZAKI_WHOLE_BITS),
                   turned = ozaki_digit_sum(im, m->turned, 0);
    *plus = ozaki_rest(m, straight + turned);
    *minus = ozaki_rest(m, straight - turned);
}

/* That of its real, or its imaginary part, of these. */
OZAKI int8_t ozaki_part_residue(const struct modulus *m, int8_t plus, int8_t minus, bool imaginary)
{
    const int part = imaginary ? (plus - minus) * m->half_turned : (plus + minus) * m->half;
    return (int8_t)ozaki_rest(m, OZAKI_WHOLE_BITS + (uint32_t)part);
}

/* The modulus of a plane of residues: complex integers have two planes for each, one of re + s im
 * and one of re - s im. */
OZAKI const struct modulus *ozaki_modulus(const struct residues *residues, int64_t plane)
{
    return &residues->moduli[residues->complex ? plane / 2 : plane];
}

/* That of a sum of products of residues, of up to 2^28 in magnitude. */
OZAKI int8_t ozaki_reduced(const struct modulus *m, int32_t sum)
{
    if (m->p == 256)
        return (int8_t)(sum & 255);
    const int quotient = (int)(((int64_t)sum * m->inverse_37 + ((int64_t)1 << 36)) >> 37);
    return (int8_t)(sum - quotient * m->p);
}

/* The integer behind residues, of at most P/2 (1 - 2^-8) in magnitude.  `sums` of weights times
 * residues start with zeros; they are exact, and so is what is left of each part when the multiple
 * of P that is nearest is taken away.  Only the sum of these is rounded, to one of the two doubles
 * around it, and not at all where it is a double.  `parts` is residues->parts, of which a kernel
 * makes a constant. */
OZAKI void ozaki_accumulate(const struct residues *residues, int parts, int q, double residue,
                            double sums[RESIDUES_PARTS])
{
    for (int part = 0; part < parts; part++)
        sums[part] = fma(residues->moduli[q].weight[part], residue, sums[part]);
}

OZAKI double ozaki_value(const struct residues *residues, int parts,
                         const double sums[RESIDUES_PARTS])
{
    const double multiple = rint(sums[0] * residues->inverse);
    double sum = fma(-residues->product[0], multiple, sums[0]), lost = 0;
    for (int part = 1; part < parts; part++) {
        const double next = fma(-residues->product[part], multiple, sums[part]);
        const double larger = sum + next, taken = larger - sum; /* Knuth's exact addition */
        lost += (sum - (larger - taken)) + (next - taken);
        sum = larger;
    }
    return sum + lost;
}

/* C's element after a block that gave `value` with these shifts of its row and column. */
OZAKI double ozaki_added(double c, double value, int shift_a, int shift_b)
{
    return c + ozaki_scaled(value, -shift_a - shift_b);
}
