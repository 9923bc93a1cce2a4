#include "names.h"

#include <stdbool.h>
#include <stdio.h>

#include "error.h"

#define TEMPORARY ".part"

int names_make(struct names *names, const char *output, struct error *err)
{
    static const char *const endings[NAMES_BESIDE] = {TEMPORARY, TEMPORARY ".sums0",
                                                      TEMPORARY ".sums1", ".journal", ".lock"};
    bool fit = snprintf(names->output, PATH_MAX, "%s", output) < PATH_MAX;
    for (int i = 0; i < NAMES_BESIDE; i++)
        fit &= snprintf(names->beside[i], PATH_MAX, "%s%s", output, endings[i]) < PATH_MAX;
    return fit ? 0 : error_add(err, EXIT_INPUT, "the path %.60s... is too long", output);
}

int names_temporary(const char *file, char temporary[TEMPORARY_MAX])
{
    return snprintf(temporary, TEMPORARY_MAX, "%s" TEMPORARY, file);
}
