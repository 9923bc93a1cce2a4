/* What a process says that nobody asked for: lines of warnings, beside the live line of phase.h. */
#pragma once

#include <stdio.h>

/* From now on notices go to this stream, which must stay; null: nowhere.  At first it is standard
 * error. */
void notice_to(FILE *to);

/* Print one, from any thread: `format` has neither the beginning nor the end of the line. */
void notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Each complaint of an error as a notice. */
struct error;
void notice_error(const struct error *err);
