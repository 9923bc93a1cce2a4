/* h5mat gen: make a matrix.
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

#include "error.h"
#include "h5mat.h"
#include "h5mat_grid.h"
#include "matname.h"
#include "meter.h"
#include "mix.h"
#include "quantity.h"
#include "standard_options.h"
#include "store.h"

enum pattern {
    PATTERN_RANDOM,  /* uniform in [-1, 1) */
    PATTERN_INTEGER, /* whole numbers, uniform in -8 ... 8 */
    PATTERN_ONES,
    PATTERN_IDENTITY, /* 1 where row = column */
};

struct gen {
    const char *name; /* as given */
    char dataset[MATFILE_NAME_MAX];
    struct matrix_info info; /* of what is being made: its dataset is `<path>.part` */
    enum scalar type;
    enum pattern pattern;
    uint64_t seed;
    struct matfile_layout layout;
    bool force;
    bool new_file;
    struct store *store;     /* contiguous */
    struct matfile *matfile; /* chunked */
};

enum {
    KEY_ROWS = 0x100,
    KEY_COLS,
    KEY_TYPE,
    KEY_PATTERN,
    KEY_SEED,
    KEY_CHUNK,
    KEY_GZIP,
    KEY_SHUFFLE,
};

static const struct argp_option option_table[] = {
    {"rows", KEY_ROWS, "M", 0, "rows of the matrix (needed)", 0},
    {"cols", KEY_COLS, "N", 0, "columns of the matrix (needed)", 0},
    {"type", KEY_TYPE, "d|s", 0, "double or single precision (default d)", 0},
    {"pattern", KEY_PATTERN, "random|integer|ones|identity", 0,
     "random: uniform in [-1,1) (default); integer: -8 to 8", 0},
    {"seed", KEY_SEED, "S", 0, "whole number; same seed and shape, same values (default 1)", 0},
    {"chunk", KEY_CHUNK, "RxC", 0, "store in chunks of R rows and C columns", 0},
    {"gzip", KEY_GZIP, "L", 0, "compress at level 1 to 9 (chunks of 1024x1024 if not given)", 0},
    {"shuffle", KEY_SHUFFLE, 0, 0, "shuffle bytes before compressing (chunks as with --gzip)", 0},
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

static enum pattern parse_pattern(struct argp_state *state, const char *text)
{
    static const char *const names[] = {"random", "integer", "ones", "identity"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0)
            return (enum pattern)i;
    argp_error(state, "--pattern is random, integer, ones or identity, not \"%s\"", text);
    return PATTERN_RANDOM;
}

static void parse_chunk(struct argp_state *state, const char *text, struct matfile_layout *layout)
{
    int64_t extents[2];
    if (!quantity_parse_extents(text, 2, extents))
        argp_error(state, "--chunk takes two numbers, as in 1024x1024, not \"%s\"", text);
    layout->chunk_rows = extents[0];
    layout->chunk_cols = extents[1];
}

static void parse_type(struct argp_state *state, const char *text, struct gen *g)
{
    if (strcmp(text, "d") && strcmp(text, "s"))
        argp_error(state, "--type is d or s, not \"%s\"", text);
    g->type = text[0] == 'd' ? SCALAR_DOUBLE : SCALAR_FLOAT;
    g->info.elements = text[0] == 'd' ? ELEMENT_DOUBLE : ELEMENT_FLOAT;
}

static void finish(struct argp_state *state, struct gen *g)
{
    if (!g->name)
        argp_error(state, "FILE.h5 is missing; for example: %s x.h5:/A --rows 4000 --cols 3000",
                   state->name);
    if (g->info.rows < 0 || g->info.cols < 0)
        argp_error(state, "--rows and --cols are both needed, as in --rows 4000 --cols 3000");
    if (g->info.rows > 0 && g->info.cols > INT64_MAX / 8 / g->info.rows)
        argp_error(state, "a matrix of %" PRId64 "x%" PRId64 " is too large for any file",
                   g->info.rows, g->info.cols);
    bool filtered = g->layout.gzip_level || g->layout.shuffle;
    if (filtered && g->layout.chunk_rows == 0)
        g->layout.chunk_rows = g->layout.chunk_cols = 1024;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct gen *g = state->input;
    switch (key) {
    case KEY_ROWS: g->info.rows = parse_whole(state, "rows", arg, 0, INT64_MAX / 8); return 0;
    case KEY_COLS: g->info.cols = parse_whole(state, "cols", arg, 0, INT64_MAX / 8); return 0;
    case KEY_TYPE: parse_type(state, arg, g); return 0;
    case KEY_PATTERN: g->pattern = parse_pattern(state, arg); return 0;
    case KEY_SEED: g->seed = (uint64_t)parse_whole(state, "seed", arg, 0, INT64_MAX); return 0;
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
    int rc = matname_split(g->name, "/A", g->info.file, g->dataset, err);
    if (rc)
        return rc;
    if (snprintf(g->info.dataset, sizeof g->info.dataset, "%s.part", g->dataset) >=
        (int)sizeof g->info.dataset)
        return error_add(err, EXIT_USAGE, "the dataset name %.40s... is too long", g->dataset);
    g->new_file = access(g->info.file, F_OK) != 0;
    return 0;
}

/* What is in the way is only removed on demand, and only once the new one is whole. */
static int check_free(const struct gen *g, struct error *err)
{
    enum matfile_object there, part;
    if (g->new_file)
        return 0;
    if (matfile_lookup(g->info.file, g->dataset, &there, err) ||
        matfile_lookup(g->info.file, g->info.dataset, &part, err))
        return err->code;
    if (there == MATFILE_OTHER)
        return error_add(err, EXIT_INPUT, "%s: \"%s\" is not a dataset; name another", g->info.file,
                         g->dataset);
    if (there == MATFILE_DATASET && !g->force)
        return error_add(err, EXIT_INPUT, "%s already holds \"%s\"; --force replaces it",
                         g->info.file, g->dataset);
    if (part != MATFILE_NOTHING && !g->force)
        return error_add(err, EXIT_INPUT,
                         "%s holds an unfinished \"%s\": another h5mat is at work on it, or one "
                         "was killed; --force removes it",
                         g->info.file, g->info.dataset);
    if (part != MATFILE_NOTHING)
        matfile_remove(g->info.file, g->info.dataset);
    return 0;
}

/* As many random bits as the type holds in [-1, 1), so that no value is rounded up to 1. */
static inline double unit_double(uint64_t bits)
{
    return (double)(int64_t)(bits >> 11) * 0x1p-52 - 1.0;
}

static inline float unit_float(uint64_t bits)
{
    return (float)(int32_t)(bits >> 40) * 0x1p-23f - 1.0f;
}

static inline int small_integer(uint64_t bits)
{
    return (int)((bits >> 32) * 17 >> 32) - 8;
}

static inline double value_of(enum pattern pattern, enum scalar type, uint64_t bits)
{
    switch (pattern) {
    case PATTERN_RANDOM: return type == SCALAR_DOUBLE ? unit_double(bits) : unit_float(bits);
    case PATTERN_INTEGER: return small_integer(bits);
    case PATTERN_ONES: return 1;
    case PATTERN_IDENTITY: break; /* pattern_fill sets the ones */
    }
    return 0;
}

static inline void set(enum scalar type, void *to, int64_t at, double value)
{
    if (type == SCALAR_DOUBLE)
        ((double *)to)[at] = value;
    else
        ((float *)to)[at] = (float)value;
}

/* Fill a packed block of a matrix of `cols` columns: values are functions of the pattern, the seed
 * and the element's place alone. */
static void pattern_fill(enum pattern pattern, uint64_t seed, enum scalar type, int64_t cols,
                         const struct block *block, void *to)
{
    uint64_t start = mix_bits(seed);
    for (int64_t i = 0; i < block->rows; i++) {
        int64_t row = block->row + i, at = i * block->cols;
        uint64_t index = (uint64_t)row * (uint64_t)cols + (uint64_t)block->col;
        for (int64_t j = 0; j < block->cols; j++)
            set(type, to, at + j, value_of(pattern, type, mix_number(start, index + (uint64_t)j)));
        int64_t diagonal = row - block->col;
        if (pattern == PATTERN_IDENTITY && diagonal >= 0 && diagonal < block->cols)
            set(type, to, at + diagonal, 1);
    }
}

static int make_block(void *context, int64_t index, const struct block *block, void *buffer,
                      struct error *err)
{
    (void)index;
    struct gen *g = context;
    if (stop_signal)
        return error_add(err, EXIT_RUNTIME, "stopped by signal %d; \"%s\" was not made",
                         (int)stop_signal, g->dataset);
    pattern_fill(g->pattern, g->seed, g->type, g->info.cols, block, buffer);
    return g->store ? store_write(g->store, block, buffer, err)
                    : matfile_write(g->matfile, g->type, block, buffer, err);
}

static int write_all(struct gen *g, struct error *err)
{
    int rc;
    struct grid grid =
        grid_make(g->info.rows, g->info.cols, g->info.chunk_rows, g->info.chunk_cols);
    if (g->info.by_offset)
        rc = store_open(&g->info, g->type, STORE_WRITE, STORE_AUTO, &g->store, err);
    else
        rc = matfile_open_write(&g->info, &g->matfile, err);
    if (!rc && g->store)
        rc = store_reserve(g->store, err);
    if (!rc)
        rc = grid_each(&grid, scalar_size(g->type), make_block, g, err);
    if (!rc)
        rc = g->store ? store_sync(g->store, err) : matfile_sync(g->matfile, err);
    store_close(g->store);
    matfile_close(g->matfile);
    return rc;
}

static int make_matrix(struct gen *g, struct error *err)
{
    int rc = check_free(g, err);
    if (!rc)
        rc = matfile_create(&g->info, g->new_file, &g->layout, NULL, err);
    if (rc)
        return rc;
    rc = write_all(g, err);
    if (!rc)
        rc = matfile_rename(g->info.file, g->info.dataset, g->dataset, err);
    if (rc && g->new_file)
        unlink(g->info.file);
    else if (rc)
        matfile_remove(g->info.file, g->info.dataset);
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
               "values depend on the pattern, the seed and each element's place alone.",
        .children = standard_options};
    struct gen g = {
        .type = SCALAR_DOUBLE,
        .seed = 1,
        .info = {.rows = -1, .cols = -1, .elements = ELEMENT_DOUBLE},
    };
    argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &g);

    double start = clock_now();
    catch_signals();
    int rc = name_matrix(&g, err);
    if (!rc)
        rc = make_matrix(&g, err);
    if (rc)
        return rc;
    double seconds = clock_now() - start;
    double bytes = (double)g.info.rows * (double)g.info.cols * (double)scalar_size(g.type);
    printf("%s:%s: %" PRId64 " x %" PRId64 " %s, %.0f bytes in %.3f s, %s\n", g.info.file,
           g.dataset, g.info.rows, g.info.cols, scalar_name(g.type), bytes, seconds,
           quantity_rate(bytes / seconds));
    return 0;
}
