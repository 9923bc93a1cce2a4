#include "scalar.h"

#include <float.h>
#include <math.h>

const struct scalar_info scalar_table[SCALAR_COUNT] = {
    [SCALAR_FLOAT] =
        {"float", 4, 8, true, SCALAR_FLOAT, 0x1p-24, FLT_MAX, SCALAR_DOUBLE, {'s', 'c'}},
    [SCALAR_DOUBLE] =
        {"double", 8, 11, true, SCALAR_DOUBLE, 0x1p-53, DBL_MAX, SCALAR_DOUBLE, {'d', 'z'}},
    [SCALAR_INT8] = {"int8", 1, 0, true, SCALAR_INT8, 0, 0x1p7, SCALAR_INT8, {0}},
    [SCALAR_UINT8] = {"uint8", 1, 0, false, SCALAR_UINT8, 0, 0x1p8 - 1, SCALAR_UINT8, {0}},
    [SCALAR_INT16] = {"int16", 2, 0, true, SCALAR_INT16, 0, 0x1p15, SCALAR_INT16, {0}},
    [SCALAR_UINT16] = {"uint16", 2, 0, false, SCALAR_UINT16, 0, 0x1p16 - 1, SCALAR_UINT16, {0}},
    [SCALAR_INT32] = {"int32", 4, 0, true, SCALAR_INT32, 0, 0x1p31, SCALAR_INT32, {0}},
    [SCALAR_UINT32] = {"uint32", 4, 0, false, SCALAR_UINT32, 0, 0x1p32 - 1, SCALAR_UINT32, {0}},
    [SCALAR_INT64] = {"int64", 8, 0, true, SCALAR_INT64, 0, 0x1p63, SCALAR_INT64, {0}},
    [SCALAR_FLOAT16] = {"float16", 2, 5, true, SCALAR_FLOAT, 0x1p-11, 65504, SCALAR_DOUBLE, {0}},
    [SCALAR_BFLOAT16] =
        {"bfloat16", 2, 8, true, SCALAR_FLOAT, 0x1p-8, 0x1.fep127, SCALAR_DOUBLE, {0}},
};

void scalar_widen(enum scalar type, const void *from, int64_t count, float *to)
{
    enum { PART = 256 };
    uint16_t part[PART]; /* which `to` may overwrite */
    for (int64_t first = 0; first < count; first += PART) {
        const int64_t here = count - first < PART ? count - first : PART;
        memcpy(part, (const char *)from + (size_t)first * sizeof *part,
               (size_t)here * sizeof *part);
        for (int64_t i = 0; i < here; i++)
            to[first + i] =
                type == SCALAR_FLOAT16 ? float16_value(part[i]) : bfloat16_value(part[i]);
    }
}

int64_t scalar_narrow(void *memory, int64_t count)
{
    enum { PART = 256 };
    double part[PART]; /* which the floats may overwrite */
    int64_t infinite = 0;
    for (int64_t first = 0; first < count; first += PART) {
        const int64_t here = count - first < PART ? count - first : PART;
        float *to = (float *)memory + first;
        memcpy(part, (const double *)memory + first, (size_t)here * sizeof *part);
        int32_t lost = 0;
#pragma omp simd reduction(+ : lost)
        for (int64_t i = 0; i < here; i++) {
            to[i] = (float)part[i];
            lost += (fabs(part[i]) <= DBL_MAX) & (fabsf(to[i]) > FLT_MAX);
        }
        infinite += lost;
    }
    return infinite;
}
