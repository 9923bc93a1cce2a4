/* How many moduli a product in residues needs (ozaki.h): the farther numbers spread within a row of
 * op(A) or a column of op(B), the more are lost beside the largest. */
#pragma once

#include "problem.h"

struct spread {
    /* The least number, from the problem's on, that reaches the accuracy of sums; 0: none does. */
    int moduli;
    double units; /* the bound on an error with the problem's moduli, by u |op(A)| |op(B)| */
};

/* Look at 1024 steps each at the begin, in the middle and at the end of k, of eight neighbouring
 * rows of op(A) and columns of op(B) at either end.  The error of each of their products in
 * residues is bounded by what rounding to integers loses of their elements; that of sums of
 * products by k u |op(A)| |op(B)|, an eighth of which is what moduli have to reach, since the
 * sample does not show everything.  Depends on the elements, on nothing else.  Reads up to 6144
 * short pieces of an operand whose rows or columns are not contiguous, blocking; not collective. */
int spread_probe(const struct problem *p, struct spread *spread, struct error *err);
