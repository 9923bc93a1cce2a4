#include "leftovers.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "file.h"
#include "lock.h"

static struct leftover {
    char name[PATH_MAX];
    int descriptor;
} leftovers[LEFTOVERS_MAX];
static int count; /* grows after an entry is whole: a signal may come meanwhile */

void leftovers_add(const char *name, int descriptor)
{
    if (count == LEFTOVERS_MAX)
        return;
    leftovers[count].descriptor = descriptor;
    snprintf(leftovers[count].name, PATH_MAX, "%s", name);
    count++;
}

void leftovers_remove(void)
{
    if (!lock_is_held())
        return;
    for (int i = count - 1; i >= 0; i--)
        if (leftovers[i].descriptor < 0 ||
            file_has_name(leftovers[i].descriptor, leftovers[i].name))
            unlink(leftovers[i].name);
}

void leftovers_keep(void)
{
    count = 0;
}
