/* The element types of a matrix. */
#pragma once

#include <stddef.h>

enum scalar { SCALAR_FLOAT, SCALAR_DOUBLE };

static inline size_t scalar_size(enum scalar type)
{
    return type == SCALAR_FLOAT ? sizeof(float) : sizeof(double);
}

static inline const char *scalar_name(enum scalar type)
{
    return type == SCALAR_FLOAT ? "float" : "double";
}
