/* The products of the planes of one part and block (ozaki_part.h): each plane of C is that of
 * op(A) times that of op(B), reduced by its modulus. */
#pragma once

#include "bytes_product.cuh"
#include "ozaki_part.h"
#include "ozaki_scheme.h"

/* The residues of sums to the planes of C. */
struct residues_out {
    residues moduli;
    int8_t *c;
    int64_t m, n;

    __device__ __forceinline__ uint32_t packed(int q, const int sums[4]) const
    {
        const struct modulus *modulus = ozaki_modulus(&moduli, q);
        uint32_t bytes = 0;
#pragma unroll
        for (int e = 0; e < 4; e++)
            bytes |= (uint32_t)(uint8_t)ozaki_reduced(modulus, sums[e]) << 8 * e;
        return bytes;
    }

    __device__ __forceinline__ void put(int q, int64_t column, int64_t row, const int sums[4]) const
    {
        *reinterpret_cast<uint32_t *>(c + (q * n + column) * m + row) = packed(q, sums);
    }
};

static inline byte_planes planes_of(const residues &moduli, const ozaki_planes &p)
{
    return {p.m, p.n, p.k, p.a, p.b, p.k, p.k, ozaki_plane_count(&moduli), true, true};
}

static inline residues_out residues_of(const residues &moduli, const ozaki_planes &p)
{
    return {moduli, p.c, p.m, p.n};
}

/* The check of the products (ozaki_check.cu): once op(A) has been converted, with signs drawn from
 * `seed`; before op(B) is, which takes from planes.sums what is expected; and when the columns of C
 * have been added there, times their rows' signs.  The last one adds to *wrong, on the device, the
 * number of columns of planes of C that are not such products, as far as these signs tell. */
cudaError_t ozaki_check_a(const residues &moduli, const ozaki_planes &planes, uint64_t seed,
                          cudaStream_t stream);
cudaError_t ozaki_check_clear(const residues &moduli, const ozaki_planes &planes,
                              cudaStream_t stream);
cudaError_t ozaki_check_c(const residues &moduli, const ozaki_planes &planes,
                          unsigned long long *wrong, cudaStream_t stream);
