#include "error.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "memory_limits.h"

/* Whether `line` is one of the lines of `text`. */
static bool has_line(const char *text, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = text; (at = strstr(at, line)); at++)
        if ((at == text || at[-1] == '\n') && (at[length] == '\n' || at[length] == '\0'))
            return true;
    return false;
}

void error_make_plain(char *text)
{
    for (; *text; text++)
        if (iscntrl((unsigned char)*text))
            *text = '?';
}

bool error_is_disk_full(int number)
{
    return number == ENOSPC || number == EDQUOT;
}

int error_of_disk(int number, int otherwise)
{
    return error_is_disk_full(number) || number == EFBIG ? EXIT_RESOURCES : otherwise;
}

const char *error_disk_text(int number)
{
    switch (number) {
    case ENOSPC: return "No space left on device; make room there";
    case EDQUOT: return "Disk quota exceeded; make room there";
    case EFBIG: return "File too large; raise ulimit -f, or use a file system for larger files";
    default: return strerror(number);
    }
}

int error_add(struct error *err, int code, const char *format, ...)
{
    char line[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    error_make_plain(line);
    if (err->complaints > 0 && has_line(err->text, line))
        return code; /* two operands in one missing file are one complaint */
    if (err->complaints++ == 0)
        err->code = code;
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, "%s%s", used ? "\n" : "", line);
    return code;
}

void error_append(struct error *err, const struct error *more)
{
    if (!err->code)
        err->code = more->code;
    for (const char *line = more->text; *line;) {
        size_t length = strcspn(line, "\n");
        error_add(err, more->code, "%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

int error_no_memory(struct error *err, const char *what)
{
    char text[MEMORY_LIMITS_TEXT];
    return error_add(err, EXIT_RESOURCES, "no host memory is left for %s; lower --host-memory%s",
                     what, memory_limits_remedy(text));
}

int error_no_thread(struct error *err, const char *what, int status)
{
    char text[MEMORY_LIMITS_TEXT];
    memory_limits_remedy(text);
    return error_add(err, EXIT_RESOURCES,
                     "cannot start a thread for %s: %s; see ulimit -u, the processes and threads "
                     "that a user may have%s%s",
                     what, strerror(status), text[0] ? "; lower --host-memory" : "", text);
}

void error_print(FILE *to, const struct error *err, const char *program)
{
    for (const char *line = err->text; *line;) {
        size_t length = strcspn(line, "\n");
        fprintf(to, "%s: %.*s\n", program, (int)length, line);
        line += length + (line[length] == '\n');
    }
}
