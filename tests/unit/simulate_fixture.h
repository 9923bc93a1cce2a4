/* Plans and their simulations, both of which must succeed, and approximate comparison of times. */
#pragma once

#include "plan_fixture.h"

#include <math.h>

#include "simulate.h"

static inline struct plan planned(const struct problem *p, const struct machine *m,
                                  const struct plan_request *request)
{
    struct plan plan;
    struct error err = {0};
    if (plan_make(p, m, request, &plan, &err))
        fail_msg("%s", err.text);
    return plan;
}

static inline struct simulation simulated(const struct problem *p, const struct machine *m,
                                          const struct plan_request *request,
                                          const struct plan *plan)
{
    struct simulation s;
    simulate(p, m, request, plan, &s);
    return s;
}

static inline void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance * expected))
        fail_msg("%g is not within %g of %g", value, tolerance, expected);
}
