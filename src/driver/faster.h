/* What would make a run faster, by what it measured and by planning again with more memory. */
#pragma once

#include "advice.h"
#include "report.h"

/* Set the report's advice after a run, of which `advice` describes the only attempt; `whole` is
 * false where there were others, and planning the last one again says nothing of them.  The advice
 * stays empty where nothing is known. */
void faster_advise(const struct advice *advice, const struct plan *plan, bool whole,
                   struct report *report);
