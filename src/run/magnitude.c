#include "magnitude.h"

#include <stdlib.h>

#include "comm.h"
#include "error.h"
#include "machine.h"
#include "meter.h"
#include "problem.h"
#include "quantity.h"
#include "stop.h"

enum {
    PAGE = 4096,
    PART_LEAST = 64 << 10, /* bytes that a thread reads at a time, */
    PART_MOST = 4 << 20,   /* or a whole chunk of at most ... */
    CHUNK_MOST = 16 << 20,
};

/* The pass over one matrix. */
struct magnitude_search {
    const struct matrix_info *info;
    enum scalar type;
    struct comm *comm;
    struct store *store;
    int threads;
    struct block all;
    struct block_cut cut;
    size_t part_bytes;
    char *parts; /* a part for each thread */
    uint64_t largest;
    double bytes;
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

/* Parts [first, first + count), a thread each. */
static void read_parts(struct magnitude_search *s, int64_t first, int count, struct error *err)
{
    uint64_t largest = s->largest;
    double bytes = 0;
#pragma omp parallel for num_threads(s->threads) reduction(max : largest) reduction(+ : bytes)
    for (int i = 0; i < count; i++) {
        struct error mine = {0};
        char *memory = s->parts + (size_t)i * s->part_bytes;
        const struct block part = block_cut_part(&s->all, &s->cut, first + i);
        if (store_read(s->store, &part, memory, &mine)) {
#pragma omp critical(magnitude)
            *err = mine;
            continue;
        }
        const uint64_t here = largest_of(s->type, memory, part.rows * part.cols);
        largest = here > largest ? here : largest;
        bytes += (double)(part.rows * part.cols) * (double)scalar_size(s->type);
    }
    s->largest = largest;
    s->bytes += bytes;
}

/* This rank's parts: as many as it has threads, then those of the next ranks follow. */
static void read_all(struct magnitude_search *s, const struct statistics_watch *watch,
                     struct error *err)
{
    const int64_t parts = block_cut_parts(&s->all, &s->cut), each = s->threads;
    for (int64_t i = s->comm->rank * each; i < parts && !err->code && !comm_raised(s->comm);
         i += s->comm->size * each) {
        if (stop_level(s->comm->rank == 0) == STOP_END)
            err->code = EXIT_STOPPED;
        else
            read_parts(s, i, (int)min_i64(each, parts - i), err);
        if (s->comm->rank == 0)
            watch->tell(watch->context, (double)i / (double)parts);
    }
    if (err->code)
        comm_raise(s->comm);
}

/* Parts of at least a chunk, which is then decoded once. */
static int allocate(struct magnitude_search *s, const struct problem *p, size_t memory,
                    struct error *err)
{
    const size_t fixed = store_overhead_bytes(s->info, s->type, STORE_READ, p->io, s->threads) +
                         store_shared_bytes(s->info, s->type, STORE_READ, p->io);
    const size_t each = memory > fixed ? (memory - fixed) / (size_t)s->threads / PAGE * PAGE : 0;
    const size_t chunk = s->info->chunk_bytes, best = chunk <= CHUNK_MOST && chunk > PART_MOST
                                                          ? (size_t)round_up((int64_t)chunk, PAGE)
                                                          : PART_MOST;
    s->part_bytes = each < PART_LEAST ? PART_LEAST : each < best ? each : best;
    s->cut = (struct block_cut){(int64_t)(s->part_bytes / scalar_size(s->type)),
                                s->info->chunk_rows, s->info->chunk_cols};
    s->parts = aligned_alloc(PAGE, (size_t)s->threads * s->part_bytes);
    if (!s->parts)
        return error_add(err, EXIT_RESOURCES, "no memory to look for the largest elements");
    return store_open(s->info, s->type, STORE_READ, p->io, &s->store, err);
}

/* Collective. */
static int search_matrix(struct magnitude_search *s, const struct problem *p, size_t memory,
                         const struct statistics_watch *watch, struct error *err)
{
    allocate(s, p, memory, err);
    if (comm_agree(s->comm, err) == 0) {
        read_all(s, watch, err);
        comm_agree(s->comm, err);
    }
    store_close(s->store);
    free(s->parts);
    return err->code;
}

int magnitude_read(const struct problem *p, const struct machine *machine, struct comm *comm,
                   const struct statistics_watch *watch, struct magnitude *to, struct error *err)
{
    const double begin = clock_now();
    const size_t memory = comm_min(machine->host_memory); /* all ranks cut in the same way */
    const int threads = (int)comm_min((uint64_t)machine->threads);
    *to = (struct magnitude){0};
    for (enum operand i = OPERAND_A; i <= OPERAND_B && !err->code; i++) {
        struct magnitude_search search = {.info = &p->matrix[i],
                                          .type = problem_held(p, i),
                                          .comm = comm,
                                          .threads = threads,
                                          .all = {0, 0, p->matrix[i].rows, p->matrix[i].cols}};
        if (i == OPERAND_B && problem_is_of_one_matrix(p)) {
            to->largest[i] = to->largest[OPERAND_A];
            break;
        }
        if (search_matrix(&search, p, memory, watch, err))
            break;
        to->largest[i] = UINT32_MAX - comm_min(UINT32_MAX - search.largest);
        to->bytes += (double)comm_sum((uint64_t)search.bytes);
    }
    to->seconds = clock_now() - begin;
    return err->code;
}
