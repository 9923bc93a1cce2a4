/* What the parts of the full check share: its memory. */
#pragma once

#include "verify.h"

/* Numbers that all ranks have: for the check's vectors, of so many classes. */
size_t verify_numbers(const struct problem *p, int classes);

/* More classes find more: as many as fit into half of the memory. */
int verify_classes(const struct problem *p, const struct machine *machine);

/* How a matrix is read: C by offset, as it was written, since the run holds the lock that HDF5
 * would take. */
enum store_way verify_way(const struct problem *p, bool is_c);

/* What a thread has for a part, and for what it becomes (embedding.h), in parts. */
int verify_rooms(const struct problem *p);

/* The memory that the check takes beside the parts; C is a contiguous file. */
size_t verify_fixed_bytes(const struct problem *p, int classes, int threads);
