/* What a product in residues works on in one part of C and one block of k, in its workspace. */
#pragma once

#include "ozaki.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By which rows of op(A), or columns of op(B), are scaled: an array of each (ozaki_scheme.h). */
struct ozaki_scales {
    unsigned long long *squares;
    int *exponents, *shifts;
};

/* A plane is the residues of one modulus: of complex products one of two, re + s im and re - s im.
 * Those of op(A) have m rows, those of op(B) n, of k bytes each, one for each step; those of C have
 * n columns of m bytes.  Of complex products m and k count complex numbers.  Beyond the part and
 * the block there are zeros.  m, n and k are multiples of OZAKI_TILE. */
struct ozaki_planes {
    int64_t m, n, k;
    struct ozaki_scales scales_a, scales_b;
    int8_t *a, *b, *c; /* the planes of all moduli, one behind the other */
    /* Of the check (ozaki_check.cu): */
    int8_t *signs;     /* 1 or -1 for each row */
    int8_t *projected; /* for each plane k residues: sums over op(A)'s rows times their signs */
    int *sums;         /* for each plane n: those over C's rows, minus what is expected */
};

static inline int ozaki_plane_count(const struct residues *residues)
{
    return residues->complex ? 2 * residues->count : residues->count;
}

/* In the workspace, for such a part and block of the real matrices.  Where those of op(A) lie, with
 * `signs` and `projected`, does not depend on cols. */
struct ozaki_planes ozaki_planes_at(const struct ozaki *o, int64_t rows, int64_t cols,
                                    int64_t steps);

#ifdef __cplusplus
}
#endif
