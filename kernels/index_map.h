/* An index map is pure arithmetic, the same on the GPU and in the tests that try every case of it
 * on the CPU (tests/unit/test_mma_maps.c, test_simt_maps.c). */
#ifndef DGEMM_OOC_INDEX_MAP_H
#define DGEMM_OOC_INDEX_MAP_H

#ifdef __CUDACC__
#define INDEX_MAP constexpr __host__ __device__ __forceinline__
#elif defined(__cplusplus)
#define INDEX_MAP constexpr inline
#else
#define INDEX_MAP static inline
#endif

#ifdef __cplusplus
#define INDEX_TABLE constexpr
#else
#define INDEX_TABLE static const
#endif

/* Which of C's tiles. */
struct tile_index {
    unsigned i, j;
};

#endif
