#include "leftovers.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "lock.h"

static struct leftover {
    char name[PATH_MAX];
    int descriptor;
} leftovers[LEFTOVERS_MAX];
static int count; /* grows after an entry is whole: a signal may come meanwhile */

/* The entry of a file; the next free one if there is none. */
static int find(const char *name)
{
    int at = 0;
    while (at < count && strcmp(leftovers[at].name, name) != 0)
        at++;
    return at;
}

void leftovers_add(const char *name, int descriptor)
{
    const int at = find(name);
    if (at == LEFTOVERS_MAX)
        return;
    leftovers[at].descriptor = descriptor;
    snprintf(leftovers[at].name, PATH_MAX, "%s", name);
    count += at == count;
}

void leftovers_forget(const char *name)
{
    const int at = find(name);
    if (at < count)
        leftovers[at].name[0] = '\0';
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
