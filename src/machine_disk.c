/* A short probe of the file system: what it gives now is a better guess than any assumption. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "machine.h"
#include "meter.h"
#include "problem.h"
#include "quantity.h"

static const double worth_bytes = 1 << 30; /* smaller matrices are soon read anyway */
static const double probe_seconds = 0.1;
static const double memory_bytes_per_s = 3e9; /* through the page cache this is no disk any more,
                                               * and every thread can have as much */
enum { PROBES = 16, PROBE_BYTES = 8 << 20, CACHE_THREADS = 8 };

static double matrix_bytes(const struct problem *p, enum operand operand)
{
    const struct matrix_info *info = &p->matrix[operand];
    return (double)info->rows * (double)info->cols * (double)scalar_size(p->type);
}

/* The one that is read by offset and takes longest; OPERAND_COUNT when there is none. */
static enum operand largest(const struct problem *p)
{
    int found = OPERAND_COUNT;
    for (int i = 0; i < OPERAND_COUNT; i++)
        if (problem_reads(p, (enum operand)i) && problem_by_offset(p, (enum operand)i) &&
            (found == OPERAND_COUNT ||
             matrix_bytes(p, (enum operand)i) > matrix_bytes(p, (enum operand)found)))
            found = i;
    return (enum operand)found;
}

/* Bytes a second of reads here and there in the matrix; 0 when they fail. */
static double read_rate(struct store *store, const struct matrix_info *info, size_t element)
{
    struct error ignored = {0};
    int64_t cols = min_i64(info->cols, PROBE_BYTES / (int64_t)element);
    int64_t rows = min_i64(info->rows, PROBE_BYTES / (int64_t)element / cols);
    double start = clock_now(), bytes = 0;
    void *slot = aligned_alloc(4096, PROBE_BYTES);
    for (int i = 0; slot && i < PROBES && clock_now() - start < probe_seconds; i++) {
        int64_t row = (info->rows - rows) / (PROBES - 1) * (i * 7 % PROBES);
        struct block block = {row, 0, rows, cols};
        if (store_read(store, &block, slot, &ignored))
            break;
        bytes += (double)(rows * cols) * (double)element;
    }
    free(slot);
    return ignored.code ? 0 : bytes / (clock_now() - start);
}

void machine_probe_disk(const struct problem *p, struct machine *m)
{
    struct error ignored = {0};
    struct store *store = NULL;
    enum operand operand = largest(p);
    if (operand == OPERAND_COUNT || matrix_bytes(p, operand) < worth_bytes)
        return;
    const struct matrix_info *info = &p->matrix[operand];
    if (store_open(info, p->type, STORE_READ, p->io, &store, &ignored))
        return;
    double rate = read_rate(store, info, scalar_size(p->type));
    if (strcmp(store_way_name(store), "buffered") == 0 && rate > memory_bytes_per_s)
        rate *= (double)min_i64(m->threads, CACHE_THREADS);
    store_close(store);
    rate *= (double)ceil_div(m->ranks, m->ranks_per_node);
    if (rate > 0) /* in coarse steps, so that the plan is mostly the same the next time */
        m->disk_read_bytes_per_s = exp2(round(2 * log2(rate)) / 2);
}
