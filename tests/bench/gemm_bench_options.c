/* The command line of gemm_bench. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common_options.h"
#include "error.h"
#include "gemm_bench.h"
#include "quantity.h"
#include "version.h"

enum { KEY_LD_PAD = 0x100, KEY_TRANSFERS, KEY_CHECK, KEY_SWEEP, KEY_PHI, KEY_JSON, PHI_MOST = 8 };

static const struct argp_option option_table[] = {
    {"algo", 'a', "LIST", 0,
     "naive,register,cublas or 0,2,7, or the path (with a /) of a library that exports cuBLAS's "
     "functions (default: all that run here)",
     0},
    {"trans", 't', "LIST", 0, "NN,NT,TN,TT: A, then B, as stored or transposed (default: all)", 0},
    {"type", 'y', "LIST", 0,
     "s,d,c,z: float, double, complex of floats, complex of doubles (default: s,d)", 0},
    {"size", 's', "LIST", 0, "N or MxNxK (default 1024,2048,4096,8192; 512,1024 on the CPU)", 0},
    {"ld-pad", KEY_LD_PAD, "P", 0, "pad the leading dimensions by P elements: 1 makes them odd", 0},
    {"phi", KEY_PHI, "PHI", 0, "elements are x exp(PHI g) with x uniform and g normal (default 0)",
     0},
    {"repeat", 'r', "R", 0, "measure R times (default 5)", 0},
    {"transfers", KEY_TRANSFERS, 0, 0, "also measure with A, B and C copied in and C copied out",
     0},
    {"check", KEY_CHECK, 0, 0, "check all elements at all sizes, and print the errors", 0},
    {"sweep", KEY_SWEEP, 0, 0, "measure algorithms 0 to 3 with several block shapes", 0},
    {"json", KEY_JSON, "FILE", 0, "write the results as JSON", 0},
    {0, 0, 0, 0, 0, 0},
};

static const char doc[] =
    "Measure and check the GEMM kernels, C := op(A) op(B) + C of random data.\v"
    "Each measured call is followed by a call of cuBLAS.  Its share is the median over these "
    "pairs: beside a slow kernel cuBLAS runs cooler, and faster, than alone.  "
    "Complex products are computed as real products of twice the size.  There cuBLAS multiplies "
    "complex numbers, but is not measured where B is transposed.  "
    "A library that exports cublasDgemm and cublasSgemm is measured as a rival.  It is linked with "
    "the cuBLAS whose handle it gets.  Its complex products are not measured, and it is judged as "
    "running sums are.  "
    "Results are compared with a product in long double: up to 512^3 in full, above that in some "
    "columns, or in full with --check.  The largest error is in units of u (|C| + |A||B|), with u "
    "the roundoff of the type.  Exit codes: 0 done, 1 failure while running, 2 usage, "
    "4 no GPU or not enough memory, 5 a wrong product.";

static void parse_algorithm(const char *word, struct bench_options *o, struct argp_state *state)
{
    struct bench_choice choice = {.algorithm = ALGORITHM_NONE};
    if (o->choice_count == BENCH_LIST_MAX)
        argp_error(state, "--algo: more than %d", BENCH_LIST_MAX);
    if (strchr(word, '/'))
        choice.rival = strdup(word);
    else
        choice.algorithm = algorithm_parse(word, &choice.moduli);
    if (choice.algorithm == ALGORITHM_NONE && !choice.rival)
        argp_error(state, "--algo %s: choose from what this build has: %s", word,
                   algorithm_names());
    else
        o->choices[o->choice_count++] = choice;
}

static double parse_phi(const char *text, struct argp_state *state)
{
    char *end;
    double phi = strtod(text, &end);
    if (end == text || *end || !(phi >= 0 && phi <= PHI_MOST))
        argp_error(state, "--phi %s: give a number from 0 to %d", text, PHI_MOST);
    return phi;
}

static void parse_size(const char *word, struct bench_options *o, struct argp_state *state)
{
    int64_t size[3];
    if (quantity_parse_extents(word, 1, size))
        size[1] = size[2] = size[0];
    else if (!quantity_parse_extents(word, 3, size))
        argp_error(state, "--size %s: give N or MxNxK", word);
    if (o->size_count == BENCH_LIST_MAX)
        argp_error(state, "--size: more than %d", BENCH_LIST_MAX);
    o->sizes[o->size_count++] = (struct bench_size){size[0], size[1], size[2]};
}

static void parse_trans(const char *word, struct bench_options *o, struct argp_state *state)
{
    if (strlen(word) != 2 || strspn(word, "NTnt") != 2)
        argp_error(state, "--trans %s: choose from NN, NT, TN, TT", word);
    else
        o->trans[strchr("Tt", word[0]) != NULL][strchr("Tt", word[1]) != NULL] = true;
}

static void parse_type(const char *word, struct bench_options *o, struct argp_state *state)
{
    if (strlen(word) != 1 || strspn(word, "sdcz") != 1)
        argp_error(state, "--type %s: choose from s, d, c, z", word);
    else
        o->types[strchr("sc", word[0]) ? SCALAR_FLOAT : SCALAR_DOUBLE]
                [strchr("cz", word[0]) != NULL] = true;
}

static void parse_list(char *text, struct bench_options *o, struct argp_state *state,
                       void (*parse)(const char *, struct bench_options *, struct argp_state *))
{
    char *rest = strdup(text);
    char *copy = rest;
    for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ","))
        parse(word, o, state);
    free(copy);
}

static int64_t parse_count(const char *text, int64_t most, struct argp_state *state,
                           const char *name)
{
    int64_t value = 0;
    if (!quantity_parse_extents(text, 1, &value) || value > most)
        argp_error(state, "--%s %s: give a number up to %lld", name, text, (long long)most);
    return value;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct bench_options *o = state->input;
    switch (key) {
    case 'a': parse_list(arg, o, state, parse_algorithm); return 0;
    case 't': parse_list(arg, o, state, parse_trans); return 0;
    case 'y': parse_list(arg, o, state, parse_type); return 0;
    case 's': parse_list(arg, o, state, parse_size); return 0;
    case 'r': o->repeat = (int)parse_count(arg, BENCH_REPEAT_MAX, state, "repeat"); return 0;
    case KEY_LD_PAD:
        o->ld_pad = strcmp(arg, "0") == 0 ? 0 : parse_count(arg, 1 << 20, state, "ld-pad");
        return 0;
    case KEY_PHI: o->phi = parse_phi(arg, state); return 0;
    case KEY_TRANSFERS: o->transfers = true; return 0;
    case KEY_CHECK: o->check = true; return 0;
    case KEY_SWEEP: o->sweep = true; return 0;
    case KEY_JSON:
        if (snprintf(o->json, sizeof o->json, "%s", arg) >= (int)sizeof o->json)
            argp_error(state, "--json: the path is too long");
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "%s is not an option, and there are no other arguments", arg);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "gemm_bench %s\n", version_text());
}

void bench_options_parse(int argc, char **argv, struct bench_options *o)
{
    static const struct argp argp = {option_table, parse_option, 0, doc, common_options, 0, 0};
    *o = (struct bench_options){.repeat = 5};
    argp_err_exit_status = EXIT_USAGE;
    argp_program_version_hook = print_version;
    argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, o);

    if (!o->types[0][0] && !o->types[0][1] && !o->types[1][0] && !o->types[1][1])
        o->types[SCALAR_FLOAT][false] = o->types[SCALAR_DOUBLE][false] = true;
    if (!o->trans[0][0] && !o->trans[0][1] && !o->trans[1][0] && !o->trans[1][1])
        o->trans[0][0] = o->trans[0][1] = o->trans[1][0] = o->trans[1][1] = true;
}
