/* Problems and machines for tests of the planner. */
#pragma once

#include "scratch.h"

#include "planner.h"

static inline void compress(struct matrix *matrix, int64_t chunk_rows, int64_t chunk_cols)
{
    matrix->by_offset = false;
    matrix->by_chunks = true;
    matrix->element_bytes = scalar_size(matrix->elements);
    matrix->chunk_rows = chunk_rows;
    matrix->chunk_cols = chunk_cols;
    matrix->chunk_bytes = (uint64_t)(chunk_rows * chunk_cols) * matrix->element_bytes;
    matrix->pipeline = (struct chunk_pipeline){1, {{CHUNK_DEFLATE, 6}}};
}

/* A problem of as many complex elements; A may be real. */
static inline void make_complex(struct problem *p, bool a_too)
{
    p->complex = true;
    p->n *= 2;
    p->k *= 2;
    for (int i = a_too ? OPERAND_A : OPERAND_B; i < OPERAND_COUNT; i++) {
        p->matrix[i].complex = true;
        p->matrix[i].cols *= 2;
        p->matrix[i].chunk_cols *= 2;
        p->matrix[i].chunk_bytes *= 2;
    }
}

/* Bits of `flags`: double; trans of A, of B; alpha 0; beta 2; A and C chunked; complex; but A. */
static inline struct problem make_problem(int64_t m, int64_t n, int64_t k, int flags)
{
    struct problem p = {.m = m,
                        .n = n,
                        .k = k,
                        .trans = {flags & 2, flags & 4},
                        .alpha = flags & 8 ? 0 : 1,
                        .beta = flags & 16 ? 2 : 0};
    problem_set_type(&p, flags & 1 ? SCALAR_DOUBLE : SCALAR_FLOAT);
    int64_t rows[] = {p.trans[0] ? k : m, p.trans[1] ? n : k, m};
    int64_t cols[] = {p.trans[0] ? m : k, p.trans[1] ? k : n, n};
    for (int i = 0; i < OPERAND_COUNT; i++) {
        p.matrix[i].rows = rows[i];
        p.matrix[i].cols = cols[i];
        p.matrix[i].elements = p.type;
        p.matrix[i].by_offset = true;
        if (flags & 32 && i != OPERAND_B)
            compress(&p.matrix[i], 7, 32);
    }
    if (flags & 64)
        make_complex(&p, !(flags & 128));
    return p;
}

static inline struct machine make_machine(int ranks, size_t device, size_t host, bool gpu)
{
    return (struct machine){.gpu = gpu,
                            .ranks = ranks,
                            .ranks_per_node = ranks,
                            .threads = 4,
                            .device_memory = device,
                            .host_memory = host,
                            .disk_read_bytes_per_s = 2e9,
                            .disk_write_bytes_per_s = 1e9,
                            .disk_run_bytes = 65536,
                            .network_bytes_per_s = 10e9,
                            .in_bytes_per_s = 50e9,
                            .out_bytes_per_s = 50e9,
                            .device_bytes_per_s = 2e12,
                            .gemm_flops_per_s = {50e12, 50e12}};
}
