/* What the pass over the matrix of a centred or scaled product takes. */
#pragma once

struct machine;
struct problem;

/* Bytes of the matrix that are read for means and deviations before anything is multiplied, by all
 * ranks together; and about how long that takes, in seconds.  0 where there are none. */
double standard_bytes(const struct problem *p);
double standard_seconds(const struct problem *p, const struct machine *machine);
