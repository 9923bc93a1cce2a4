/* What the system lets this process have. */
#pragma once

#include <stdint.h>

struct error;

/* At the start, before any thread: raise the limit of open files as far as is allowed, since a
 * virtual dataset may have thousands, and give the stacks of this and of later threads, libraries'
 * too, enough; where addresses are limited, no more, and one heap to all threads.  Complains
 * (EXIT_RESOURCES) where stacks may not have that, too few files may be open, or libraries would
 * have too little memory. */
int rlimits_raise(struct error *err);

/* The most bytes that a file may have which this process writes; UINT64_MAX: any. */
uint64_t rlimits_file_bytes(void);
