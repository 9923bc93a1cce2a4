#include "leftovers.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
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

static volatile sig_atomic_t guarded;

static void clean_up(void)
{
    static const char words[] =
        "dgemm_ooc: a library has ended this process, most likely since it can have no more "
        "threads or memory; see ulimit -u and -v, and a container's limits, or lower "
        "OMP_NUM_THREADS and --host-memory\n";
    leftovers_remove();
    lock_abandon();
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
}

static void end(void)
{
    if (!guarded)
        return;
    clean_up();
    _exit(EXIT_RESOURCES);
}

static void end_aborted(int number)
{
    if (guarded)
        clean_up();
    signal(number, SIG_DFL);
    raise(number);
}

void leftovers_guard(void)
{
    guarded = true;
    atexit(end);
    signal(SIGABRT, end_aborted);
}

void leftovers_unguard(void)
{
    guarded = false;
}

void leftovers_keep(void)
{
    count = 0;
}
