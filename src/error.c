#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_add(struct error *err, int code, const char *format, ...)
{
    size_t used = strlen(err->text), room = sizeof err->text - used;
    if (err->complaints++ == 0)
        err->code = code;
    else if (room > 1) {
        err->text[used++] = '\n';
        err->text[used] = '\0';
        room--;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(err->text + used, room, format, args);
    va_end(args);
    return code;
}
