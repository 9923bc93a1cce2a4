/* What the control groups of this process allow it: of version 1 or 2, each group or one of those
 * around it. */
#pragma once

#include <stdint.h>

/* Bytes of memory; UINT64_MAX: any. */
uint64_t control_group_memory(void);

/* CPUs that may be busy at the same time on average, a part of one counted as a whole one; INT_MAX:
 * any. */
int control_group_cpus(void);
