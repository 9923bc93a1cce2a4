#include "notice.h"

#include <stdarg.h>
#include <stdbool.h>

#include "error.h"
#include "phase.h"

static FILE *stream;
static bool given; /* or it is standard error, which is no constant */

void notice_to(FILE *to)
{
    stream = to;
    given = true;
}

static FILE *begin(void)
{
    FILE *to = given ? stream : stderr;
    if (to)
        phase_hide();
    return to;
}

void notice(const char *format, ...)
{
    va_list arguments;
    FILE *to = begin();
    if (!to)
        return;
    va_start(arguments, format);
    flockfile(to);
    fputs("dgemm_ooc: ", to);
    vfprintf(to, format, arguments);
    fputc('\n', to);
    fflush(to);
    funlockfile(to);
    va_end(arguments);
}

void notice_error(const struct error *err)
{
    FILE *to = begin();
    if (to)
        error_print(to, err, "dgemm_ooc");
}
