/* A meter: how long one stage was busy, and what it moved.  Amounts are doubles: a GPU does more
 * than 2^64 operations within days. */
#pragma once

#include <stdint.h>
#include <time.h>

struct meter {
    double
        busy_s; /* time with at least one thread at work, or the sum of the device's operations */
    double amount; /* bytes, or floating-point operations of a stage that computes */
    int active;    /* threads at work now */
    double since;  /* when the first of them began, or one ended: busy_s is up to then */
};

static inline double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int64_t clock_ms(void)
{
    return (int64_t)(clock_now() * 1e3);
}

/* These return the time; the end also says since when it adds to busy_s.  The caller holds the lock
 * that guards the meter. */
static inline double meter_begin(struct meter *meter)
{
    double now = clock_now();
    if (meter->active++ == 0)
        meter->since = now;
    return now;
}

static inline double meter_end(struct meter *meter, double amount, double *since)
{
    double now = clock_now();
    *since = meter->since;
    meter->amount += amount;
    meter->busy_s += now - meter->since;
    meter->since = now;
    meter->active--;
    return now;
}

static inline void meter_add(struct meter *meter, double seconds, double amount)
{
    meter->busy_s += seconds;
    meter->amount += amount;
}
