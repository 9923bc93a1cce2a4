/* The element types of a matrix. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum scalar {
    SCALAR_FLOAT,
    SCALAR_DOUBLE,
    SCALAR_INT8, /* integers from here on: signed and unsigned ones take turns */
    SCALAR_UINT8,
    SCALAR_INT16,
    SCALAR_UINT16,
    SCALAR_INT32,
    SCALAR_UINT32,
    SCALAR_INT64,
    SCALAR_COUNT
};

static inline size_t scalar_size(enum scalar type)
{
    static const unsigned char sizes[SCALAR_COUNT] = {4, 8, 1, 1, 2, 2, 4, 4, 8};
    return sizes[type];
}

static inline const char *scalar_name(enum scalar type)
{
    static const char *const names[SCALAR_COUNT] = {
        "float", "double", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    };
    return names[type];
}

static inline bool scalar_is_integer(enum scalar type)
{
    return type >= SCALAR_INT8;
}

/* Of an integer. */
static inline bool scalar_is_signed(enum scalar type)
{
    return type == SCALAR_INT8 || type == SCALAR_INT16 || type == SCALAR_INT32 ||
           type == SCALAR_INT64;
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

/* The largest magnitude of an integer of the type. */
static inline double scalar_largest(enum scalar type)
{
    static const double largest[] = {128, 255, 32768, 65535, 0x1p31, 0x1p32 - 1, 0x1p63};
    return largest[type - SCALAR_INT8];
}
