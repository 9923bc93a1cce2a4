/* The few lines that every run prints unless it is quiet, for a reader who knows BLAS and HDF5:
 * what is multiplied and planned; then the time, what limited it, what would make it faster, the
 * memory, the check, and where C is.  At most 100 columns, but for long names.  On rank 0. */
#pragma once

#include <stdio.h>

#include "report.h"

/* Before the work; of the report nothing is known yet. */
void screen_begin(FILE *out, const struct account *account);

/* At the end, but for the line of the result: also of a run that was stopped. */
void screen_end(FILE *out, const struct account *account);
