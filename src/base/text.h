/* Short texts that functions return. */
#pragma once

/* Format a text of at most 511 characters.  It is valid until this thread has made 16 more. */
const char *text_make(const char *format, ...) __attribute__((format(printf, 1, 2)));
