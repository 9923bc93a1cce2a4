#include "caller.h"

#include <stdarg.h>

#include "phase.h"

void caller_print(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (to)
        vfprintf(to, format, arguments);
    va_end(arguments);
}

void caller_warn(const struct caller *caller, const char *format, ...)
{
    va_list arguments;
    if (!caller->warnings)
        return;
    phase_hide();
    va_start(arguments, format);
    fputs("dgemm_ooc: ", caller->warnings);
    vfprintf(caller->warnings, format, arguments);
    fputc('\n', caller->warnings);
    va_end(arguments);
}
