/* The bound on the errors of products in residues (ozaki.h), with the names of ozaki_scheme.h.
 *
 * In a block |da_h| = |a'_h 2^-s - a_h| <= 2^(-s-1).  Since s + 1 would be too large,
 *     2^(-s-1) < 2^(E-15) sqrt(S / L) <= 1.006 ||a|| / sqrt(L) = kappa ||a||,
 * for sqrt(S) <= ||q|| <= 2^(15-E) ||a|| + sqrt(8192), of which 2^(15-E) ||a|| is 2^14 or more;
 * where integers would have more than OZAKI_BITS bits, 2^(-s-1) <= 2^-OZAKI_BITS ||a|| takes its
 * place. With b_j and db_j likewise, the exact product of integers differs from that of the block
 * by
 *     |sum_h (da_h b_hj + a_h db_hj + da_h db_hj)|
 *         <= sqrt(8192) kappa (2 + sqrt(8192) kappa) ||a|| ||b_j||,
 * by Cauchy and Schwarz.  The norm of these errors over the columns j is as much of ||a|| ||B||_F,
 * and so is the norm of those of several blocks' sum, where ||a|| and ||B||_F are of all the
 * blocks. Rounding the exact product to a double adds at most 2 units of roundoff. */
#include <math.h>

#include "ozaki_scheme.h"

double ozaki_error(const struct residues *residues)
{
    const double limit = ldexp(residues->limit_top, residues->limit_log2 - 31);
    const double kappa = fmax(1.006 / sqrt(limit), ldexp(1, -OZAKI_BITS));
    const double steps = sqrt((double)OZAKI_BLOCK) * kappa;
    return steps * (2 + steps) * (1 + 0x1p-20) + 0x1p-52;
}

double ozaki_proven(const struct residues *residues, enum scalar type, int64_t k)
{
    const double unit = scalar_roundoff(type);
    const double blocks = ceil((double)k / OZAKI_BLOCK);
    return ozaki_error(residues) / unit + 1.5 * blocks * (1 + 2 * blocks * unit);
}
