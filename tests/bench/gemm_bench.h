/* gemm_bench: the GEMM kernels measured and checked alone.
 *
 * Every measured call of an algorithm is followed by one of cuBLAS, the reference: clocks float
 * with power and temperature, and only what runs side by side compares. */
#pragma once

#include <limits.h>

#include "device.h"

enum { BENCH_LIST_MAX = 32, BENCH_REPEAT_MAX = 99 };

struct bench_size {
    int64_t m, n, k;
};

/* Whose products are measured. */
struct bench_choice {
    int algorithm;     /* enum algorithm; ALGORITHM_NONE: a rival's */
    const char *rival; /* the path of its library */
    int moduli; /* of products in residues; 0: as many as suit the type, or it is no such product */
};

struct bench_options {
    struct bench_choice choices[BENCH_LIST_MAX];
    int choice_count; /* 0: all that the machine has */
    struct bench_size sizes[BENCH_LIST_MAX];
    int size_count;   /* 0: a few that suit the machine */
    bool types[2][2]; /* by enum scalar, then whether they are complex numbers of it */
    bool trans[2][2]; /* A, B */
    int repeat;
    double phi;     /* the standard deviation of the logarithms of elements' sizes */
    int64_t ld_pad; /* elements between columns: complex ones of complex matrices */
    bool transfers, check, sweep;
    char json[PATH_MAX]; /* empty: none */
};

/* Exits when the command line is wrong. */
void bench_options_parse(int argc, char **argv, struct bench_options *options);

/* How far the product is from an independent one. */
struct bench_errors {
    int64_t compared, over; /* elements; over the tolerance, or not finite */
    double max_abs, mse;
    double max_units; /* the largest by u (|C0| + |A||B|) of its element, u the type's roundoff */
};

struct bench_row {
    struct bench_choice of;
    struct gemm gemm; /* of real matrices that stand for complex ones (ozaki.h), if it says so */
    double seconds, least_s, most_s; /* a call: median and spread */
    double transfers_s;              /* with A, B and C copied in and C out; 0: not measured */
    double of_reference;             /* its seconds by these; 0: there is none */
    double peak_flops_per_s;         /* 0: not known */
    unsigned clock_mhz;              /* under load; 0: not known */
    double watts;
    struct bench_errors errors;
};

/* Real numbers of an element of C's rows, and of k. */
static inline int64_t bench_width(const struct gemm *g)
{
    return g->complex ? 2 : 1;
}

/* 8 of a complex multiply-add. */
static inline double bench_flops(const struct gemm *g)
{
    return 2.0 * (double)g->m * (double)g->n * (double)g->k;
}

/* Clock and power of the only GPU here, through NVIDIA's management library; zeros when unknown. */
void bench_power_read(unsigned *clock_mhz, double *watts);

/* Host copies of the operands of one product: A, B and the C that it starts from, with room for the
 * C that comes out. */
struct bench_operands {
    struct gemm gemm;     /* with a, b, c on the device */
    size_t bytes[3];      /* of A, B and C */
    void *a, *b, *c0, *c; /* on the host */
};

/* What must come out, in some columns. */
struct bench_oracle {
    int64_t cols;
    int64_t *index;
    double *product, *magnitude; /* cols columns of m: C, and |C0| + |A||B| */
    double *norms_a, *norms_b;   /* 2-norms: of the m rows of op(A), of the columns of op(B) */
};

/* `all`: every column, however long it takes. */
int bench_oracle_make(const struct bench_operands *o, bool all, struct bench_oracle *oracle,
                      struct error *err);
void bench_oracle_free(struct bench_oracle *oracle);
/* Compare the columns of o->c, a product in residues of so many moduli, or none (0). */
void bench_oracle_compare(const struct bench_oracle *oracle, const struct bench_operands *o,
                          int moduli, struct bench_errors *errors);

/* Takes the rows as they are measured. */
struct bench_sink {
    const struct bench_options *options;
    struct bench_row *rows;
    int count, room;
    bool wrong; /* some product was */
};

/* Print a row and keep a copy of it. */
int bench_sink_add(struct bench_sink *sink, const struct bench_row *row, struct error *err);

/* The choices of one kind of device, each with a device of its own. */
struct ladder {
    struct bench_choice choices[BENCH_LIST_MAX];
    struct device *devices[BENCH_LIST_MAX];
    int count;
};

static inline bool bench_is(const struct bench_choice *choice, enum algorithm id)
{
    return choice->algorithm == (int)id;
}

/* Measure all choices of a ladder.  The reference is cuBLAS where it is among them. */
int bench_run(const struct bench_options *options, const struct ladder *ladder,
              struct bench_sink *sink, struct error *err);

/* Print the device and the heads of the columns; a row under them. */
void bench_print_head(const struct bench_options *options, const struct device_info *info);
void bench_print_row(const struct bench_options *options, const struct bench_row *row);
/* All rows so far: a run that is ended early leaves what it has measured. */
int bench_write(const struct bench_sink *sink, const struct device_info *info, struct error *err);
