/* Floating-point numbers of 16 bits, which are only stored: each of them is a float, subnormal
 * numbers, infinite ones and NaN included.  For the CPU and for GPUs. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define HALF_VALUE static __host__ __device__ __forceinline__
#else
#define HALF_VALUE static inline
#endif

HALF_VALUE float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754's binary16. */
HALF_VALUE float float16_value(uint16_t bits)
{
    const uint32_t magnitude = bits & 0x7fffu, sign = (uint32_t)(bits & 0x8000u) << 16;
    const float subnormal = (float)magnitude * 0x1p-24f;
    if (magnitude < 0x400)
        return sign ? -subnormal : subnormal;
    /* The bias of a float's exponent is larger by 112.  Inf and NaN have the largest exponent. */
    const uint32_t bias = magnitude < 0x7c00 ? 112 : 224;
    return float_of_bits(sign | ((magnitude << 13) + (bias << 23)));
}

/* The upper half of a float. */
HALF_VALUE float bfloat16_value(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

/* The bits of a float that is such a number. */
static inline uint16_t bfloat16_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static inline uint16_t float16_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t magnitude = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    if (magnitude < 113u << 23) /* below the least number that is not subnormal */
        return (uint16_t)(sign | (uint32_t)(fabsf(value) * 0x1p24f));
    const uint32_t bias = magnitude < 0x7f800000 ? 112 : 224;
    return (uint16_t)(sign | (magnitude - (bias << 23)) >> 13);
}
