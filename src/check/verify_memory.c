#include <inttypes.h>
#include <math.h>

#include "check.h"
#include "checksum.h"
#include "embedding.h"
#include "error.h"
#include "freivalds.h"
#include "problem_scaling.h"
#include "quantity.h"
#include "shared_read.h"
#include "verify_impl.h"

enum { CLASS_COLUMNS = 16 }; /* the least, where there is more than one class */

size_t verify_numbers(const struct problem *p, int classes)
{
    size_t m = (size_t)p->m, k = (size_t)p->k, n = (size_t)p->n, each = (size_t)classes;
    return 3 * n + m + 2 * k * each + 7 * m * each + each + check_verdicts(p->m);
}

static size_t vector_bytes(const struct problem *p, int classes)
{
    size_t lines = 3 * (size_t)scaling_lines(p) * sizeof(double);
    return lines + verify_numbers(p, classes) * sizeof(double) + (size_t)p->n * sizeof(int) +
           checksum_bytes(p->type, p->n);
}

enum store_way verify_way(const struct problem *p, bool is_c)
{
    return is_c && p->io == STORE_LIBRARY ? STORE_AUTO : p->io;
}

int verify_rooms(const struct problem *p)
{
    double most = 0;
    for (enum operand i = OPERAND_A; i <= OPERAND_B; i++)
        if (embedding_needed(p, i))
            most = fmax(most, 1 / embedding_stored(p, i));
    return 1 + (int)most;
}

size_t verify_fixed_bytes(const struct problem *p, int classes, int threads)
{
    struct matrix c = problem_output(p);
    c.by_offset = true;
    size_t most = shared_read_overhead(&c, c.elements, verify_way(p, true), threads);
    for (enum operand operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(p, operand)) {
            const size_t bytes = shared_read_overhead(&p->matrix[operand], p->held[operand],
                                                      verify_way(p, false), threads);
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
    size_t parts = (size_t)(machine->threads * verify_rooms(p)) * SHARED_READ_PART_LEAST;
    size_t needed = verify_fixed_bytes(p, 1, machine->threads) + parts;
    if (p->normal) { /* two are checked, one after the other */
        const struct problem inner = problem_inner(p);
        const size_t other = verify_fixed_bytes(&inner, 1, machine->threads) + parts;
        needed = other > needed ? other : needed;
    }
    if (needed <= machine->host_memory)
        return 0;
    return error_add(
        err, EXIT_RESOURCES,
        "the full check needs at least --host-memory %" PRIu64 "K, there are %s; or do without it",
        (uint64_t)(needed + 1023) / 1024, quantity_bytes((double)machine->host_memory));
}
