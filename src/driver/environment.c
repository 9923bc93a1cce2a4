#include "environment.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

static const char prefix[] = "DGEMM_OOC_";

const char *environment_variable(const char *option, char variable[ENVIRONMENT_NAME])
{
    int length = snprintf(variable, ENVIRONMENT_NAME, "%s", prefix);
    for (; *option && length < ENVIRONMENT_NAME - 1; option++)
        variable[length++] = (char)(*option == '-' ? '_' : toupper((unsigned char)*option));
    variable[length] = '\0';
    return variable;
}

static bool is_option(const struct argp_option *option)
{
    return option->name && option->group >= 0;
}

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words && strcasecmp(text, *words) != 0)
        words++;
    return *words;
}

/* Whether the value of a switch is on. */
static bool is_switched_on(const char *variable, const char *value, struct error *err)
{
    static const char *const on[] = {"1", "yes", "true", "on", NULL}, *const off[] = {"0", "no",
                                                                                      "false",
                                                                                      "off", NULL};
    if (!is_one_of(value, on) && !is_one_of(value, off))
        error_add(err, EXIT_USAGE, "%s=%s: give yes or no", variable, value);
    return is_one_of(value, on);
}

/* Whether a variable belongs to the tests or, by its last word, to a site's module, which states
 * where a package is installed and in which version. */
static bool is_of_others(const char *variable)
{
    static const char *const words[] = {"VERSION", "HOME", "DIR",   "ROOT",   "PATH",   "BASE",
                                        "PREFIX",  "BIN",  "LIB",   "LIBDIR", "INC",    "INCLUDE",
                                        "DOC",     "MAN",  "SHARE", "BUILD",  "MODULE", "LICENSE",
                                        "URL",     "HELP", "USAGE", NULL};
    static const char tests[] = "DGEMM_OOC_TEST_";
    return strncmp(variable, tests, strlen(tests)) == 0 ||
           is_one_of(strrchr(variable, '_') + 1, words);
}

/* Complain about a variable with the prefix that belongs neither to an option nor to others. */
static void check_name(const struct argp_option *table, const char *variable, struct error *err)
{
    char name[ENVIRONMENT_NAME], meant[ENVIRONMENT_NAME] = "";
    int length = 0;
    for (const char *c = variable + sizeof prefix - 1; *c; c++)
        name[length++] = (char)(*c == '_' ? '-' : tolower((unsigned char)*c));
    name[length] = '\0';
    const struct argp_option *option = option_words_nearest(table, name);
    if (option && is_option(option))
        environment_variable(option->name, meant);
    if (is_of_others(variable) || strcmp(variable, meant) == 0)
        return;
    if (meant[0])
        error_add(err, EXIT_USAGE, "%s is not an option; is %s meant? If not, unset it", variable,
                  meant);
    else
        error_add(err, EXIT_USAGE,
                  "%s is not an option; unset it, or see --help-all for the options", variable);
}

static void check_names(const struct argp_option *table, struct error *err)
{
    for (char **entry = environ; *entry; entry++) {
        char variable[ENVIRONMENT_NAME];
        int length = (int)strcspn(*entry, "=");
        snprintf(variable, sizeof variable, "%.*s", length, *entry);
        if (strncmp(variable, prefix, strlen(prefix)) == 0 && (*entry)[length] &&
            (*entry)[length + 1])
            check_name(table, variable, err);
    }
}

void environment_options(const struct argp_option *table, const bool *given, option_take *take,
                         void *context, struct error *err)
{
    check_names(table, err);
    for (const struct argp_option *o = table; o->name || o->doc; o++) {
        char variable[ENVIRONMENT_NAME];
        char *value = is_option(o) && !given[o - table]
                          ? getenv(environment_variable(o->name, variable))
                          : NULL;
        if (value && *value && (o->arg || is_switched_on(variable, value, err)))
            take(o, o->arg ? value : NULL, context);
    }
}
