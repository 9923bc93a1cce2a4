/* The shifts of a product of shifted elements (scaling_shifts): of each line the median of some of
 * its elements, which are spread over all of it.  They are elements of the line, so that a line
 * without variation becomes zeros, and as good as its mean: sums lose about (mean - shift)^2 /
 * variance of their digits.  Where elements are scaled, too, they are divided by a power of two, so
 * that their squares are numbers. */
#pragma once

struct comm;
struct error;
struct machine;
struct problem;
struct statistics;

/* Collective, blocks.  Read them and set the shift and the scale of each line, the same on all
 * ranks, as a pure function of the matrix.  NaN and infinity are not among them. */
int sample_read(const struct problem *p, const struct machine *machine, struct comm *comm,
                struct statistics *statistics, struct error *err);
