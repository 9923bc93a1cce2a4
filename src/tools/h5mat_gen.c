/* h5mat gen: make a matrix, of a pattern or of its lower half.
 *
 * It is made under the name `<path>.part` and renamed when it is complete and durable, so that
 * nobody takes a half-written one for whole. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common_options.h"
#include "error.h"
#include "file.h"
#include "h5mat.h"
#include "h5mat_grid.h"
#include "h5mat_pattern.h"
#include "matname.h"
#include "meter.h"
#include "option_values.h"
#include "quantity.h"
#include "store.h"

struct gen {
    const char *name; /* as given */
    char dataset[DATASET_NAME_MAX];
    const struct format *format;
    struct source source; /* of what is being made: its dataset is `<path>.part` */
    struct pattern pattern;
    struct half { /* of what is made, where that is not of the pattern */
        const char *name;
        struct store *store;
        bool hermitian;
    } half;
    const char *of_genotypes; /* an option that was given and is of them alone */
    struct format_layout layout;
    bool force;
    bool new_file;
    struct format_found part; /* what had the name of what is being made, in a file that existed */
    struct store *store;      /* contiguous */
    void *opened;             /* chunked */
};

enum {
    KEY_ROWS = 0x100,
    KEY_COLS,
    KEY_TYPE,
    KEY_PATTERN,
    KEY_FREQUENCY,
    KEY_MISSING,
    KEY_SEED,
    KEY_CHUNK,
    KEY_GZIP,
    KEY_SHUFFLE,
    KEY_UNPACK,
};

enum { UNIT = 512 }; /* rows and columns of a block, at least, where its mirror is read, too */

static const struct argp_option option_table[] = {
    {"rows", KEY_ROWS, "M", 0, "rows of the matrix (needed)", 0},
    {"cols", KEY_COLS, "N", 0, "columns of the matrix (needed)", 0},
    {"type", KEY_TYPE, "TYPE", 0,
     "d or s: double or single precision (default d); z or c: complex numbers of these; int8, "
     "uint8, int16, uint16, int32 or uint32",
     0},
    {"pattern", KEY_PATTERN, "NAME", 0,
     "random: uniform in [-1,1) (default); integer: -8 to 8; ones; identity; genotype: 0, 1 or 2 "
     "minor alleles of an individual (row) at a marker (column)",
     0},
    {"frequency", KEY_FREQUENCY, "F", 0,
     "frequency of the minor allele at all markers, 0 to 0.5 (default: one for each marker, "
     "uniform in [0.05,0.5))",
     0},
    {"missing", KEY_MISSING, "P", 0, "share of genotypes that are missing, NaN (default 0)", 0},
    {"unpack", KEY_UNPACK, "HALF[:/path]", 0,
     "make all of a symmetric or Hermitian matrix, whose lower half --symmetric packed or lower "
     "has written; shape and type are its own",
     0},
    {"seed", KEY_SEED, "S", 0,
     "whole number; the same seed and shape give the same values (default 1)", 0},
    {"chunk", KEY_CHUNK, "RxC", 0, "store in chunks of R rows and C columns", 0},
    {"gzip", KEY_GZIP, "L", 0, "compress at level 1 to 9 (chunks of 1024x1024 if not given)", 0},
    {"shuffle", KEY_SHUFFLE, 0, 0, "shuffle the bytes before compression (chunks as with --gzip)",
     0},
    {"force", 'f', 0, 0, "replace an existing dataset of that name", 0},
    {0},
};

static volatile sig_atomic_t stop_signal;

static void note_signal(int signal)
{
    stop_signal = signal;
}

static int64_t parse_whole(struct argp_state *state, const char *option, const char *text,
                           int64_t least, int64_t most)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < least || value > most)
        argp_error(state, "--%s takes a whole number from %" PRId64 " to %" PRId64 ", not \"%s\"",
                   option, least, most, text);
    return value;
}

static double parse_share(struct argp_state *state, const char *option, const char *text,
                          double most)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= most))
        argp_error(state, "--%s takes a number from 0 to %g, not \"%s\"", option, most, text);
    return value;
}

static enum pattern_kind parse_pattern(struct argp_state *state, const char *text)
{
    static const char *const names[] = {"random", "integer", "ones", "identity", "genotype"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(text, names[i]) == 0)
            return (enum pattern_kind)i;
    argp_error(state, "--pattern is random, integer, ones, identity or genotype, not \"%s\"", text);
    return PATTERN_RANDOM;
}

static void parse_chunk(struct argp_state *state, const char *text, struct format_layout *layout)
{
    int64_t extents[2];
    if (!quantity_parse_extents(text, 2, extents))
        argp_error(state, "--chunk takes two numbers, as in 1024x1024, not \"%s\"", text);
    layout->chunk_rows = extents[0];
    layout->chunk_cols = extents[1];
}

static void set_type(struct argp_state *state, const char *text, struct gen *g)
{
    enum scalar type = SCALAR_INT8;
    while (type < SCALAR_INT64 && strcmp(text, scalar_name(type)))
        type++;
    if (type == SCALAR_INT64 && !type_named(text, &type, &g->source.matrix.complex))
        argp_error(state,
                   "--type is d, s, z, c, int8, uint8, int16, uint16, int32 or uint32, not \"%s\"",
                   text);
    g->pattern.type = type;
    matrix_set_type(&g->source.matrix, type);
    g->pattern.complex = g->source.matrix.complex;
    strcpy(g->source.parts[0], g->source.matrix.complex ? "r" : "");
    strcpy(g->source.parts[1], g->source.matrix.complex ? "i" : "");
}

static void finish(struct argp_state *state, struct gen *g)
{
    struct matrix *m = &g->source.matrix;
    if (!g->name)
        argp_error(state, "FILE.h5 is missing; for example: %s x.h5:/A --rows 4000 --cols 3000",
                   state->name);
    if (!g->half.name && (m->rows < 0 || m->cols < 0))
        argp_error(state, "--rows and --cols are both needed, as in --rows 4000 --cols 3000");
    if (m->rows > 0 && m->cols > INT64_MAX / (m->complex ? 16 : 8) / m->rows)
        argp_error(state, "a matrix of %" PRId64 "x%" PRId64 " is too large for any file", m->rows,
                   m->cols);
    if (g->pattern.kind == PATTERN_GENOTYPE && m->complex)
        argp_error(state, "--pattern genotype is of real matrices: give --type d or s");
    if (m->complex)
        m->cols *= 2; /* as struct matrix counts */
    if (g->pattern.kind != PATTERN_GENOTYPE && g->of_genotypes)
        argp_error(state, "--%s goes with --pattern genotype only", g->of_genotypes);
    if (g->pattern.missing > 0 && scalar_is_integer(g->pattern.type))
        argp_error(state, "--missing makes NaN, which is no %s; give --type d or s",
                   scalar_name(g->pattern.type));
    bool filtered = g->layout.gzip_level || g->layout.shuffle;
    if (filtered && g->layout.chunk_rows == 0)
        g->layout.chunk_rows = g->layout.chunk_cols = 1024;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct gen *g = state->input;
    switch (key) {
    case KEY_ROWS:
        g->source.matrix.rows = parse_whole(state, "rows", arg, 0, INT64_MAX / 8);
        return 0;
    case KEY_COLS:
        g->source.matrix.cols = parse_whole(state, "cols", arg, 0, INT64_MAX / 8);
        return 0;
    case KEY_TYPE: set_type(state, arg, g); return 0;
    case KEY_PATTERN: g->pattern.kind = parse_pattern(state, arg); return 0;
    case KEY_FREQUENCY:
        g->pattern.frequency = parse_share(state, g->of_genotypes = "frequency", arg, 0.5);
        return 0;
    case KEY_MISSING:
        g->pattern.missing = parse_share(state, g->of_genotypes = "missing", arg, 1);
        return 0;
    case KEY_SEED:
        g->pattern.seed = (uint64_t)parse_whole(state, "seed", arg, 0, INT64_MAX);
        return 0;
    case KEY_UNPACK: g->half.name = arg; return 0;
    case KEY_CHUNK: parse_chunk(state, arg, &g->layout); return 0;
    case KEY_GZIP: g->layout.gzip_level = (int)parse_whole(state, "gzip", arg, 1, 9); return 0;
    case KEY_SHUFFLE: g->layout.shuffle = true; return 0;
    case 'f': g->force = true; return 0;
    case ARGP_KEY_ARG:
        if (g->name)
            argp_error(state, "only one FILE.h5 can be given; %s is a second one", arg);
        g->name = arg;
        return 0;
    case ARGP_KEY_END: finish(state, g); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int name_matrix(struct gen *g, struct error *err)
{
    struct stat status;
    int rc = matname_split(g->name, "/A", g->source.file, g->dataset, err);
    if (rc)
        return rc;
    if (snprintf(g->source.dataset, sizeof g->source.dataset, "%s.part", g->dataset) >=
        (int)sizeof g->source.dataset)
        return error_add(err, EXIT_USAGE, "the dataset name %.40s... is too long", g->dataset);
    g->new_file = !file_leads(g->source.file, &status, err);
    g->format = format_of(g->source.file);
    const char *end = strrchr(g->source.file, '.');
    if (!g->format->rename && !err->code)
        return error_add(err, EXIT_USAGE,
                         "%s: what h5mat writes is HDF5 and not %s: name it %.*s.h5",
                         g->source.file, end, (int)(end - g->source.file), g->source.file);
    if (g->new_file && !err->code)
        format_check_new(g->source.file, g->dataset, err);
    return err->code;
}

/* What is in the way is only removed on demand, and only once the new one is whole. */
static int check_free(struct gen *g, struct error *err)
{
    struct format_found there;
    const char *file = g->source.file, *part = g->source.dataset;
    if (g->new_file)
        return 0;
    if (format_lookup(file, g->dataset, &there, err) || format_lookup(file, part, &g->part, err))
        return err->code;
    if (there.object == FORMAT_OTHER)
        return error_add(err, EXIT_INPUT,
                         "%s: \"%s\" is not a dataset, or its path leads through one; name another",
                         file, g->dataset);
    if (there.object == FORMAT_DATASET && !g->force)
        return error_add(err, EXIT_INPUT, "%s already holds \"%s\"; --force replaces it", file,
                         g->dataset);
    if (g->part.object != FORMAT_NOTHING && !g->force)
        return error_add(err, EXIT_INPUT,
                         "%s holds an unfinished \"%s\": another h5mat is writing it, or was "
                         "killed; --force removes it",
                         file, part);
    if (g->part.object == FORMAT_NOTHING)
        return 0;
    g->format->remove(file, part);
    return format_lookup(file, part, &g->part, err);
}

/* Describe what is to be made. */
static int open_half(struct gen *g, struct error *err)
{
    char file[PATH_MAX], dataset[DATASET_NAME_MAX];
    struct format_value values[] = {{.name = FORMAT_TRIANGLE}, {.name = "symmetry"}, {0}};
    struct source half;
    const struct matrix *m = &half.matrix;
    struct matrix *made = &g->source.matrix;
    if (matname_split(g->half.name, "/C", file, dataset, err) ||
        format_describe(file, dataset, &half, err) || source_check_finished(&half, err) ||
        format_get_attributes(&half, values, err))
        return err->code;
    if (!values[0].found || m->rows != matrix_cols(m) || m->elements == SCALAR_OTHER)
        return error_add(err, EXIT_INPUT,
                         "%s:%s is no lower half that dgemm_ooc has made: its attribute "
                         "\"" FORMAT_TRIANGLE "\" would say so",
                         half.file, half.dataset);
    g->half.hermitian = values[1].found && strcmp(values[1].text, "Hermitian") == 0;
    *made = (struct matrix){.rows = m->rows, .cols = m->cols, .complex = m->complex};
    matrix_set_type(made, g->pattern.type = m->elements);
    memcpy(g->source.parts, half.parts, sizeof half.parts);
    return store_open(&half, m->elements, STORE_READ, STORE_AUTO, &g->half.store, err);
}

/* What is above the diagonal is read from below it, into the buffer's second half. */
static int unpack_block(const struct gen *g, const struct block *b, char *to, struct error *err)
{
    const struct matrix *m = &g->source.matrix;
    const int64_t width = m->complex ? 2 : 1, col = b->col / width, cols = b->cols / width;
    const struct block turned = {col, b->row * width, cols, b->rows * width};
    const size_t size = (size_t)width * scalar_size(m->elements);
    char *mirror = to + (size_t)(b->rows * cols) * size;
    if (store_read(g->half.store, b, to, err) || col + cols <= b->row + 1 ||
        store_read(g->half.store, &turned, mirror, err))
        return err->code;
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = max_i64(b->row + i + 1 - col, 0); j < cols; j++) {
            char *element = to + (size_t)(i * cols + j) * size;
            memcpy(element, mirror + (size_t)(j * b->rows + i) * size, size);
            if (g->half.hermitian) /* the sign of the imaginary part: the last byte has it */
                element[size - 1] ^= (char)0x80;
        }
    return 0;
}

static int make_block(void *context, int64_t index, const struct block *block, void *buffer,
                      struct error *err)
{
    (void)index;
    struct gen *g = context;
    if (stop_signal)
        return error_add(err, EXIT_RUNTIME, "stopped by signal %d; \"%s\" was not made",
                         (int)stop_signal, g->dataset);
    if (!g->half.name)
        pattern_fill(&g->pattern, g->source.matrix.cols, block, buffer);
    else if (unpack_block(g, block, buffer, err))
        return err->code;
    return g->store ? store_write(g->store, block, buffer, err)
                    : g->format->write(g->opened, g->pattern.type, block, buffer, err);
}

static int write_all(struct gen *g, struct error *err)
{
    const struct matrix *m = &g->source.matrix;
    int rc;
    const int64_t unit = g->half.name ? UNIT : 1;
    struct grid grid = grid_make(m->rows, m->cols, round_up(unit, max_i64(m->chunk_rows, 1)),
                                 round_up(unit, max_i64(m->chunk_cols, 1)));
    if (m->by_offset)
        rc = store_open(&g->source, g->pattern.type, STORE_WRITE, STORE_AUTO, &g->store, err);
    else
        rc = g->format->open(&g->source, true, &g->opened, err);
    if (!rc && g->store)
        rc = store_reserve(g->store, err);
    if (!rc)
        rc = grid_each(&grid, (g->half.name ? 2 : 1) * scalar_size(g->pattern.type), make_block, g,
                       err);
    if (!rc)
        rc = g->store ? store_sync(g->store, err) : g->format->sync(g->opened, err);
    store_close(g->store);
    g->format->close(g->opened);
    return rc;
}

/* Others may have added to the file meanwhile. */
static void retract(const struct gen *g, struct error *err)
{
    struct error why = {0};
    if (g->format->retract(&g->source, g->part.missing, &why) == 0)
        return;
    error_append(err, &why);
    error_add(err, err->code,
              "the unfinished \"%s\" stays there; --force, the next time, removes it",
              g->source.dataset);
}

static int make_matrix(struct gen *g, struct error *err)
{
    int rc = check_free(g, err);
    if (!rc)
        rc = g->format->create(&g->source, g->new_file, &g->layout, NULL, err);
    if (rc)
        return rc;
    rc = write_all(g, err);
    if (!rc)
        rc = g->format->rename(&g->source, g->dataset, g->force, err);
    if (rc)
        retract(g, err);
    return rc;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

int h5mat_gen(int argc, char **argv, struct error *err)
{
    static const struct argp argp = {
        .options = option_table,
        .parser = parse_option,
        .args_doc = "FILE.h5[:/path]",
        .doc = "Make a matrix (/A where no path is given) in a new or an existing file.  Its "
               "values depend only on the pattern, the seed, the number of columns, the type and "
               "the row and column of each element.",
        .children = common_options};
    struct gen g = {
        .pattern = {.type = SCALAR_DOUBLE, .seed = 1, .frequency = PATTERN_OWN_FREQUENCY},
        .source.matrix = {.rows = -1, .cols = -1, .elements = SCALAR_DOUBLE},
    };
    argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &g);

    double start = clock_now();
    catch_signals();
    int rc = g.half.name ? open_half(&g, err) : 0;
    if (!rc)
        rc = name_matrix(&g, err);
    if (!rc)
        rc = make_matrix(&g, err);
    store_close(g.half.store);
    if (rc)
        return rc;
    double seconds = clock_now() - start;
    double bytes = (double)g.source.matrix.rows * (double)g.source.matrix.cols *
                   (double)scalar_size(g.pattern.type);
    printf("%s:%s: %" PRId64 " x %" PRId64 " %s%s, %.0f bytes in %.3f s, %s\n", g.source.file,
           g.dataset, g.source.matrix.rows, matrix_cols(&g.source.matrix),
           g.source.matrix.complex ? "complex " : "", scalar_name(g.pattern.type), bytes, seconds,
           quantity_rate(bytes / seconds));
    return 0;
}
