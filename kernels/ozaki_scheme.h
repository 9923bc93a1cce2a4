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

/* 2^exponent x, rounded once where |x| is 2^-100 or more or the result is a normal number: to those
 * who scale less than that, numbers below 2^-1022 are alike. */
OZAKI double ozaki_scaled(double x, int exponent)
{
    const int most = 900;
    const int first = exponent > most ? most : exponent < -most ? -most : exponent;
    const int rest = exponent - first;
    const double last = ozaki_power(rest > most ? most : rest < -most ? -most : rest);
#ifdef __CUDA_ARCH__ /* products that are never fused with an addition */
    return __dmul_rn(__dmul_rn(x, ozaki_power(first)), last);
#else
    return x * ozaki_power(first) * last;
#endif
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

/* The balanced residue of an integer below 2^18 in magnitude. */
OZAKI int8_t ozaki_rest(const struct modulus *m, int x)
{
    const int quotient = (int)(((int64_t)x * m->inverse_32 + ((int64_t)1 << 31)) >> 32);
    return (int8_t)(x - quotient * m->p);
}

/* The sum of digits times residues of powers of 256, 2^17 at most. */
OZAKI int ozaki_digit_sum(uint64_t digits, const int32_t powers[2])
{
    const int low = ozaki_dot((uint32_t)digits, powers[0], 0);
    return ozaki_dot((uint32_t)(digits >> 32), powers[1], low);
}

/* The balanced residue of an integer, of its digits. */
OZAKI int8_t ozaki_residue(const struct modulus *m, uint64_t digits)
{
    if (m->p == 256)
        return (int8_t)(digits & 255);
    return ozaki_rest(m, ozaki_digit_sum(digits, m->powers));
}

/* Those of a complex integer, of the digits of its parts. */
OZAKI void ozaki_residues(const struct modulus *m, uint64_t re, uint64_t im, int8_t *plus,
                          int8_t *minus)
{
    const int straight = ozaki_digit_sum(re, m->powers), turned = ozaki_digit_sum(im, m->turned);
    *plus = ozaki_rest(m, straight + turned);
    *minus = ozaki_rest(m, straight - turned);
}

/* That of its real, or its imaginary part, of these. */
OZAKI int8_t ozaki_part_residue(const struct modulus *m, int8_t plus, int8_t minus, bool imaginary)
{
    return ozaki_rest(m, imaginary ? (plus - minus) * m->half_turned : (plus + minus) * m->half);
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

/* A residue as a double: on a GPU as the last digits of 2^52, for conversions are slow there. */
OZAKI double ozaki_double(int8_t residue)
{
#ifdef __CUDA_ARCH__
    return __hiloint2double(0x43300000, residue + 128) - (0x1p52 + 128);
#else
    return residue;
#endif
}

/* The integer behind residues, of at most P/2 (1 - 2^-8) in magnitude.  `sums` of weights times
 * residues start with zeros; they are exact, and so is what is left of each part when the multiple
 * of P that is nearest is taken away.  Only the sum of these is rounded, to one of the two doubles
 * around it, and not at all where it is a double.  `parts` is residues->parts, of which a kernel
 * makes a constant. */
OZAKI void ozaki_accumulate(const struct residues *residues, int parts, int q, int8_t residue,
                            double sums[RESIDUES_PARTS])
{
    const double number = ozaki_double(residue);
    for (int part = 0; part < parts; part++)
        sums[part] = fma(residues->moduli[q].weight[part], number, sums[part]);
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
