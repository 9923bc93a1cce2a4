#include "option_values.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"
#include "quantity.h"

void usage_error(struct parse *p, const char *format, ...)
{
    char text[PATH_MAX + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_add(&p->err, EXIT_USAGE, "%s", text);
}

/* Complain about the value of the option, named as it was given: by the option or its variable. */
static void bad_value(struct parse *p, const char *text, const char *remedy)
{
    const char *option = p->option->name;
    char variable[ENVIRONMENT_NAME];
    if (p->from_environment)
        usage_error(p, "%s=%s: %s", environment_variable(option, variable), text, remedy);
    else
        usage_error(p, "--%s %s: %s", option, text, remedy);
}

double parse_number(const char *text, struct parse *p)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value))
        bad_value(p, text, "give a finite number");
    return value;
}

int parse_count(const char *text, struct parse *p)
{
    int64_t value = 0;
    if (!quantity_parse_extents(text, 1, &value) || value > 1 << 24)
        bad_value(p, text, "give a positive number");
    return (int)value;
}

uint64_t parse_seed(const char *text, struct parse *p)
{
    char *end;
    errno = 0;
    uint64_t seed = strtoull(text, &end, 10);
    if (errno || *end || !isdigit((unsigned char)*text) || seed == 0)
        bad_value(p, text, "give a number from 1 to 18446744073709551615");
    return seed;
}

uint64_t parse_bytes(const char *text, struct parse *p)
{
    uint64_t bytes = 0;
    if (!quantity_parse_bytes(text, &bytes) || bytes == 0)
        bad_value(p, text, "give a size such as 512M or 8G");
    return bytes;
}

double parse_time(const char *text, struct parse *p)
{
    double seconds = 0;
    if (!quantity_parse_time(text, &seconds))
        bad_value(p, text, "give a time such as 90s, 10m, 3h50m or 1-12:00:00");
    else if (seconds <= 0)
        bad_value(p, text, "give a time above 0, or leave the option out");
    return seconds;
}

int parse_word(const char *text, struct parse *p)
{
    const char *words = p->option->arg;
    size_t length = strlen(text);
    const char *word = words;
    for (int i = 0; word; i++) {
        size_t size = strcspn(word, "|");
        if (size == length && strncasecmp(word, text, size) == 0)
            return i;
        word = strchr(word, '|');
        word = word ? word + 1 : NULL;
    }
    char remedy[128];
    snprintf(remedy, sizeof remedy, "choose one of %s", words);
    bad_value(p, text, remedy);
    return 0;
}

bool type_named(const char *text, enum scalar *type)
{
    static const struct {
        const char *name;
        enum scalar type;
    } names[] = {{"d", SCALAR_DOUBLE},
                 {"double", SCALAR_DOUBLE},
                 {"s", SCALAR_FLOAT},
                 {"single", SCALAR_FLOAT},
                 {"float", SCALAR_FLOAT}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(text, names[i].name) == 0) {
            *type = names[i].type;
            return true;
        }
    return false;
}

enum scalar parse_type(const char *text, struct parse *p)
{
    enum scalar type = SCALAR_DOUBLE;
    if (!type_named(text, &type))
        bad_value(p, text, "choose d (double) or s (single, float)");
    return type;
}

int parse_algorithm(const char *text, int *moduli, struct parse *p)
{
    *moduli = 0;
    if (strcmp(text, "auto") == 0)
        return ALGORITHM_AUTO;
    const struct algorithm_info *algorithm = algorithm_parse(text, moduli);
    if (!algorithm) {
        char remedy[256];
        snprintf(remedy, sizeof remedy, "choose one that this build has: auto, %s",
                 algorithm_names());
        bad_value(p, text, remedy);
        return ALGORITHM_AUTO;
    }
    return (int)algorithm->id;
}

void copy_path(char to[PATH_MAX], const char *from, struct parse *p)
{
    if (snprintf(to, PATH_MAX, "%s", from) >= PATH_MAX)
        usage_error(p, "the path %.40s... is too long", from);
}

void parse_grid(const char *text, struct parse *p)
{
    int64_t grid[2] = {0, 0};
    if (!quantity_parse_extents(text, 2, grid) || grid[0] > 1 << 24 || grid[1] > 1 << 24)
        bad_value(p, text, "give PxQ, such as 2x4");
    p->options->grid_rows = (int)grid[0];
    p->options->grid_cols = (int)grid[1];
}

void parse_tile(const char *text, struct parse *p)
{
    int64_t tile[3] = {0, 0, 0};
    if (!quantity_parse_extents(text, 3, tile))
        bad_value(p, text, "give MxNxK, such as 8192x8192x1024");
    p->options->tile_rows = tile[0];
    p->options->tile_cols = tile[1];
    p->options->slab = tile[2];
}

/* 0: the planner chooses. */
int parse_split(const char *text, struct parse *p)
{
    if (strcmp(text, "auto") == 0)
        return 0;
    return strcmp(text, "off") == 0 ? 1 : parse_count(text, p);
}
