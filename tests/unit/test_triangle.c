/* Symmetric products: triangles, rectangles and the plans for them, over random problems. */
#include "plan_checks.h"

#include "work.h"

/* A product of a matrix and its transpose, of size n. */
static struct problem make_symmetric(int64_t n, int64_t k, int flags)
{
    struct problem p = make_problem(n, n, k, (flags & ~(2 | 4 | 8)) | (flags & 2 ? 2 : 4));
    p.symmetric = true;
    for (int i = OPERAND_A; i <= OPERAND_B; i++)
        p.matrix[i].object[1] = 1;
    return p;
}

/* Move a piece to the origin, where the checks of plans expect C. */
static struct problem at_origin(const struct problem *p)
{
    struct problem moved = *p;
    moved.row = moved.col = 0;
    return moved;
}

/* Plan the first piece, halved until it fits.  False where not even one element does. */
static bool plan_first(const struct problem *p, const struct machine *m, struct work *work,
                       struct problem *part, struct plan *plan)
{
    const struct plan_request request = {.verify = true,
                                         .algorithm = m->gpu ? ALGORITHM_TMA : ALGORITHM_CPU};
    for (;;) {
        struct error err = {0};
        *part = work_problem(p, &work->pieces[0]);
        if (plan_make(part, m, &request, plan, &err) == 0)
            return true;
        assert_int_equal(err.code, EXIT_RESOURCES);
        if (!problem_is_triangle(part) || !work_halve(work))
            return false;
    }
}

/* All pieces together write every element of C once, or those on and below the diagonal, a
 * triangle's plan is as any plan, and as many products are asked for as there are of these. */
static bool check_product(const struct problem *p, const struct machine *m)
{
    unsigned char *count = calloc((size_t)(p->m * p->n), 1);
    struct work work;
    double products = 0;
    bool fits = true;
    work_begin(&work, p);
    while (work.count > 0 && fits) {
        struct problem part;
        struct plan plan;
        assert_true(work_is_valid(&work, p));
        fits = plan_first(p, m, &work, &part, &plan);
        if (!fits)
            break;
        struct problem moved = at_origin(&part);
        if (problem_is_triangle(&part))
            check_plan(&moved, m, &plan);
        count_written(count, p->n, &part, &plan);
        products += plan.moves.total.flops / 2 / (double)p->k;
        assert_true(work_advance(&work, &plan, schedule_supers(&plan), &(struct piece){0}));
    }
    if (fits)
        check_counts(p, count);
    assert_true(!fits || products == problem_products(p));
    free(count);
    return fits;
}

static void test_random_products(void **state)
{
    (void)state;
    const int count = tries(600);
    int planned = 0;
    for (int trial = 0; trial < count; trial++) {
        int64_t n = random_below(3) ? 1 + random_below(500) : 1 + random_below(70);
        struct problem p = make_symmetric(n, 1 + random_below(200), (int)random_below(128));
        p.lower = random_below(2) ? LOWER_ZEROS : LOWER_NO;
        struct machine m =
            make_machine(1 + (int)random_below(12), (size_t)1 << (18 + random_below(8)),
                         (size_t)1 << (25 + random_below(6)), random_below(2));
        m.ranks_per_node = 1 + (int)random_below(m.ranks);
        m.files_in_memory = m.output_in_memory = random_below(2);
        planned += check_product(&p, &m);
    }
    assert_true(planned > count / 2);
}

/* On 1 to 64 ranks the busiest one multiplies at most 5 % more than the average, and all of them
 * together little more than half of the general product. */
static void test_balance(void **state)
{
    (void)state;
    const struct problem p = make_symmetric(131072, 65536, 1 | 2);
    for (int ranks = 1; ranks <= 64; ranks++) {
        struct machine m = make_machine(ranks, (size_t)140 << 30, (size_t)200 << 30, true);
        struct work work;
        struct problem part;
        struct plan plan;
        double most = 0, all = 0;
        m.ranks_per_node = ranks < 8 ? ranks : 8;
        work_begin(&work, &p);
        assert_true(plan_first(&p, &m, &work, &part, &plan));
        assert_int_equal(work.count, 1);
        for (int rank = 0; rank < ranks; rank++) {
            struct block tile = schedule_tile(&part, &plan, rank, 0);
            double now = schedule_multiplied(&part, &plan, &tile);
            most = fmax(most, now);
            all += now;
        }
        if (most > 1.05 * all / ranks || all > 0.54 * (double)p.m * (double)p.n)
            fail_msg("%d ranks: busiest %g of the average, %g of the general product", ranks,
                     most / all * ranks, all / (double)p.m / (double)p.n);
        assert_int_equal(plan.moves.read_bytes, (uint64_t)(p.n * p.k * 8));
    }
}

/* Likewise the parts of the columns of one band, whatever the height of the strips. */
static void test_balance_of_columns(void **state)
{
    (void)state;
    const struct problem p = make_symmetric(49152, 49152, 2);
    for (int64_t strip = 256; strip <= 4096; strip *= 2)
        for (int ranks = 1; ranks <= 4; ranks++) {
            struct plan plan = {.triangle = true, .grid_rows = 1, .grid_cols = ranks};
            double most = 0, all = 0;
            plan.strip_rows = strip;
            for (int rank = 0; rank < ranks; rank++) {
                struct block tile = triangle_tile(&p, &plan, 0, rank);
                double now = schedule_multiplied(&p, &plan, &tile);
                most = fmax(most, now);
                all += now;
            }
            assert_true(most <= 1.03 * all / ranks);
        }
}

/* Where the mirror is not written, half of C is, and what the strips have above the diagonal. */
static void test_lower_half(void **state)
{
    (void)state;
    struct problem p = make_symmetric(131072, 65536, 1 | 2);
    p.lower = true;
    for (int ranks = 1; ranks <= 64; ranks *= 4) {
        struct machine m = make_machine(ranks, (size_t)140 << 30, (size_t)200 << 30, true);
        struct work work;
        struct problem part;
        struct plan plan;
        m.ranks_per_node = ranks < 8 ? ranks : 8;
        work_begin(&work, &p);
        assert_true(plan_first(&p, &m, &work, &part, &plan));
        double written = (double)plan.moves.total.write_bytes / 8 / (double)p.m / (double)p.n;
        assert_true(written > 0.5 && written < 0.54);
    }
}

/* Where products wait for all of a panel, the first slab is short and the last one long; the slabs
 * are all of k in its order, and begin where the kernels' steps do. */
static void test_short_first_slab(void **state)
{
    (void)state;
    struct problem p = make_symmetric(49152, 49150, 1 | 2);
    struct machine m = make_machine(1, (size_t)140 << 30, (size_t)50 << 30, true);
    m.files_in_memory = m.output_in_memory = true;
    m.disk_read_bytes_per_s = 40e9;
    m.disk_write_bytes_per_s = 12e9;
    struct work work;
    struct problem part;
    struct plan plan;
    work_begin(&work, &p);
    assert_true(plan_first(&p, &m, &work, &part, &plan));
    assert_true(plan.slabs == 2 && plan.slab > part.k / 2);
    const struct block tile = schedule_tile(&part, &plan, 0, 0);
    int64_t k = 0;
    for (int64_t slab = 0; slab < plan.slabs; slab++) {
        const struct block b = schedule_factor(&part, &plan, OPERAND_B, &tile, slab);
        assert_true(b.row == k && k % problem_quantum(&part) == 0 &&
                    k == schedule_k(&part, &plan, slab));
        k += b.rows;
    }
    assert_int_equal(k, part.k);
}

/* Of real and of complex elements. */
static void check_complete(const struct problem *p)
{
    enum { MOST = 2 * 100 * 100 };
    unsigned char count[MOST];
    assert_true(p->m * p->n <= MOST);
    for (int halvings = 0; halvings < 5; halvings++) {
        struct block blocks[BLOCKS_MAX], all = {0, 0, p->m, p->n};
        struct work work;
        memset(count, 0, sizeof count);
        work_begin(&work, p);
        for (int i = 0; i < halvings; i++)
            assert_true(work_halve(&work));
        for (int done = 0; done < halvings; done++) {
            struct block block = work.pieces[0].block;
            struct block mirror = triangle_mirror(&block, problem_width(p));
            count_block(count, p->n, &block);
            if (!block_equal(&block, &mirror))
                count_block(count, p->n, &mirror);
            work_drop(&work);
        }
        int blocks_count = work_complete(&work, &all, blocks);
        assert_true(blocks_count >= 0);
        for (int i = 0; i < blocks_count; i++)
            count_block(count, p->n, &blocks[i]);
        for (int64_t i = 0; i < p->m * p->n; i++)
            assert_true(count[i] == 0 || count[i] == 2);
    }
}

/* What is complete is what no piece is, nor the mirror of a rectangle. */
static void test_complete(void **state)
{
    (void)state;
    const struct problem real = make_symmetric(100, 10, 1), complex = make_symmetric(100, 10, 65);
    check_complete(&real);
    check_complete(&complex);
}

/* Pieces that are neither triangles nor below the diagonal are no work of a symmetric product. */
static void test_validity(void **state)
{
    (void)state;
    struct problem p = make_symmetric(100, 10, 1);
    struct work work;
    work_begin(&work, &p);
    assert_true(work_is_valid(&work, &p));
    work.pieces[0].block.rows = 99;
    assert_false(work_is_valid(&work, &p));
    work.pieces[0].block = (struct block){40, 0, 20, 40};
    assert_true(work_is_valid(&work, &p));
    work.pieces[0].block = (struct block){0, 40, 40, 20};
    assert_false(work_is_valid(&work, &p));
    work_begin(&work, &p);
    p.matrix[OPERAND_B].object[2] = 1; /* another dataset */
    assert_false(work_is_valid(&work, &p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_products),    cmocka_unit_test(test_balance),
        cmocka_unit_test(test_balance_of_columns), cmocka_unit_test(test_lower_half),
        cmocka_unit_test(test_complete),           cmocka_unit_test(test_validity),
        cmocka_unit_test(test_short_first_slab),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
