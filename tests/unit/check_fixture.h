/* A bench: one tile multiplied and checked on a device as in the pipeline, with injected faults. */
#pragma once

#include "cpu_fixture.h"
#include "plan_fixture.h"

#include <string.h>

#include "check.h"
#include "device.h"
#include "quantity.h"

enum kind { RANDOM, INTEGER, ONE_SIGN, CANCELLING, SCALED, TINY, HUGE_NUMBERS, MIXED, KINDS };
static const char *const kind_names[] = {"random", "integer", "one sign", "cancelling",
                                         "scaled", "tiny",    "huge",     "mixed"};

/* The devices and algorithms under test; each bench picks one at random. */
struct target {
    enum algorithm algorithm;
    struct device *device;
    struct event *reached;
};
static struct target targets[16];
static int target_count;

/* A tile that covers all of C, and its check. */
struct bench {
    const struct target *target;
    struct device *device; /* that of the target */
    struct problem problem;
    struct plan plan;
    struct check check;
    enum kind kind;
    void *a, *b, *acc; /* on the host */
    void *device_a, *device_b, *device_acc, *memory;
    double *reach; /* of each row, as the newest check says (freivalds.h) */
};

/* A fault that is injected after `after` products of the row; -1: never. */
struct fault {
    int64_t after;
    int64_t row, col;
    double add;
    void (*corrupt)(struct bench *x); /* if set, it corrupts all sums instead */
};

/* The first seed of all random draws. */
static inline uint64_t first_seed(void)
{
    const char *text = getenv("DGEMM_OOC_TEST_SEED");
    return text ? (uint64_t)atoi(text) : 1;
}

/* Returns the number of random cases, and resets the generator to the first seed. */
static inline int trials(int own)
{
    random_state = first_seed();
    return tries(own);
}

static inline void add_target(enum algorithm algorithm, struct device *device)
{
    struct target *target = &targets[target_count++];
    struct error err = {0};
    *target = (struct target){.algorithm = algorithm, .device = device};
    assert_int_equal(device->event_create(device, &target->reached, &err), 0);
}

static inline void close_targets(void)
{
    for (struct target *target = targets; target < targets + target_count; target++) {
        target->device->event_destroy(target->device, target->reached);
        target->device->close(target->device);
    }
}

static inline double element(enum scalar type, const void *data, int64_t at)
{
    return type == SCALAR_FLOAT ? (double)((const float *)data)[at] : ((const double *)data)[at];
}

static inline void put(enum scalar type, void *data, int64_t at, double value)
{
    if (type == SCALAR_FLOAT)
        ((float *)data)[at] = (float)value;
    else
        ((double *)data)[at] = value;
}

/* The index of element (i, l) of op(A), or (l, j) of op(B). */
static inline int64_t at_a(const struct bench *x, int64_t i, int64_t l)
{
    return x->problem.trans[0] ? l * x->problem.m + i : i * x->problem.k + l;
}

static inline int64_t at_b(const struct bench *x, int64_t l, int64_t j)
{
    return x->problem.trans[1] ? j * x->problem.k + l : l * x->problem.n + j;
}

static inline double get_a(const struct bench *x, int64_t i, int64_t l)
{
    return element(x->problem.type, x->a, at_a(x, i, l));
}

static inline double get_b(const struct bench *x, int64_t l, int64_t j)
{
    return element(x->problem.type, x->b, at_b(x, l, j));
}

static inline size_t bytes_of(const struct bench *x, int64_t rows, int64_t cols)
{
    return (size_t)(rows * cols) * scalar_size(x->problem.type);
}

static inline void *on_device(const struct bench *x, size_t bytes)
{
    struct error err = {0};
    void *memory;
    assert_int_equal(x->device->alloc(x->device, bytes, &memory, &err), 0);
    return memory;
}

/* Copies, and waits until all work of the stream is done. */
static inline void copy_bytes(const struct bench *x, enum stream stream, void *to, const void *from,
                              size_t bytes)
{
    struct error err = {0};
    struct copy copy = {to, from, bytes, bytes, bytes, 1};
    assert_int_equal(x->device->copy(x->device, stream, &copy, &err), 0);
    assert_int_equal(x->device->record(x->device, x->target->reached, stream, &err), 0);
    assert_int_equal(x->device->sync(x->device, x->target->reached, &err), 0);
}

static inline void upload_operands(const struct bench *x)
{
    const struct problem *p = &x->problem;
    copy_bytes(x, STREAM_IN, x->device_a, x->a, bytes_of(x, p->m, p->k));
    copy_bytes(x, STREAM_IN, x->device_b, x->b, bytes_of(x, p->k, p->n));
}

static inline void upload_sums(const struct bench *x)
{
    copy_bytes(x, STREAM_IN, x->device_acc, x->acc, bytes_of(x, x->problem.m, x->problem.n));
}

/* Copies the sums to the host after the device has finished all of its work. */
static inline void download_sums(const struct bench *x)
{
    struct error err = {0};
    assert_int_equal(x->device->record(x->device, x->target->reached, STREAM_COMPUTE, &err), 0);
    assert_int_equal(x->device->sync(x->device, x->target->reached, &err), 0);
    copy_bytes(x, STREAM_OUT, x->acc, x->device_acc, bytes_of(x, x->problem.m, x->problem.n));
}

static inline double scale_of(const struct bench *x, int64_t line)
{
    int range = x->problem.type == SCALAR_FLOAT ? 12 : 60;
    switch (x->kind) {
    case SCALED: return ldexp(1, (int)(line * 7919 % (2 * range)) - range);
    case TINY: return x->problem.type == SCALAR_FLOAT ? 1e-22 : 1e-150;
    case HUGE_NUMBERS: return x->problem.type == SCALAR_FLOAT ? 1e15 : 1e140;
    default: return 1;
    }
}

static inline double draw(enum kind kind)
{
    if (kind == INTEGER)
        return random_integer();
    return kind == ONE_SIGN ? fabs(random_real()) : random_real();
}

/* In a mixed product, every other row adds numbers of one sign, whose sums are much larger than
 * those of the other rows.  In a cancelling product, the second half of k cancels all but a little
 * of the first half. */
static inline void fill(struct bench *x)
{
    const struct problem *p = &x->problem;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t l = 0; l < p->k; l++)
            put(p->type, x->a, at_a(x, i, l), scale_of(x, i) * draw(x->kind));
    for (int64_t l = 0; l < p->k; l++)
        for (int64_t j = 0; j < p->n; j++)
            put(p->type, x->b, at_b(x, l, j), scale_of(x, j + 3) * draw(x->kind));
    for (int64_t l = 0; l < p->k && x->kind == MIXED; l++) {
        for (int64_t i = 0; i < p->m; i += 2)
            put(p->type, x->a, at_a(x, i, l), 1);
        for (int64_t j = 0; j < p->n; j++)
            put(p->type, x->b, at_b(x, l, j), 1 + 0.1 * random_real());
    }
    for (int64_t l = 0; l < p->k / 2 && x->kind == CANCELLING; l++) {
        for (int64_t i = 0; i < p->m; i++)
            put(p->type, x->a, at_a(x, i, p->k / 2 + l), get_a(x, i, l));
        for (int64_t j = 0; j < p->n; j++)
            put(p->type, x->b, at_b(x, p->k / 2 + l, j),
                -get_b(x, l, j) + (l == 0 ? random_real() : 0));
    }
}

static inline struct bench open_bench(enum scalar type, int64_t m, int64_t n, int64_t k,
                                      int64_t slab, int trans, enum kind kind)
{
    const struct target *target = &targets[random_below(target_count)];
    struct bench x = {.target = target,
                      .device = target->device,
                      .kind = kind,
                      .problem = {.type = type,
                                  .sums = type,
                                  .held = {type, type, type},
                                  .m = m,
                                  .n = n,
                                  .k = k,
                                  .k_whole = k,
                                  .alpha = 1,
                                  .trans = {trans & 1, trans & 2}},
                      .plan = {.layers = 1,
                               .grid_rows = 1,
                               .grid_cols = 1,
                               .ranks_per_node = 1,
                               .block_rows = 1,
                               .block_cols = 1,
                               .tile_rows = m,
                               .tile_cols = n,
                               .slab = slab,
                               .slabs = ceil_div(k, slab),
                               .supers_down = 1,
                               .supers_across = 1,
                               .strip_rows = m}};
    x.plan.ld[OPERAND_A] = trans & 1 ? m : k;
    x.plan.ld[OPERAND_B] = trans & 2 ? k : n;
    x.plan.ld[OPERAND_C] = n;
    x.a = malloc(bytes_of(&x, m, k));
    x.b = malloc(bytes_of(&x, k, n));
    x.acc = malloc(bytes_of(&x, m, n));
    x.reach = calloc((size_t)m, sizeof *x.reach);
    x.device_a = on_device(&x, bytes_of(&x, m, k));
    x.device_b = on_device(&x, bytes_of(&x, k, n));
    x.device_acc = on_device(&x, bytes_of(&x, m, n));
    size_t bytes =
        check_device_bytes(&x.problem, m, n, slab, check_has_peaks(target->algorithm, type, n));
    void *nan = malloc(bytes);
    memset(nan, 0xff, bytes); /* no code may rely on zeroed memory */
    x.memory = on_device(&x, bytes);
    copy_bytes(&x, STREAM_IN, x.memory, nan, bytes);
    free(nan);
    fill(&x);
    return x;
}

static inline void open_check(struct bench *x, uint64_t seed)
{
    struct error err = {0};
    x->check = (struct check){.problem = &x->problem,
                              .plan = &x->plan,
                              .device = x->device,
                              .seed = seed,
                              .verdict.retry_on_failure = true};
    assert_int_equal(check_open(&x->check, x->target->algorithm, x->memory, &err), 0);
}

static inline void close_bench(struct bench *x)
{
    void *const on_device[] = {x->device_a, x->device_b, x->device_acc, x->memory};
    for (int i = 0; i < 4; i++)
        x->device->release(x->device, on_device[i]);
    free(x->a);
    free(x->b);
    free(x->acc);
    free(x->reach);
}

/* Injects the fault and returns by how much the element has changed. */
static inline double strike(struct bench *x, const struct fault *fault)
{
    int64_t at = fault->row * x->problem.n + fault->col;
    download_sums(x);
    double before = element(x->problem.type, x->acc, at);
    if (fault->corrupt)
        fault->corrupt(x);
    else
        put(x->problem.type, x->acc, at, before + fault->add);
    upload_sums(x);
    return fabs(element(x->problem.type, x->acc, at) - before);
}

/* A product in progress: its strips, its fault, and the number of products done so far. */
struct work {
    const struct fault *fault;
    int64_t strips;
    int64_t products; /* of the row with the fault */
    double change;
};

static inline void multiply_steps(struct bench *x, const struct block *rows, int64_t slab,
                                  int64_t first, int64_t k, struct work *work)
{
    const struct problem *p = &x->problem;
    const struct fault *fault = work->fault;
    struct error err = {0};
    size_t size = scalar_size(p->type);
    int64_t from = slab * x->plan.slab + first;
    char *acc = (char *)x->device_acc + (size_t)(rows->row * p->n) * size;
    struct gemm gemm = {.type = p->type,
                        .trans_a = p->trans[1],
                        .trans_b = p->trans[0],
                        .m = p->n,
                        .n = rows->rows,
                        .k = k,
                        .alpha = 1,
                        .a = (char *)x->device_b + (size_t)at_b(x, from, 0) * size,
                        .lda = x->plan.ld[OPERAND_B],
                        .b = (char *)x->device_a + (size_t)at_a(x, rows->row, from) * size,
                        .ldb = x->plan.ld[OPERAND_A],
                        .beta = from > 0,
                        .c = acc,
                        .ldc = p->n,
                        .peaks = check_peaks(&x->check, rows, first)};
    struct check_product product = {*rows, first, k, gemm.b, acc};
    assert_int_equal(x->device->gemm(x->device, &gemm, &err), 0);
    if (fault->row >= rows->row && fault->row < rows->row + rows->rows &&
        work->products++ == fault->after)
        work->change = strike(x, fault);
    assert_int_equal(check_rows(&x->check, &product, &err), 0);
}

/* Multiplies everything.  Returns false if the check failed. */
static inline bool multiply(struct bench *x, struct work *work)
{
    const struct problem *p = &x->problem;
    const struct block tile = {0, 0, p->m, p->n};
    struct error err = {0};
    int64_t strip = ceil_div(p->m, work->strips);
    upload_operands(x);
    assert_int_equal(check_begin(&x->check, &tile, &err), 0);
    for (int64_t slab = 0; slab < x->plan.slabs; slab++) {
        int64_t k = min_i64(x->plan.slab, p->k - slab * x->plan.slab);
        int64_t part = check_part(&x->check, k);
        char *b =
            (char *)x->device_b + (size_t)at_b(x, slab * x->plan.slab, 0) * scalar_size(p->type);
        assert_int_equal(check_slab(&x->check, slab, b, x->device_acc, &err), 0);
        for (int64_t row = 0; row < p->m; row += strip) {
            struct block rows = {row, 0, min_i64(strip, p->m - row), p->n};
            for (int64_t first = 0; first < k; first += part)
                multiply_steps(x, &rows, slab, first, min_i64(part, k - first), work);
        }
    }
    struct event *multiplied = x->target->reached;
    assert_int_equal(x->device->record(x->device, multiplied, STREAM_COMPUTE, &err), 0);
    assert_int_equal(x->device->wait(x->device, STREAM_OUT, multiplied, &err), 0);
    assert_int_equal(check_drain(&x->check, &tile, &tile, &err), 0);
    assert_int_equal(check_judge(&x->check, &err), 0);
    download_sums(x);
    return x->check.verdict.failures == 0;
}

static const struct fault no_fault = {.after = -1};

/* Multiplies with a new seed, in `strips` strips, with a fault.  Returns whether the check passed;
 * sets *found to its findings and *change to the change of the element. */
static inline bool passes(struct bench *x, const struct fault *fault, int64_t strips,
                          struct findings *found, double *change)
{
    static uint64_t count;
    struct work work = {.fault = fault, .strips = strips};
    open_check(x, (first_seed() << 32) + count++);
    bool passed = multiply(x, &work);
    const double *verdicts = x->check.host + 2 * (x->plan.tile_cols + 1) + 1;
    memcpy(x->reach, verdicts + VERDICT_REACH * x->problem.m,
           (size_t)x->problem.m * sizeof(double));
    if (found)
        *found = x->check.verdict.findings;
    if (change)
        *change = work.change;
    check_close(&x->check);
    return passed;
}
