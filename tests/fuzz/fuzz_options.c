/* Command lines: one word a line.  --help ends the process; here (-Dexit=fuzz_exit) it ends the
 * parsing. */
#include <setjmp.h>
#include <string.h>

#include "arguments.h"
#include "error.h"
#include "fuzz_input.h"

enum { WORDS_MAX = 32 };

static jmp_buf after;

void fuzz_exit(int code) __attribute__((noreturn));
void fuzz_exit(int code)
{
    if (code != EXIT_COMPLETE)
        abort();
    longjmp(after, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct options options;
    static char text[4096], *words[WORDS_MAX + 2], program[] = "dgemm_ooc";
    int count = 0;
    if (bytes >= sizeof text)
        return -1;
    snprintf(text, sizeof text, "%.*s", (int)bytes, bytes ? (const char *)data : "");
    words[count++] = program;
    for (char *rest = text, *word; count <= WORDS_MAX && (word = strsep(&rest, "\n"));)
        words[count++] = word;
    words[count] = NULL;
    if (setjmp(after))
        return 0;
    struct error err = {0};
    const int wrong = arguments_parse(count, words, NULL, &options, &err);
    if (wrong ? wrong != EXIT_USAGE || err.complaints == 0 : err.complaints > 0)
        abort();
    if (!memchr(options.output.file, 0, sizeof options.output.file) ||
        options.resources.ranks < 0 || options.plan.grid_rows < 0 || options.plan.tile_rows < 0)
        abort();
    return 0;
}
