/* Values that the kernel states in /proc and /sys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of the first line "KEY: VALUE" whose key begins with `key`; with "" the first line is
 * the value.  False where there is none. */
bool proc_text(const char *file, const char *key, char *value, size_t bytes);

/* Likewise a number, in the unit that it has there. */
bool proc_number(const char *file, const char *key, uint64_t *value);

/* Which computer this is: a number that is the same on all ranks of a computer, also in containers
 * that have host names of their own.  MPI_COMM_TYPE_SHARED is not used: where PMIX_MCA_gds=hash is
 * set, Open MPI 4.1 puts ranks of other computers into it, and hangs. */
uint64_t computer_number(void);
