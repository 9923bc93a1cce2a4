/* Which computer this is. */
#pragma once

#include <stdint.h>

/* A number that is the same on all ranks of a computer, also in containers that have host names of
 * their own.  MPI_COMM_TYPE_SHARED is not used: where PMIX_MCA_gds=hash is set, Open MPI 4.1 puts
 * ranks of other computers into it, and hangs. */
uint64_t computer_number(void);
