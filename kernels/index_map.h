/* Index maps: pure integer functions that compile for the GPU and for the CPU, where unit tests
 * check every case (tests/unit/test_mma_maps.c, test_simt_maps.c). */
#pragma once

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

/* A tile of C: row and column in the grid of tiles. */
struct tile_index {
    unsigned i, j;
};
