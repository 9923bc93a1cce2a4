#include "problem.h"

#include "options.h"
#include "text.h"

bool problem_by_offset(const struct problem *p, enum operand operand)
{
    return store_by_offset(&p->matrix[operand], p->held[operand], p->io);
}

bool problem_through_library(const struct problem *p, enum operand operand)
{
    return store_through_library(&p->matrix[operand], p->held[operand], p->io);
}

double problem_library_rate(const struct problem *p, enum operand operand)
{
    return format_of_matrix(&p->matrix[operand])->read_bytes_per_s;
}

size_t problem_reading_bytes(const struct problem *p, int threads)
{
    size_t bytes = 0;
    for (enum operand operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(p, operand))
            bytes += store_overhead_bytes(&p->matrix[operand], p->held[operand], STORE_READ, p->io,
                                          threads);
    return bytes;
}

static size_t output_bytes(const struct problem *p, int threads, size_t *shared)
{
    const enum scalar c = problem_written(p);
    struct matrix output = problem_output(p);
    output.by_offset = true;
    *shared = store_shared_bytes(&output, c, STORE_WRITE, p->io);
    return store_overhead_bytes(&output, c, STORE_WRITE, p->io, threads);
}

size_t problem_writing_bytes(const struct problem *p, int threads)
{
    size_t shared, read = 0;
    const size_t mapped = output_bytes(p, threads, &shared);
    for (enum operand operand = 0; operand < OPERAND_COUNT; operand++)
        if (problem_reads(p, operand)) {
            size_t bytes =
                store_shared_bytes(&p->matrix[operand], p->held[operand], STORE_READ, p->io);
            read = bytes > read ? bytes : read;
        }
    return mapped + read > shared ? mapped + read : shared;
}

bool problem_maps_output(const struct problem *p)
{
    size_t shared;
    return output_bytes(p, 1, &shared) > 0;
}

double problem_products(const struct problem *p)
{
    double m = (double)p->m, n = (double)p->n;
    return problem_is_triangle(p) ? n * (m + 1) / 2 : problem_passes(p) * m * n;
}

struct problem problem_inner(const struct problem *p)
{
    struct problem inner = *p;
    inner.normal = inner.continues = false;
    inner.trans[OPERAND_A] = !p->trans[OPERAND_A];
    inner.m = p->k_whole;
    inner.k = inner.k_whole = p->m;
    inner.k_first = 0;
    inner.blocks.steps = inner.blocks.origin = 0;
    inner.alpha = 1;
    return inner;
}

double problem_elements(const struct problem *p)
{
    bool twice = problem_mirrors(p) && !problem_is_triangle(p);
    return p->lower ? problem_products(p) : (twice ? 2 : 1) * (double)p->m * (double)p->n;
}

bool problem_is_of_one_matrix(const struct problem *p)
{
    return !p->normal && p->trans[0] != p->trans[1] && matrix_is_same(&p->matrix[0], &p->matrix[1]);
}

const char *problem_kernels(const struct problem *p, const struct options *options)
{
    const struct kernel *kernel =
        options->algorithm == ALGORITHM_AUTO ? NULL : kernels[options->algorithm];
    if (problem_is_exact(p))
        return "integers";
    if (p->moduli > 0)
        return text_make("%s:%d", kernel->name, p->moduli);
    return !kernel || kernel->same_bits ? "own" : kernel->name;
}

const char *problem_type_text(const struct problem *p)
{
    const char *type = scalar_name(p->held[OPERAND_C]);
    return p->narrows ? text_make("%s rounded to %s", type, scalar_name(problem_written(p))) : type;
}

double problem_proven(const struct problem *p)
{
    struct residues residues;
    residues_make(p->moduli, p->complex, &residues);
    return ozaki_proven(&residues, p->type, p->k_whole);
}
