/* What is read of A and B before anything is multiplied: for the means and deviations of a centred
 * or scaled product, or for the largest elements of integers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct machine;
struct plan;
struct problem;

/* Whether means and deviations are found while a run reads A for the product (census.h), and not
 * before: where it reads each element once, for all of C.  `plan`: of the first attempt.  And how
 * many copies of their sums it has for its readers, and the host memory of a rank that these may
 * take. */
bool first_read_is_product(const struct problem *p, const struct plan *plan);
int first_read_copies(const struct problem *p, int readers);
size_t first_read_product_bytes(const struct problem *p, int readers);

/* Bytes that are read for it by all ranks together, and about how long that takes, in seconds.  0
 * where there is none. */
double first_read_bytes(const struct problem *p);
double first_read_seconds(const struct problem *p, const struct machine *machine);

/* Seconds of that which another plan could do without. */
double first_read_needless(const struct problem *p, const struct plan *plan,
                           const struct machine *machine);

/* Seconds that a thread takes to add up what it has read, a byte. */
double first_read_addition(const struct problem *p);
