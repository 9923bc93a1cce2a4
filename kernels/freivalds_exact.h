/* What sketch and project (freivalds.h) are for integers: a matrix times a vector, modulo 2^64. */
#pragma once

#include "freivalds.h"

/* to[i] := sum over j of op(M)[i][j] x[j], modulo 2^64, or, with `add`, to[i] plus that; and
 * squares[i] likewise of the squares of M, in doubles, where M is of int64.  M holds integers. */
struct exact_lines {
    enum scalar type;
    bool add;
    const void *matrix;
    int64_t across, along; /* elements from line to line of op(M), and along a line */
    int64_t lines, length;
    const uint64_t *x;
    uint64_t *to;
    double *squares;
};

static inline struct exact_lines exact_sketch(const struct sketch *s)
{
    const struct exact_lines lines = {s->type,
                                      s->accumulate,
                                      s->matrix,
                                      s->trans ? 1 : s->ld,
                                      s->trans ? s->ld : 1,
                                      s->trans ? s->cols : s->rows,
                                      s->trans ? s->rows : s->cols,
                                      (const uint64_t *)s->weights,
                                      (uint64_t *)s->sums,
                                      s->squares};
    return lines;
}

static inline struct exact_lines exact_project(const struct project *p)
{
    const struct exact_lines lines = {p->type,
                                      !p->from_zero,
                                      p->matrix,
                                      p->trans ? 1 : p->ld,
                                      p->trans ? p->ld : 1,
                                      p->trans ? p->cols : p->rows,
                                      p->trans ? p->rows : p->cols,
                                      (const uint64_t *)p->x,
                                      (uint64_t *)p->y,
                                      NULL};
    return lines;
}

/* On at most `threads` threads of the CPU.  Blocking. */
void exact_lines_cpu(const struct exact_lines *e, int threads);
