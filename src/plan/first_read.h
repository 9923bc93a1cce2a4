/* What is read of A and B before anything is multiplied: for the means and deviations of a centred
 * or scaled product, or for the largest elements of integers. */
#pragma once

struct machine;
struct problem;

/* Bytes that are read for it by all ranks together, and about how long that takes, in seconds.  0
 * where there is none. */
double first_read_bytes(const struct problem *p);
double first_read_seconds(const struct problem *p, const struct machine *machine);
