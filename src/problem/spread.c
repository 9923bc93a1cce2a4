#include "spread.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "embedding.h"
#include "error.h"
#include "ozaki_scheme.h"
#include "quantity.h"

/* What the sample consists of, of each operand: groups of neighbours, in pieces of k. */
enum { GROUP = 8, GROUPS = 2, VECTORS = GROUP * GROUPS, STEPS = 1024, PIECES = 3 };
enum { MARGIN = 8 }; /* for what the sample does not show */

/* Rows of op(A), or columns of op(B), in one piece of k. */
struct sample {
    int64_t vectors, steps;
    double numbers[VECTORS][OZAKI_BLOCK],
        lost[VECTORS][OZAKI_BLOCK]; /* lost: by rounding, magnitudes */
    bool finite[VECTORS];
};

struct samples {
    struct sample a, b;
    double slot[GROUP * STEPS];   /* as read, */
    double factor[GROUP * STEPS]; /* and what that becomes (embedding.h) */
};

/* Where the i-th of `count` pieces of `length` begins: the first at the begin, the last at the
 * end. */
static int64_t begin_of(int64_t i, int64_t count, int64_t extent, int64_t length)
{
    return extent <= length ? 0 : i * (extent - length) / (count - 1);
}

/* What is read, and where to. */
struct sampling {
    const struct problem *problem;
    enum operand operand;
    struct store *store;
    struct samples *buffers;
    struct sample *to;
};

/* Read a block of op(A) or op(B), transposed as stored, packed; *numbers is where it is. */
static int read_factor(const struct sampling *r, const struct block *block, const double **numbers,
                       struct error *err)
{
    const struct problem *p = r->problem;
    struct samples *s = r->buffers;
    const struct block stored = embedding_in_file(p, r->operand, block);
    *numbers = s->slot;
    if (store_read(r->store, &stored, s->slot, err) || !embedding_needed(p, r->operand))
        return err->code;
    struct embed embed = embedding_make(p, r->operand, &stored);
    embed.from = s->slot;
    embed.stored = p->type;
    embed.ld_from = stored.cols;
    embed.to = s->factor;
    embed.ld_to = block->cols;
    embed_cpu(&embed, 1);
    *numbers = s->factor;
    return 0;
}

static int64_t extent_of(const struct problem *p, enum operand operand)
{
    return operand == OPERAND_A ? p->m : p->n;
}

/* Add the vectors of a group, from `first` on, in the piece of k from step `step` on. */
static int read_group(const struct sampling *r, int64_t first, int64_t step, struct error *err)
{
    const struct problem *p = r->problem;
    struct sample *to = r->to;
    const double *numbers;
    const bool by_rows =
        (r->operand == OPERAND_A) != p->trans[r->operand]; /* vectors are rows as stored */
    const int64_t count = min_i64(GROUP, extent_of(p, r->operand) - first);
    const struct block block = by_rows ? (struct block){first, step, count, to->steps}
                                       : (struct block){step, first, to->steps, count};
    if (read_factor(r, &block, &numbers, err))
        return err->code;
    for (int64_t i = 0; i < count; i++)
        for (int64_t h = 0; h < to->steps; h++) {
            const int64_t at = by_rows ? i * to->steps + h : h * count + i;
            to->numbers[to->vectors + i][h] = scalar_get(p->type, numbers, at);
        }
    to->vectors += count;
    return 0;
}

static int read_sample(const struct problem *p, enum operand operand, int64_t step,
                       struct samples *s, struct sample *to, struct error *err)
{
    const int64_t extent = extent_of(p, operand);
    struct sampling r = {.problem = p, .operand = operand, .buffers = s, .to = to};
    to->vectors = 0;
    to->steps = min_i64(STEPS, p->k - step);
    if (store_open(&p->sources[operand], p->type, STORE_READ, p->io, &r.store, err))
        return err->code;
    for (int i = 0; i < GROUPS && (i == 0 || extent > GROUP) && !err->code; i++)
        read_group(&r, begin_of(i, GROUPS, extent, GROUP), step, err);
    store_close(r.store);
    return err->code;
}

/* What rounding to integers takes from each number, if the rest of a block of k is as these: its
 * norms are larger by the square root of its length, and its integers coarser by as much. */
static void round_vectors(const struct residues *residues, int64_t block, struct sample *s)
{
    const int coarser = (int)ceil(log2((double)block / (double)s->steps) / 2);
    for (int64_t i = 0; i < s->vectors; i++) {
        const int shift =
            ozaki_row_shift(residues, s->numbers[i], s->steps, &s->finite[i]) - coarser;
        for (int64_t h = 0; h < s->steps && s->finite[i]; h++) {
            const double scaled = ozaki_scaled(s->numbers[i][h], shift);
            s->lost[i][h] = ozaki_scaled(fabs(scaled - rint(scaled)), -shift);
        }
    }
}

/* The largest bound on the error of an element, by |op(A)| |op(B)|; sums of nothing but zeros have
 * none. */
static double largest_error(const struct samples *s)
{
    double largest = 0;
    for (int64_t i = 0; i < s->a.vectors; i++)
        for (int64_t j = 0; j < s->b.vectors; j++) {
            const double *a = s->a.numbers[i], *b = s->b.numbers[j];
            const double *lost_a = s->a.lost[i], *lost_b = s->b.lost[j];
            double error = 0, size = 0;
            if (!s->a.finite[i] || !s->b.finite[j])
                continue;
            for (int64_t h = 0; h < s->a.steps; h++) {
                error += lost_a[h] * fabs(b[h]) + fabs(a[h]) * lost_b[h] + lost_a[h] * lost_b[h];
                size += fabs(a[h]) * fabs(b[h]);
            }
            if (size > 0 && size <= DBL_MAX)
                largest = fmax(largest, error / size);
        }
    return largest;
}

/* In units[N], for each number of moduli from the problem's on, unless an earlier piece had
 * more. */
static void add_units(const struct problem *p, struct samples *s, double units[RESIDUES_MOST + 1])
{
    const double unit = scalar_roundoff(p->type);
    const int64_t block = min_i64(p->k, OZAKI_BLOCK);
    for (int moduli = p->moduli; moduli <= RESIDUES_MOST; moduli++) {
        struct residues residues;
        residues_make(moduli, p->complex, &residues);
        round_vectors(&residues, block, &s->a);
        round_vectors(&residues, block, &s->b);
        units[moduli] = fmax(units[moduli], largest_error(s) / unit);
    }
}

int spread_probe(const struct problem *p, struct spread *spread, struct error *err)
{
    double units[RESIDUES_MOST + 1] = {0};
    *spread = (struct spread){0};
    struct samples *s = malloc(sizeof *s);
    if (!s)
        return error_no_memory(err, "a look at the operands");
    for (int i = 0; i < PIECES && (i == 0 || p->k > STEPS) && !err->code; i++) {
        int64_t step = begin_of(i, PIECES, p->k, STEPS);
        step -= step % problem_width(p);
        if (!read_sample(p, OPERAND_A, step, s, &s->a, err) &&
            !read_sample(p, OPERAND_B, step, s, &s->b, err))
            add_units(p, s, units);
    }
    free(s);
    spread->units = units[p->moduli];
    for (int moduli = RESIDUES_MOST; moduli >= p->moduli; moduli--)
        if (MARGIN * units[moduli] <= (double)p->k)
            spread->moduli = moduli;
    return err->code;
}
