/* The problem: C = alpha op(A) op(B) + beta C0, as the files state it.
 *
 * A complex product is that of two real matrices, which stand for op(A) and op(B), so that all that
 * plans and multiplies knows real ones only, but for the kernels of residues.  With l = 0, 1, ...
 * along k:
 *     op(A): columns 2l, 2l + 1 are the real and the imaginary part;
 *     op(B): row 2l is   re im re im ...,   row 2l + 1 is   -im re -im re ...;
 *     C:     columns 2j, 2j + 1 are the real and the imaginary part, as in its file.
 * m, n and k are theirs.  Each part of an element of C is one running sum over l: of the product
 * with the real part of op(A), then of that with the imaginary part.  (Where op(B) is the transpose
 * or conjugate transpose of op(A), that holds on and below the diagonal; what is above it mirrors
 * that, and has other last bits than such a sum: triangle.h.)  What a file has becomes these
 * matrices on the device (struct embed), but for an op(A) that is stored as it is multiplied.
 *
 * It is row-major throughout, as the files are and as users see them.  The one place where rows
 * become the columns that a BLAS-like kernel takes is steps_multiply in run.c. */
#pragma once

#include "ozaki.h"
#include "scaling.h"
#include "store.h"
#include "vector.h"

struct options;
struct error;

enum { KERNELS_TEXT = 16 }; /* bytes of problem_kernels */

/* Whether C is a lower half alone: 0 stands above the diagonal, or nothing (matrix.h). */
enum lower { LOWER_NO, LOWER_ZEROS, LOWER_PACKED };

enum operand { OPERAND_A, OPERAND_B, OPERAND_C, OPERAND_COUNT };

/* Plain data: rank 0 makes it, all ranks get a copy. */
struct problem {
    enum scalar held[OPERAND_COUNT]; /* of A, B and C as slots and panels hold them */
    enum scalar sums;                /* of accumulators */
    enum scalar type;                /* of alpha and beta: that of the sums, or double if exact */
    bool narrows;                    /* doubles of C become floats on their way to its file */
    bool measures;   /* an exact one, whose elements alone say whether its sums fit */
    bool complex;    /* n and k count real and imaginary parts */
    int64_t m, n, k; /* C is m x n, op(A) m x k, op(B) k x n */
    /* Of a part of the product, a piece that is left (work.h) or that of a layer (layers.h): */
    int64_t row, col, k_first; /* where it begins in C, and in k */
    int64_t n_whole, k_whole;  /* n and k of the whole product */
    struct {
        int64_t steps;  /* of a block of sums (sums.h); 0: k is one block */
        int64_t origin; /* where its sums begin in k, those that were saved included */
    } blocks;
    bool continues;    /* its sums begin with saved ones */
    bool trans[2];     /* of A, of B */
    bool conjugate[2]; /* likewise */
    bool normal;       /* op(B) is op(A)'s transpose times X, which is m x n and has B's place here;
                        * op(B) is written, too, beside C */
    bool symmetric;    /* op(B) is op(A)'s transpose, or conjugate one (triangle.h) */
    enum lower lower;  /* what is above its diagonal; not LOWER_NO: only where it is symmetric */
    struct scaling scaling; /* what op(A) and op(B) are changed to before */
    int moduli;             /* of a product in residues (ozaki.h); 0: it is no such product */
    double alpha, beta, alpha_i, beta_i; /* _i: their imaginary parts */
    struct matrix matrix[OPERAND_COUNT]; /* C: C0, described only if beta is not 0 */
    const struct source *sources;        /* where these lie, of this process: nothing of a plan */
    enum store_way io;
};

/* What users see, to whom a file in Fortran's order has the matrix itself: whether they have it
 * transposed, and which of its lines are centred and scaled. */
static inline bool problem_seen_trans(const struct problem *p, enum operand operand)
{
    const bool other = p->normal && operand == OPERAND_A; /* the factor that comes first */
    return (p->trans[operand] != other) != p->matrix[operand].turned;
}

static inline struct scaling problem_seen_scaling(const struct problem *p)
{
    struct scaling seen = p->scaling;
    for (enum operand i = 0; i < OPERAND_C; i++)
        seen.axis[i] = axis_seen(seen.axis[i], p->matrix[i].turned);
    return seen;
}

/* Whether it is a centred or scaled product. */
static inline bool problem_scales(const struct problem *p)
{
    return p->scaling.axis[OPERAND_A] != AXIS_NONE;
}

/* All of it is of one type. */
static inline void problem_set_type(struct problem *p, enum scalar type)
{
    p->type = p->sums = type;
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        p->held[operand] = type;
}

/* Whether sums are not yet elements of C if alpha is 1 and beta 0. */
static inline bool problem_rounds(const struct problem *p)
{
    return p->sums != p->held[OPERAND_C];
}

/* What C is in its file. */
static inline enum scalar problem_written(const struct problem *p)
{
    return p->narrows ? SCALAR_FLOAT : p->held[OPERAND_C];
}

/* C in its file, as far as that is known before there is one. */
static inline struct matrix problem_output(const struct problem *p)
{
    struct matrix c = {
        .rows = p->m, .cols = p->n, .complex = p->complex, .packed = p->lower == LOWER_PACKED};
    matrix_set_type(&c, problem_written(p));
    return c;
}

/* What op(A) and op(B) are multiplied as. */
static inline enum scalar problem_factor(const struct problem *p, enum operand operand)
{
    return scalar_factor(p->held[operand]);
}

/* Bytes of an element in a slot or panel. */
static inline size_t problem_element(const struct problem *p, enum operand operand)
{
    return scalar_size(p->held[operand]);
}

/* Bytes of an element of C in its file. */
static inline size_t problem_written_element(const struct problem *p)
{
    return scalar_size(problem_written(p));
}

/* Bytes of the matrix, as such elements. */
static inline double problem_bytes(const struct problem *p, enum operand operand)
{
    const struct matrix *matrix = &p->matrix[operand];
    return (double)matrix->rows * (double)matrix->cols * (double)problem_element(p, operand);
}

/* Whether bytes are multiplied (integers.h). */
static inline bool problem_of_bytes(const struct problem *p)
{
    return scalar_is_integer(p->held[OPERAND_A]);
}

/* Whether A and B are integers, and so are the sums: of 64 bits. */
static inline bool problem_is_exact(const struct problem *p)
{
    return scalar_is_integer(p->sums);
}

/* Whether an error of 1 in such a sum is one in C, too, which is not rounded to floats. */
static inline bool problem_shows_exactly(const struct problem *p)
{
    return problem_is_exact(p) && !p->narrows;
}

/* Whether C is integers. */
static inline bool problem_gives_integers(const struct problem *p)
{
    return scalar_is_integer(p->held[OPERAND_C]);
}

/* Whether a C0 of int64, of any size, is added to C. */
static inline bool problem_adds_integers(const struct problem *p)
{
    return problem_gives_integers(p) && p->beta != 0;
}

/* alpha = 0 or k = 0: A and B are never read. */
static inline bool problem_reads_ab(const struct problem *p)
{
    return (p->alpha != 0 || p->alpha_i != 0) && p->k > 0;
}

/* beta = 0: C0 is never read. */
static inline bool problem_reads_c(const struct problem *p)
{
    return p->beta != 0 || p->beta_i != 0;
}

static inline bool problem_reads(const struct problem *p, enum operand operand)
{
    return operand == OPERAND_C ? problem_reads_c(p) : problem_reads_ab(p);
}

/* Real numbers of an element, as users see them: n / problem_width are C's columns. */
static inline int64_t problem_width(const struct problem *p)
{
    return p->complex ? 2 : 1;
}

/* Whether it is a triangle (triangle.h): all of a symmetric product, or a square on its
 * diagonal. */
static inline bool problem_is_triangle(const struct problem *p)
{
    return p->symmetric && p->row * problem_width(p) == p->col;
}

/* Whether op(B) is the conjugate transpose of op(A), and not the transpose. */
static inline bool problem_is_hermitian(const struct problem *p)
{
    return p->symmetric && (p->conjugate[0] || p->conjugate[1]);
}

/* Whether what is below the diagonal of C is written twice. */
static inline bool problem_mirrors(const struct problem *p)
{
    return p->symmetric && !p->lower;
}

/* Whether panels of A or B come from the file: in a triangle op(A)'s are parts of op(B)'s, and in a
 * normal product op(B)'s are computed. */
static inline bool problem_has_panels(const struct problem *p, enum operand operand)
{
    return operand == OPERAND_B ? !p->normal : !problem_is_triangle(p);
}

/* Products in which each element of op(A) has a part, for each column of C. */
static inline int problem_passes(const struct problem *p)
{
    return p->normal ? 2 : 1;
}

/* Elements of C that are multiplied out, and those that are written: a rectangle below the diagonal
 * of a symmetric product also gives its mirror, and a triangle without a mirror at least what is on
 * and below the diagonal (schedule_written counts what its strips have above). */
double problem_products(const struct problem *p);
double problem_elements(const struct problem *p);

/* Of a normal product: op(B) as the product that it is, whose rows are the steps of this one. */
struct problem problem_inner(const struct problem *p);

/* Whether op(A) and op(B) are one matrix and its transpose: the same dataset, by whatever names.
 * Reads no file. */
bool problem_is_of_one_matrix(const struct problem *p);

/* Slabs begin at multiples of this, in k. */
static inline int64_t problem_quantum(const struct problem *p)
{
    return p->moduli > 0 ? OZAKI_BLOCK : GEMM_QUANTUM;
}

/* What multiplies, as it decides the bits of C: "own" for kernels that keep the contract of gemm.h,
 * "cublas", "ozaki:14" with the number of moduli, or "integers".  Valid until the next call. */
const char *problem_kernels(const struct problem *p, const struct options *options);

/* The type of sums and C, as users are told.  Valid until the next call. */
const char *problem_type_text(const struct problem *p);

/* The bound of ozaki_proven for a product in residues. */
double problem_proven(const struct problem *problem);

/* Whether the operand's bytes are read by offset, or a library reads it; when neither, its chunks
 * are read by offset. */
bool problem_by_offset(const struct problem *p, enum operand operand);
bool problem_through_library(const struct problem *p, enum operand operand);

/* Bytes a second that a rank gets by the `read` of the format, roughly. */
double problem_library_rate(const struct problem *p, enum operand operand);

/* Host bytes that the files which are read need beside slots, each for itself, with so many
 * threads; and what the one that is written needs, and all files share.  The output is either
 * mapped, by itself, or written directly, by what is shared. */
size_t problem_reading_bytes(const struct problem *p, int threads);
size_t problem_writing_bytes(const struct problem *p, int threads);

/* Whether C is written through a mapping, if its file lies in memory. */
bool problem_maps_output(const struct problem *p);
