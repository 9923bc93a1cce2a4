#include "option_values.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "format.h"
#include "quantity.h"
#include "slice.h"

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

/* One term of a complex number, with its sign: a number or an imaginary one, as 2i or i.  Returns
 * what follows it; null where it is none. */
static const char *parse_term(const char *text, double *value, bool *imaginary)
{
    char *end;
    const bool negative = *text == '-', is_signed = negative || *text == '+';
    *value = strtod(text, &end);
    if (end == text && text[is_signed] == 'i') { /* without a number */
        *value = negative ? -1 : 1;
        end = (char *)text + is_signed;
    }
    *imaginary = *end == 'i';
    return end == text && !*imaginary ? NULL : end + *imaginary;
}

void parse_complex(const char *text, double *real, double *imaginary, struct parse *p)
{
    double value[2] = {0, 0};
    bool given[2] = {false, false}, right = true;
    const char *rest = text;
    while (right && (rest == text || *rest)) {
        double term;
        bool of_i;
        right = rest == text || *rest == '+' || *rest == '-';
        rest = right ? parse_term(rest, &term, &of_i) : NULL;
        right = rest && !given[of_i] && isfinite(term);
        if (right) {
            given[of_i] = true;
            value[of_i] = term;
        }
    }
    if (!right)
        bad_value(p, text, "give a finite number, or a complex one such as 1.5-2i");
    *real = value[0];
    *imaginary = value[1];
}

void parse_trans(const char *text, bool *trans, bool *conjugate, struct parse *p)
{
    int word = parse_word(text, p);
    *trans = word > 0;
    *conjugate = word == 2;
}

static int parse_count_or(const char *text, const char *remedy, struct parse *p)
{
    int64_t value = 0;
    const bool right = quantity_parse_extents(text, 1, &value) && value <= 1 << 24;
    if (!right)
        bad_value(p, text, remedy);
    return right ? (int)value : 0;
}

int parse_count(const char *text, struct parse *p)
{
    return parse_count_or(text, "give a positive number", p);
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

bool type_named(const char *text, enum scalar *type, bool *complex)
{
    const char letter = strlen(text) == 1 ? (char)tolower((unsigned char)text[0]) : '\0';
    const char *name = strcasecmp(text, "single") == 0 ? "float" : text;
    for (enum scalar i = 0; i < SCALAR_COUNT; i++)
        if (scalar_is_float_or_double(i) &&
            (letter == scalar_letter(i, false) || letter == scalar_letter(i, true) ||
             strcasecmp(name, scalar_name(i)) == 0)) {
            *type = i;
            *complex = letter == scalar_letter(i, true);
            return true;
        }
    return false;
}

enum scalar parse_type(const char *text, bool *complex, struct parse *p)
{
    enum scalar type = SCALAR_DOUBLE;
    if (!type_named(text, &type, complex))
        bad_value(p, text,
                  "choose d (double), s (single, float), or complex numbers of them: z, c");
    return type;
}

int parse_algorithm(const char *text, int *moduli, struct parse *p)
{
    *moduli = 0;
    if (strcmp(text, "auto") == 0)
        return ALGORITHM_AUTO;
    const int algorithm = algorithm_parse(text, moduli);
    if (algorithm == ALGORITHM_NONE) {
        char remedy[256];
        snprintf(remedy, sizeof remedy, "choose one that this build has: auto, %s",
                 algorithm_names());
        bad_value(p, text, remedy);
        return ALGORITHM_AUTO;
    }
    return algorithm;
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
    p->options->plan.grid_rows = (int)grid[0];
    p->options->plan.grid_cols = (int)grid[1];
}

void parse_tile(const char *text, struct parse *p)
{
    int64_t tile[3] = {0, 0, 0};
    if (!quantity_parse_extents(text, 3, tile))
        bad_value(p, text, "give MxNxK, such as 8192x8192x1024");
    p->options->plan.tile_rows = tile[0];
    p->options->plan.tile_cols = tile[1];
    p->options->plan.slab = tile[2];
}

/* 0: the planner chooses. */
static bool is_number(const char *text)
{
    return text[0] && text[strspn(text, "0123456789")] == '\0' && access(text, F_OK) != 0;
}

bool names_file(const char *text)
{
    char name[PATH_MAX];
    const size_t length = text ? slice_base(text) : 0;
    snprintf(name, sizeof name, "%.*s", (int)length, text ? text : "");
    return text && (memchr(text, ':', length) || format_is_one_matrix(name));
}

/* Two words that name matrices are A and B. */
static bool take_pair(const char *value, struct parse *p)
{
    if (p->pair || p->a || p->b || !names_file(p->input) || !names_file(value))
        return false;
    p->pair = true;
    p->a = p->input;
    p->b = value;
    p->input = NULL;
    return true;
}

void take_input(const char *value, struct parse *p)
{
    if (take_pair(value, p))
        return;
    const bool second = (p->input || p->pair) && !p->left_out;
    const bool number = second && (is_number(value) || (p->input && is_number(p->input)));
    if (number)
        usage_error(p,
                    "one INPUT.h5 only, and %s is a second word: start so many ranks by mpirun "
                    "-n %s dgemm_ooc ..., since -n itself means --dry-run",
                    value, is_number(value) ? value : p->input);
    else if (second && (strchr(value, '.') || access(value, F_OK) == 0))
        usage_error(p,
                    "one INPUT.h5 only, and %s is a second one: name an operand of another "
                    "file as -b %s:/B, and the output with -o",
                    value, value);
    else if (second)
        usage_error(p,
                    "one INPUT.h5 only, and %s is a second word and no file: name datasets as "
                    "-a A -b B, and the output as -o FILE.h5",
                    value);
    p->left_out |= second; /* a third one has the same reason */
    p->input = value;
}
