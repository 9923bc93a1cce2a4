#include "notice.h"

#include <stdarg.h>
#include <stdbool.h>

#include "phase.h"

static FILE *stream;
static bool given; /* or it is standard error, which is no constant */

void notice_to(FILE *to)
{
    stream = to;
    given = true;
}

void notice(const char *format, ...)
{
    va_list arguments;
    FILE *to = given ? stream : stderr;
    if (!to)
        return;
    phase_hide();
    va_start(arguments, format);
    flockfile(to);
    fputs("dgemm_ooc: ", to);
    vfprintf(to, format, arguments);
    fputc('\n', to);
    fflush(to);
    funlockfile(to);
    va_end(arguments);
}
