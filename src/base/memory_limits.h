/* The limits of the memory that this process may take: of addresses and data (ulimit -v and -d). */
#pragma once

#include <stdint.h>

/* Bytes that this process may still take, by these limits; UINT64_MAX: any. */
uint64_t memory_limits_left(void);

/* " or raise ulimit -v, which is 350000 KiB", the limit that leaves least; empty where neither is
 * set. */
enum { MEMORY_LIMITS_TEXT = 64 };
const char *memory_limits_remedy(char text[MEMORY_LIMITS_TEXT]);
