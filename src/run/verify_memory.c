#include <inttypes.h>
#include <math.h>

#include "check.h"
#include "checksum.h"
#include "embedding.h"
#include "error.h"
#include "freivalds.h"
#include "quantity.h"
#include "standard_problem.h"
#include "verify_impl.h"

/* A thread reads whole chunks, which are then decoded once, up to this many bytes. */
enum { PART_MAX = 4 << 20, PART_CHUNK_MAX = 16 << 20 };

enum { CLASS_COLUMNS = 16 }; /* the least, where there is more than one class */

size_t verify_numbers(const struct problem *p, int classes)
{
    size_t m = (size_t)p->m, k = (size_t)p->k, n = (size_t)p->n, each = (size_t)classes;
    return 3 * n + m + 2 * k * each + 6 * m * each + each + check_verdicts(p->m);
}

static size_t vector_bytes(const struct problem *p, int classes)
{
    size_t lines = 3 * (size_t)standard_lines(p) * sizeof(double);
    return lines + verify_numbers(p, classes) * sizeof(double) + (size_t)p->n * sizeof(int) +
           checksum_bytes(p->type, p->n);
}

enum store_way verify_way(const struct problem *p, bool is_c)
{
    return is_c && p->io == STORE_HDF5 ? STORE_AUTO : p->io;
}

static size_t reading_bytes(const struct problem *p, const struct matrix_info *info, bool is_c,
                            int threads)
{
    enum store_way way = verify_way(p, is_c);
    return store_overhead_bytes(info, p->type, STORE_READ, way, threads) +
           store_shared_bytes(info, p->type, STORE_READ, way);
}

size_t verify_rooms(const struct problem *p)
{
    double most = 0;
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
        if (embedding_needed(p, i))
            most = fmax(most, 1 / embedding_stored(p, i));
    return 1 + (size_t)most;
}

size_t verify_fixed_bytes(const struct problem *p, int classes, int threads)
{
    struct matrix_info c = {.rows = p->m, .cols = p->n, .by_offset = true};
    c.elements = p->type == SCALAR_FLOAT ? ELEMENT_FLOAT : ELEMENT_DOUBLE;
    size_t most = reading_bytes(p, &c, true, threads);
    for (enum operand operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(p, operand)) {
            size_t bytes = reading_bytes(p, &p->matrix[operand], false, threads);
            most = bytes > most ? bytes : most;
        }
    return vector_bytes(p, classes) + most;
}

int verify_classes(const struct problem *p, const struct machine *machine)
{
    int classes = 1;
    while (classes < CLASSES_MAX && p->n / (2 * classes) >= CLASS_COLUMNS &&
           verify_fixed_bytes(p, 2 * classes, machine->threads) <= machine->host_memory / 2)
        classes *= 2;
    return classes;
}

int verify_fits(const struct problem *p, const struct machine *machine, struct error *err)
{
    size_t parts = (size_t)machine->threads * verify_rooms(p) * VERIFY_PART_MIN;
    size_t needed = verify_fixed_bytes(p, 1, machine->threads) + parts;
    if (needed <= machine->host_memory)
        return 0;
    return error_add(
        err, EXIT_RESOURCES,
        "the full check needs at least --host-memory %" PRIu64 "K, there are %s; or do without it",
        (uint64_t)(needed + 1023) / 1024, quantity_bytes((double)machine->host_memory));
}

size_t verify_best_part(const struct problem *p)
{
    size_t best = PART_MAX;
    for (enum operand operand = 0; operand < OPERAND_COUNT; operand++) {
        size_t chunk = problem_reads(p, operand) ? (size_t)p->matrix[operand].chunk_bytes : 0;
        if (chunk > best && chunk <= PART_CHUNK_MAX)
            best = chunk;
    }
    return (size_t)round_up((int64_t)best, VERIFY_PAGE);
}
