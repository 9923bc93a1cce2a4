/* Sizes as people write and read them.  512M and 8G are powers of 1024; rates are decimal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* "123", "64k", "512M", "8G", "1.5T", with an optional B or iB.  False when it is no size or too
 * large. */
bool quantity_parse_bytes(const char *text, uint64_t *bytes);

/* "4x2" or "1000x2000x64" into `count` positive numbers. */
bool quantity_parse_extents(const char *text, int count, int64_t *extents);

/* "90s", "10m", "3h50m", "1-12:00:00", "1:30:00", "45:00", or plain seconds, into seconds.  False
 * when it is none of them. */
bool quantity_parse_time(const char *text, double *seconds);

/* Text for a table or a sentence (text.h). */
const char *quantity_bytes(double bytes);       /* 1.50 GiB */
const char *quantity_rate(double bytes_per_s);  /* 2.41 GB/s */
const char *quantity_flops(double flops_per_s); /* 51.3 TFLOP/s */
const char *quantity_work(double flops);        /* 70.4 TFLOP */
const char *quantity_time(double seconds);      /* 812 ms, 12.3 s, 1:02:03 */

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static inline int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
