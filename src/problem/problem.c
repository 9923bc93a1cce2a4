#include "problem.h"

#include "options.h"
#include "text.h"

bool problem_by_offset(const struct problem *p, enum operand operand)
{
    return store_by_offset(&p->matrix[operand], p->held[operand], p->io);
}

bool problem_through_hdf5(const struct problem *p, enum operand operand)
{
    return store_through_hdf5(&p->matrix[operand], p->held[operand], p->io);
}

double problem_products(const struct problem *p)
{
    double m = (double)p->m, n = (double)p->n;
    return problem_is_triangle(p) ? n * (m + 1) / 2 : m * n;
}

double problem_elements(const struct problem *p)
{
    bool twice = problem_mirrors(p) && !problem_is_triangle(p);
    return p->lower ? problem_products(p) : (twice ? 2 : 1) * (double)p->m * (double)p->n;
}

bool problem_is_of_one_matrix(const struct problem *p)
{
    return p->trans[0] != p->trans[1] && matfile_is_same(&p->matrix[0], &p->matrix[1]);
}

const char *problem_kernels(const struct problem *p, const struct options *options)
{
    const struct kernel *kernel =
        options->algorithm == ALGORITHM_AUTO ? NULL : kernels[options->algorithm];
    if (p->exact)
        return "integers";
    if (p->moduli > 0)
        return text_make("%s:%d", kernel->name, p->moduli);
    return !kernel || kernel->same_bits ? "own" : kernel->name;
}

double problem_proven(const struct problem *p)
{
    struct residues residues;
    residues_make(p->moduli, p->complex, &residues);
    return ozaki_proven(&residues, p->type, p->k_whole);
}
