/* What the system lets this process have. */
#pragma once

struct error;

/* At the start, before any thread: raise the limit of open files as far as is allowed, since a
 * virtual dataset may have thousands, and give the stacks of this and of later threads, libraries'
 * too, enough.  Complains (EXIT_RESOURCES) where they may not have that. */
int rlimits_raise(struct error *err);
