/* The sums of the check of integers (freivalds.h), modulo 2^64, on the CPU. */
#include "freivalds_exact.h"

enum { PIECE = 64 }; /* neighbouring lines that are summed up together */

/* The sums of some lines. */
struct lines_piece {
    int64_t first, count;
    uint64_t sums[PIECE];
    double squares[PIECE];
};

#define ADD(type)                                                                                  \
    for (int64_t j = 0; j < e->length; j++) {                                                      \
        const type *at = (const type *)e->matrix + p->first * e->across + j * e->along;            \
        const uint64_t x = e->x[j];                                                                \
        for (int64_t i = 0; i < p->count; i++, at += e->across) {                                  \
            p->sums[i] += (uint64_t)*at * x;                                                       \
            if (sizeof(type) == sizeof(int64_t))                                                   \
                p->squares[i] += (double)*at * (double)*at;                                        \
        }                                                                                          \
    }

static void add(const struct exact_lines *e, struct lines_piece *p)
{
    switch (e->type) {
    case SCALAR_INT8: ADD(int8_t) break;
    case SCALAR_UINT8: ADD(uint8_t) break;
    case SCALAR_INT16: ADD(int16_t) break;
    case SCALAR_UINT16: ADD(uint16_t) break;
    case SCALAR_INT32: ADD(int32_t) break;
    case SCALAR_UINT32: ADD(uint32_t) break;
    default: ADD(int64_t) break;
    }
}

/* Lines that are contiguous are taken one by one. */
void exact_lines_cpu(const struct exact_lines *e, int threads)
{
    const int64_t step = e->along == 1 ? 1 : PIECE;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < e->lines; i += step) {
        struct lines_piece p = {.first = i, .count = step < e->lines - i ? step : e->lines - i};
        add(e, &p);
        for (int64_t l = 0; l < p.count; l++) {
            e->to[i + l] = p.sums[l] + (e->add ? e->to[i + l] : 0);
            if (e->type == SCALAR_INT64)
                e->squares[i + l] = p.squares[l] + (e->add ? e->squares[i + l] : 0);
        }
    }
}
