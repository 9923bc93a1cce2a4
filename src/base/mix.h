/* Pseudorandom bits that are a function of a number. */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define MIX static inline __host__ __device__
#else
#define MIX static inline
#endif

/* A bijection (the finaliser of SplitMix64). */
MIX uint64_t mix_bits(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The generator SplitMix64, whose n-th number is a function of n. */
MIX uint64_t mix_number(uint64_t start, uint64_t index)
{
    return mix_bits(start + (index + 1) * 0x9e3779b97f4a7c15u);
}
