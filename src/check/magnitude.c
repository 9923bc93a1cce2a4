#include "magnitude.h"

#include "comm.h"
#include "error.h"
#include "machine.h"
#include "meter.h"
#include "problem.h"
#include "shared_read.h"

/* What one matrix has so far. */
struct magnitude_search {
    enum scalar type;
    uint64_t largest;
};

#define LARGEST(type)                                                                              \
    for (int64_t i = 0; i < count; i++) {                                                          \
        const int64_t x = ((const type *)elements)[i];                                             \
        const uint64_t size = (uint64_t)(x < 0 ? -x : x);                                          \
        largest = size > largest ? size : largest;                                                 \
    }

/* Of elements of up to 32 bits. */
static uint64_t largest_of(enum scalar type, const void *elements, int64_t count)
{
    uint64_t largest = 0;
    switch (type) {
    case SCALAR_INT8: LARGEST(int8_t) break;
    case SCALAR_UINT8: LARGEST(uint8_t) break;
    case SCALAR_INT16: LARGEST(int16_t) break;
    case SCALAR_UINT16: LARGEST(uint16_t) break;
    case SCALAR_INT32: LARGEST(int32_t) break;
    default: LARGEST(uint32_t) break;
    }
    return largest;
}

static void add(void *context, const struct block *part, void *memory)
{
    struct magnitude_search *s = context;
    const uint64_t here = largest_of(s->type, memory, part->rows * part->cols);
#pragma omp critical(magnitude)
    s->largest = here > s->largest ? here : s->largest;
}

int magnitude_read(const struct problem *p, const struct machine *machine, struct comm *comm,
                   struct magnitude *to, struct error *err)
{
    const double begin = clock_now();
    const size_t memory = comm_min(comm, machine->host_memory); /* all ranks cut in the same way */
    const int threads = (int)comm_min(comm, (uint64_t)machine->threads);
    const int matrices = problem_is_of_one_matrix(p) ? 1 : 2;
    *to = (struct magnitude){0};
    for (int i = 0; i < matrices && !err->code; i++) {
        const struct source *source = &p->sources[i];
        const struct matrix *matrix = &source->matrix;
        struct magnitude_search search = {.type = p->held[i]};
        struct shared_read read = {.source = source,
                                   .type = search.type,
                                   .way = p->io,
                                   .comm = comm,
                                   .threads = threads,
                                   .context = &search,
                                   .add = add};
        const size_t fixed = shared_read_overhead(matrix, search.type, p->io, threads);
        shared_read_open(&read, memory > fixed ? memory - fixed : 0, err);
        shared_read_block(&read, &(struct block){0, 0, matrix->rows, matrix->cols}, err);
        shared_read_close(&read);
        to->largest[i] = UINT32_MAX - comm_min(comm, UINT32_MAX - search.largest);
        to->bytes += (double)comm_sum(comm, read.bytes);
    }
    if (matrices == 1)
        to->largest[OPERAND_B] = to->largest[OPERAND_A];
    to->seconds = clock_now() - begin;
    return err->code;
}
