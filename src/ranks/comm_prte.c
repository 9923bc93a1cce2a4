/* Open MPI 5 has PRRTE start its ranks, which does not tell them how it came by their binding: the
 * command line, the environment and the files of its `prterun` do.  That is an ancestor of the
 * ranks on its own computer; those on others hear it from them. */
#include "comm_impl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc.h"

enum {
    ANCESTORS = 16, /* shells and other programs between the launcher and this process, at most */
    TEXT = 64 << 10,
};

/* All of a file, as far as there is room for it, as lines: so are the words of a command line or an
 * environment, each of which ends with a 0.  Empty where it cannot be read. */
static void read_lines(const char *path, char text[TEXT])
{
    FILE *file = fopen(path, "re");
    size_t bytes = file ? fread(text, 1, TEXT - 1, file) : 0;
    text[bytes] = '\0';
    for (size_t i = 0; i < bytes; i++)
        text[i] = text[i] ? text[i] : '\n';
    if (file)
        fclose(file);
}

/* Whether a setting says which CPUs ranks get, by an option's name or a parameter's. */
static bool asks(const char *name, const char *value)
{
    static const char *const words[] = {"bind-to",  "binding_policy", "cpu-list", "cpu-set",
                                        "cpu_list", "rankfile",       "tune"};
    if (strstr(name, "map-by") || strstr(name, "mapping_policy"))
        return comm_names_cpus(value);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return true;
    return strcmp(name, "rf") == 0;
}

/* --NAME VALUE, --NAME=VALUE or --mca NAME VALUE, a line each. */
static bool asked_in_command(char *line)
{
    char *rest = NULL, *words[3];
    for (int i = 0; i < 3; i++)
        words[i] = strtok_r(i == 0 ? line : NULL, "\n", &rest);
    for (; words[0];
         words[0] = words[1], words[1] = words[2], words[2] = strtok_r(NULL, "\n", &rest)) {
        const char *name = words[0] + strspn(words[0], "-"), *value = words[1] ? words[1] : "";
        const char *end = strchr(name, '=');
        if (name == words[0])
            continue;
        if (strlen(name) >= 3 && strcmp(name + strlen(name) - 3, "mca") == 0 && words[2])
            name = words[1], value = words[2];
        else if (end)
            value = end + 1;
        if (asks(name, value))
            return true;
    }
    return false;
}

/* Lines NAME = VALUE, where the names begin with `prefix`. */
static bool asked_in_lines(char *text, const char *prefix)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, '=');
        line += strspn(line, " \t");
        if (!value || strncmp(line, prefix, strlen(prefix)) || *line == '#')
            continue;
        *value++ = '\0';
        if (asks(line + strlen(prefix), value + strspn(value, " \t")))
            return true;
    }
    return false;
}

static bool asked_in_file(const char *folder, const char *name, char text[TEXT])
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    read_lines(path, text);
    return asked_in_lines(text, "");
}

/* Whether the launcher, which is this process, was asked for a binding. */
static bool was_asked(long launcher, char text[TEXT])
{
    char path[64], prefix[PATH_MAX] = "";
    const char *home = getenv("HOME");
    snprintf(path, sizeof path, "/proc/%ld/cmdline", launcher);
    read_lines(path, text);
    if (asked_in_command(text))
        return true;
    snprintf(path, sizeof path, "/proc/%ld/environ", launcher);
    read_lines(path, text);
    if (asked_in_lines(text, "PRTE_MCA_"))
        return true;
    snprintf(path, sizeof path, "/proc/%ld/exe", launcher);
    if (readlink(path, prefix, sizeof prefix - 1) > 0) /* PREFIX/bin/prterun */
        for (int i = 0; i < 2; i++)
            if (strrchr(prefix, '/'))
                *strrchr(prefix, '/') = '\0';
    return (home && asked_in_file(home, ".prte/mca-params.conf", text)) ||
           asked_in_file(prefix, "etc/prte-mca-params.conf", text) ||
           asked_in_file("/etc", "prte-mca-params.conf", text);
}

enum prte_binding comm_prte_binding(void)
{
    long process = getppid();
    enum prte_binding found = PRTE_UNKNOWN;
    char *text = malloc(TEXT);
    for (int i = 0; text && i < ANCESTORS && process > 1 && found == PRTE_UNKNOWN; i++) {
        char path[64], name[64] = "";
        uint64_t parent = 0;
        snprintf(path, sizeof path, "/proc/%ld/status", process);
        proc_text(path, "Name", name, sizeof name);
        if (strcmp(name, "prterun") == 0)
            found = was_asked(process, text) ? PRTE_ASKED : PRTE_DEFAULT;
        process = proc_number(path, "PPid", &parent) ? (long)parent : 0;
    }
    free(text);
    return found;
}
