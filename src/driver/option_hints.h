/* What users of other programs give, and what to give here instead. */
#pragma once

/* What to do instead of giving an option or a letter of this name, which is none, as the end of a
 * sentence; null where that is not known. */
const char *option_hint(const char *name);
