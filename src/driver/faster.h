/* What would make a run faster, by what it measured. */
#pragma once

#include "report.h"

/* Set the report's advice after a run on GPUs, or without.  `plan`: that of its only attempt; null
 * where there were others, of whose reading it says nothing.  The advice stays empty where nothing
 * is known. */
void faster_advise(const struct problem *p, const struct plan *plan, bool gpu,
                   struct report *report);
