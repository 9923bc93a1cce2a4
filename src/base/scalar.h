/* The element types of a matrix: one table of all that is known of them.  A new type is a line of
 * that table, and its conversion. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "half.h"

enum scalar {
    SCALAR_FLOAT,
    SCALAR_DOUBLE,
    SCALAR_INT8,
    SCALAR_UINT8,
    SCALAR_INT16,
    SCALAR_UINT16,
    SCALAR_INT32,
    SCALAR_UINT32,
    SCALAR_INT64,
    SCALAR_FLOAT16, /* these two are only stored, and become floats */
    SCALAR_BFLOAT16,
    SCALAR_COUNT,
    SCALAR_OTHER = SCALAR_COUNT /* a type of a file that is not in the table */
};

struct scalar_info {
    const char *name;
    unsigned char bytes;
    unsigned char exponent; /* bits of an IEEE 754 number's exponent; 0: an integer */
    bool is_signed;
    enum scalar factor; /* what it becomes on the device before it is multiplied: itself, or a type
                           that has all of its numbers */
    double roundoff;    /* the largest relative error of rounding to it; 0: an integer */
    double largest;     /* the largest magnitude */
    enum scalar finer;  /* a type that rounds less; itself: there is none */
    char letters[2];    /* BLAS's, of real and of complex matrices; 0: it has none */
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct scalar_info scalar_table[SCALAR_COUNT];

/* Elements of 16 bits become floats.  They may be the last ones in the memory of these. */
void scalar_widen(enum scalar type, const void *from, int64_t count, float *to);

/* Doubles become the nearest floats, which take the beginning of their memory.  Returns how many
 * finite ones became infinite. */
int64_t scalar_narrow(void *memory, int64_t count);
#ifdef __cplusplus
}
#endif

static inline size_t scalar_size(enum scalar type)
{
    return scalar_table[type].bytes;
}

static inline const char *scalar_name(enum scalar type)
{
    return scalar_table[type].name;
}

static inline bool scalar_is_integer(enum scalar type)
{
    return type < SCALAR_COUNT && scalar_table[type].exponent == 0;
}

static inline bool scalar_is_real(enum scalar type)
{
    return type < SCALAR_COUNT && scalar_table[type].exponent > 0;
}

/* Whether sums and C may be of it: a real number that is multiplied as it is. */
static inline bool scalar_is_float_or_double(enum scalar type)
{
    return scalar_is_real(type) && scalar_table[type].factor == type;
}

static inline bool scalar_is_signed(enum scalar type)
{
    return scalar_table[type].is_signed;
}

static inline enum scalar scalar_factor(enum scalar type)
{
    return scalar_table[type].factor;
}

static inline enum scalar scalar_finer(enum scalar type)
{
    return scalar_table[type].finer;
}

/* As --type has it. */
static inline char scalar_letter(enum scalar type, bool complex)
{
    return scalar_table[type].letters[complex];
}

static inline double scalar_roundoff(enum scalar type)
{
    return scalar_table[type].roundoff;
}

static inline double scalar_largest(enum scalar type)
{
    return scalar_table[type].largest;
}

/* Up to this power of two it has all integers. */
static inline int scalar_whole_bits(enum scalar type)
{
    const struct scalar_info *info = &scalar_table[type];
    return 8 * info->bytes - (info->exponent ? info->exponent : info->is_signed);
}

static inline double scalar_get_float(const void *matrix, int64_t index)
{
    float value;
    memcpy(&value, (const char *)matrix + (size_t)index * sizeof value, sizeof value);
    return (double)value;
}

static inline double scalar_get_double(const void *matrix, int64_t index)
{
    double value;
    memcpy(&value, (const char *)matrix + (size_t)index * sizeof value, sizeof value);
    return value;
}

static inline uint16_t scalar_get_bits(const void *matrix, int64_t index)
{
    uint16_t bits;
    memcpy(&bits, (const char *)matrix + (size_t)index * sizeof bits, sizeof bits);
    return bits;
}

/* Element `index` of a matrix as a double, to which integers of 64 bits are rounded.  The memory
 * may be of any declared type, but for integers. */
static inline double scalar_get(enum scalar type, const void *matrix, int64_t index)
{
    switch (type) {
    case SCALAR_FLOAT: return scalar_get_float(matrix, index);
    case SCALAR_DOUBLE: return scalar_get_double(matrix, index);
    case SCALAR_FLOAT16: return (double)float16_value(scalar_get_bits(matrix, index));
    case SCALAR_BFLOAT16: return (double)bfloat16_value(scalar_get_bits(matrix, index));
    case SCALAR_INT8: return ((const int8_t *)matrix)[index];
    case SCALAR_UINT8: return ((const uint8_t *)matrix)[index];
    case SCALAR_INT16: return ((const int16_t *)matrix)[index];
    case SCALAR_UINT16: return ((const uint16_t *)matrix)[index];
    case SCALAR_INT32: return ((const int32_t *)matrix)[index];
    case SCALAR_UINT32: return ((const uint32_t *)matrix)[index];
    default: return (double)((const int64_t *)matrix)[index];
    }
}

/* Store an integer that the type has as element `index` of a matrix of integers. */
static inline void scalar_put_integer(enum scalar type, int64_t value, void *matrix, int64_t index)
{
    switch (scalar_size(type)) {
    case 1: ((int8_t *)matrix)[index] = (int8_t)value; break;
    case 2: ((int16_t *)matrix)[index] = (int16_t)value; break;
    case 4: ((int32_t *)matrix)[index] = (int32_t)value; break;
    default: ((int64_t *)matrix)[index] = value; break;
    }
}

/* A number as a float or double. */
static inline double scalar_rounded(enum scalar type, double value)
{
    return type == SCALAR_FLOAT ? (double)(float)value : value;
}

/* Store a number as element `index` of a matrix: rounded, as a float or double; of other types one
 * that the type has. */
static inline void scalar_put(enum scalar type, double value, void *matrix, int64_t index)
{
    const float rounded = (float)value;
    const uint16_t half = type == SCALAR_FLOAT16 ? float16_bits(rounded) : bfloat16_bits(rounded);
    if (scalar_is_integer(type))
        scalar_put_integer(type, (int64_t)value, matrix, index);
    else if (type == SCALAR_FLOAT)
        memcpy((char *)matrix + (size_t)index * sizeof rounded, &rounded, sizeof rounded);
    else if (type == SCALAR_DOUBLE)
        memcpy((char *)matrix + (size_t)index * sizeof value, &value, sizeof value);
    else
        memcpy((char *)matrix + (size_t)index * sizeof half, &half, sizeof half);
}
