#include "caller.h"

#include <stdarg.h>

void caller_print(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (to)
        vfprintf(to, format, arguments);
    va_end(arguments);
}
