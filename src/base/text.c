#include "text.h"

#include <stdarg.h>
#include <stdio.h>

enum { TEXTS = 17, TEXT_BYTES = 512 };

const char *text_make(const char *format, ...)
{
    static _Thread_local char texts[TEXTS][TEXT_BYTES];
    static _Thread_local int next;
    va_list arguments;
    next = (next + 1) % TEXTS;
    va_start(arguments, format);
    vsnprintf(texts[next], TEXT_BYTES, format, arguments);
    va_end(arguments);
    return texts[next];
}
