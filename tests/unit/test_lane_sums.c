/* Sums of lines are those of their elements one by one, bit by bit, for all instruction sets; where
 * they would not be, they say so. */
#include "scratch.h"

#include <math.h>

#include "cpu_kernel.h"
#include "moments.h"

enum { LD = SUM_LANES + 3 };

static const int trials = 300;
static double numbers[LANE_ELEMENTS * LD];
static float floats[LANE_ELEMENTS * LD];

/* Signed, of so many bits, over so many exponents around one. */
static double random_number(int bits, int spread, int exponent)
{
    const int64_t both = random_below(INT64_C(1) << 31) << 22 | random_below(1 << 22);
    double mantissa = ldexp((double)(both >> (53 - bits)), -bits);
    return (random_below(2) ? 1 : -1) * ldexp(mantissa, exponent + (int)random_below(spread + 1));
}

static void fill(int bits, int spread, int exponent, bool with_nan)
{
    for (int i = 0; i < LANE_ELEMENTS * LD; i++) {
        double x = random_number(bits, spread, exponent);
        numbers[i] = with_nan && random_below(9) == 0 ? (double)NAN : x;
        floats[i] = (float)numbers[i];
    }
}

static double element(const struct lane_sums *s, enum scalar type, int lane, int64_t i)
{
    const int64_t at = s->lanes ? i * s->ld + lane : i;
    return type == SCALAR_FLOAT ? (double)floats[at] : numbers[at];
}

/* Returns whether all lines have their sums. */
static bool check(struct lane_sums *s, enum scalar type, const struct cpu_kernel *kernels)
{
    bool all = true;
    s->from = type == SCALAR_FLOAT ? (const void *)floats : numbers;
    kernels[type].lane_sums(s);
    for (int lane = 0; lane < (s->lanes ? s->lanes : 1); lane++) {
        const struct moment_sums sums = {s->sum[lane], s->squares[lane], SUM_PIECES,
                                         SQUARE_PARTS, s->largest[lane], s->missing[lane]};
        struct moments expected = {0}, m = {0};
        for (int64_t i = 0; i < s->count; i++)
            moments_add(&expected, element(s, type, lane, i));
        if (s->exact[lane]) {
            moments_add_sums(&m, &sums);
            assert_memory_equal(&m, &expected, sizeof m);
        }
        all = all && s->exact[lane];
    }
    return all;
}

static struct lane_sums random_shape(void)
{
    return (struct lane_sums){.count =
                                  random_below(3) ? 1 + random_below(LANE_ELEMENTS) : LANE_ELEMENTS,
                              .ld = LD - random_below(3),
                              .lanes = (int)random_below(SUM_LANES + 1)};
}

static void sums_are_exact(void **state)
{
    const struct cpu_kernel *kernels;
    (void)state;
    for (int isa = 0; (kernels = cpu_kernels(isa)); isa++)
        for (int trial = 0; trial < tries(trials); trial++) {
            /* The widest that is always exact, and the largest pieces of all. */
            const int spreads[] = {0, 1, 20, 33}, exponents[] = {0, -380, 300};
            struct lane_sums s = random_shape();
            enum scalar type = trial % 2 ? SCALAR_FLOAT : SCALAR_DOUBLE;
            fill(53, spreads[trial % 4], type == SCALAR_FLOAT ? 0 : exponents[trial / 4 % 3],
                 trial % 5 == 0);
            for (int i = 0; i < LANE_ELEMENTS * LD && trial % 7 == 0; i++)
                floats[i] = (float)(numbers[i] = 2 - 0x1p-52);
            assert_true(check(&s, type, kernels));
        }
}

static void what_would_be_rounded_is_told(void **state)
{
    const struct cpu_kernel *kernels;
    (void)state;
    for (int isa = 0; (kernels = cpu_kernels(isa)); isa++)
        for (int trial = 0; trial < tries(trials); trial++) {
            struct lane_sums s = random_shape();
            fill(53, trial % 3 ? 60 : 1000, trial % 3 ? -30 : -500, false);
            check(&s, SCALAR_DOUBLE, kernels);
            const double wrong[] = {INFINITY, 5e-324, 0x1p401, 0x1.0000000000001p-60};
            fill(20, 0, 0, false);
            s.count = s.count < 2 ? 2 : s.count;
            numbers[0] = wrong[trial % 4];
            numbers[s.lanes ? s.ld : 1] = trial % 4 == 1 ? 0 : 1;
            for (int64_t i = 2; i < s.count && trial % 4 == 1; i++)
                numbers[s.lanes ? i * s.ld : i] = 0;
            assert_false(check(&s, SCALAR_DOUBLE, kernels) || s.exact[0]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(what_would_be_rounded_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
