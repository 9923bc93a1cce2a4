#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "draw.h"
#include "error.h"
#include "file.h"
#include "leftovers.h"
#include "lock.h"
#include "output_check.h"
#include "problem_scaling.h"

bool output_part_exists(const struct file_names *names, struct error *err)
{
    struct stat status;
    if (!file_exists(names->part, &status, err))
        return false;
    if (access(names->part, R_OK | W_OK))
        error_add(err, EXIT_INPUT, "cannot read and write %s, the checkpoint of earlier runs: %s",
                  names->part, strerror(errno));
    return true;
}

enum { VECTORS_MOST = 4 };

/* NAME_mean and NAME_deviation, of A, and NAME_mean_b and NAME_deviation_b, where B has its own:
 * beside C of that name, which output_check has found to be short enough.  Returns how many. */
static int describe_vectors(const struct source *c, const struct statistics *statistics,
                            const struct problem *p, struct format_vector vectors[VECTORS_MOST])
{
    const struct scaling scaling = problem_seen_scaling(p);
    const struct {
        enum operand operand;
        const char *suffix, *what;
        const double *values;
    } lines[] = {
        {OPERAND_A, "_mean", "means", statistics->mean},
        {OPERAND_A, "_deviation", "standard deviations (divisor n - 1)", statistics->deviation},
        {OPERAND_B, "_mean_b", "means", statistics->mean},
        {OPERAND_B, OUTPUT_DEVIATION_B, "standard deviations (divisor n - 1)",
         statistics->deviation}};
    const int count = scaling.crossed ? VECTORS_MOST : VECTORS_MOST / 2;
    for (int i = 0; i < count; i++) {
        struct format_vector *vector = &vectors[i];
        const enum operand operand = lines[i].operand;
        const int64_t first = scaling_first(p, operand);
        *vector = (struct format_vector){.values = lines[i].values + first,
                                         .count = scaling_end(p, operand) - first};
        snprintf(vector->statistic, sizeof vector->statistic, "%s of the %s of %c", lines[i].what,
                 scaling.axis[operand] == AXIS_ROWS ? "rows" : "columns", "AB"[operand]);
        snprintf(vector->dataset, sizeof vector->dataset, "%s%s", c->dataset, lines[i].suffix);
    }
    return count;
}

/* A file that is one matrix holds C alone. */
static bool has_vectors(const struct source *c)
{
    return format_of_matrix(&c->matrix)->add_vector;
}

/* The file grows. */
static int add_statistics(struct output *output, const struct problem *p, struct error *err)
{
    const struct source *c = &output->source;
    struct format_vector vectors[VECTORS_MOST];
    struct source now;
    if (!has_vectors(c))
        return 0;
    const int count = describe_vectors(c, output->statistics, p, vectors);
    for (int i = 0; i < count; i++)
        if (format_of_matrix(&c->matrix)->add_vector(c, &vectors[i], err))
            return err->code;
    if (format_describe(c->file, c->dataset, &now, err) == 0)
        output->source = now;
    return err->code;
}

int output_compare_statistics(const struct source *c, const struct statistics *statistics,
                              const struct problem *p, bool may_be_alone, struct error *err)
{
    struct format_vector vectors[VECTORS_MOST];
    struct format_found found = {.object = FORMAT_DATASET};
    struct error ignored = {0};
    if (!problem_scales(p) || !has_vectors(c))
        return 0;
    const int count = describe_vectors(c, statistics, p, vectors);
    for (int i = 0; i < count; i++) {
        if (may_be_alone)
            format_lookup(c->file, vectors[i].dataset, &found, &ignored);
        if (found.object != FORMAT_NOTHING)
            format_of_matrix(&c->matrix)->compare_vector(c, &vectors[i], err);
    }
    return err->code;
}

/* The dataset of op(B) of a normal product, beside C. */
static void name_beside(const struct source *c, struct source *beside)
{
    snprintf(beside->file, sizeof beside->file, "%s", c->file);
    snprintf(beside->dataset, sizeof beside->dataset, "%.*s%s",
             (int)(DATASET_NAME_MAX - sizeof OUTPUT_INNER), c->dataset, OUTPUT_INNER);
}

int output_describe_inner(const struct source *c, const struct problem *p, struct source *inner,
                          struct error *err)
{
    const struct problem of = problem_inner(p);
    struct source named;
    name_beside(c, &named);
    if (format_describe(named.file, named.dataset, inner, err) == 0 &&
        (inner->matrix.rows != of.m || inner->matrix.cols != of.n || !inner->matrix.by_offset ||
         !matrix_holds(&inner->matrix, p->type)))
        error_add(err, EXIT_INPUT, "%s:%s is not the product that C was made of", inner->file,
                  inner->dataset);
    inner->sign = c->sign;
    return err->code;
}

static int add_inner(struct output *output, const struct problem *p, struct error *err)
{
    static const struct format_attribute attributes[] = {
        {.name = FORMAT_STATISTIC, .text = "op(A) B, which C is op(A)^T times"}, {.name = NULL}};
    const struct format_layout layout = {0};
    const struct problem of = problem_inner(p);
    struct source *c = &output->source, *inner = &output->beside;
    struct source now;
    *inner = (struct source){.matrix = {.rows = of.m, .cols = of.n}};
    matrix_set_type(&inner->matrix, p->type);
    name_beside(c, inner);
    if (format_of(c->file)->create(inner, false, &layout, attributes, err) == 0 &&
        format_describe(c->file, c->dataset, &now, err) == 0)
        *c = now; /* the file has grown */
    return err->code;
}

/* Name the parts of C's elements as A does, or B where A is real. */
static void name_parts(const struct problem *p, struct source *c)
{
    static const char h5py[2][PART_NAME_MAX] = {"r", "i"};
    const struct source *a = &p->sources[OPERAND_A], *b = &p->sources[OPERAND_B];
    memcpy(c->parts, a->parts[0][0] ? a->parts : b->parts[0][0] ? b->parts : h5py, sizeof c->parts);
}

static int create_part(struct output *output, const struct options *options,
                       const struct problem *p, const struct output_attributes *attributes,
                       struct error *err)
{
    struct format_layout layout = {0};
    struct source *source = &output->source;
    *source = (struct source){.matrix = problem_output(p)};
    if (p->complex)
        name_parts(p, source);
    snprintf(source->file, sizeof source->file, "%s", output->names.part);
    snprintf(source->dataset, sizeof source->dataset, "%s", options->output.dataset);
    for (int i = 0; i < FILE_NAMES_LARGE;
         i++) /* of a run that was killed, as output_check has seen */
        unlink(output->names.beside[i]);
    leftovers_add(output->names.part, -1); /* a library may abort while it makes it */
    if (format_of(output->names.part)->create(source, true, &layout, attributes->list, err)) {
        leftovers_forget(output->names.part);
        return err->code;
    }
    if ((output->statistics && add_statistics(output, p, err)) ||
        (p->normal && add_inner(output, p, err)))
        unlink(output->names.part);
    return err->code;
}

/* Give what an earlier run has left its temporary name again, which has been given the output's. */
static int take_back(const struct output *output, struct error *err)
{
    const char *file = output->names.output, *part = output->names.part;
    int number = file_give_name(file, part, false);
    if (number)
        return error_add(err, EXIT_INPUT, "cannot rename the unfinished %s back to %s: %s", file,
                         part, strerror(number));
    file_sync_name(part);
    return 0;
}

static int find_part(struct output *output, const struct options *options, const struct problem *p,
                     const struct output_attributes *attributes, struct error *err)
{
    struct source *source = &output->source;
    const struct matrix *matrix = &source->matrix;
    const char *part = output->names.part;
    struct stat status;
    struct error why = {0};
    if (output->left == LEFT_MISPLACED && take_back(output, err))
        return err->code;
    if (format_describe(part, options->output.dataset, source, &why))
        return error_add(err, EXIT_INPUT, "%s; give --restart never to start from the beginning",
                         why.text);
    const bool there = file_exists(part, &status, err);
    if (err->code)
        return err->code;
    if (!there || file_why_foreign(part, &status) || strcmp(source->file, part) != 0 ||
        matrix->rows != p->m || matrix->cols != p->n || matrix->complex != p->complex ||
        matrix->packed != (p->lower == LOWER_PACKED) || !matrix->by_offset ||
        !matrix_holds(matrix, problem_written(p)) || !output_attributes_match(source, attributes))
        return error_add(err, EXIT_INPUT,
                         "%s is damaged, or differs from its journal; give --restart never to "
                         "start from the beginning",
                         part);
    if (p->normal && output_describe_inner(source, p, &output->beside, err))
        return err->code;
    /* Of a run that could not give it the output's name: what is damaged is written anew. */
    return source->unfinished ? 0 : format_replace_text(source, FORMAT_MARK, FORMAT_MARK_NO, err);
}

/* Give the open file the mode and group of the file that it is to replace, which may be a private
 * one; `also`: bits that it needs meanwhile. */
static int take_mode(int descriptor, const char *file, mode_t also, struct error *err)
{
    struct stat status;
    if (!file_exists(file, &status, err) || !S_ISREG(status.st_mode))
        return err->code;
    mode_t mode = (status.st_mode & 07777) | also;
    if (fchown(descriptor, (uid_t)-1, status.st_gid)) /* another group has no right to it */
        mode &= ~(mode_t)S_IRWXG;
    fchmod(descriptor, mode);
    return 0;
}

void output_leave(struct output *output)
{
    if (output->lock >= 0)
        close(output->lock);
    output->lock = -1;
}

/* Register what a run that ends before its first save removes again. */
static void register_leftovers(const struct output *output)
{
    leftovers_add(output->names.part, output->lock);
    for (int i = 0; i < 2; i++)
        leftovers_add(output->names.sums[i], -1);
}

int output_create(struct output *output, const struct options *options, const struct problem *p,
                  const struct output_attributes *attributes, bool resumed, struct error *err)
{
    const char *file = output->names.output, *part = output->names.part;
    struct stat status;
    bool exists = file_exists(file, &status, err);
    if (err->code)
        return err->code;
    if (exists && !options->force &&
        output->left != LEFT_MISPLACED) /* it has appeared since output_check */
        return output_complain_exists(file, false, err);
    bool replaces = exists && S_ISREG(status.st_mode);
    /* A private file's successor is private from its first moment. */
    mode_t mask = replaces ? umask(S_IRWXG | S_IRWXO) : 0;
    int code = resumed ? find_part(output, options, p, attributes, err)
                       : create_part(output, options, p, attributes, err);
    if (replaces)
        umask(mask);
    if (code)
        return code;
    output->lock = open(part, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (output->lock < 0 || lock_file(output->lock, LOCK_EX) == LOCK_BUSY) {
        error_add(err, EXIT_INPUT, "cannot take %s for this run: %s", part, strerror(errno));
        if (output->lock < 0 && !resumed)
            unlink(part);
        leftovers_forget(part); /* which is another run's, where it has a lock */
        output_leave(output);
        return err->code;
    }
    if (!resumed)
        register_leftovers(output);
    return take_mode(output->lock, file, S_IRUSR | S_IWUSR, err);
}

static bool is_ours(const struct output *output)
{
    return lock_is_held() && file_has_name(output->lock, output->names.part);
}

static int check_ours(const struct output *output, struct error *err)
{
    struct stat status;
    if (!file_exists(output->names.part, &status, err) && err->code)
        return err->code;
    if (is_ours(output))
        return 0;
    return error_add(err, EXIT_RUNTIME,
                     "%s does not belong to this run any more: another run has taken it",
                     output->names.part);
}

/* Lend the part file's lock to the library, which takes it and gives it back. */
static int lend(const struct output *output, struct error *err)
{
    if (check_ours(output, err) == 0)
        flock(output->lock, LOCK_UN);
    return err->code;
}

static int lock_again(const struct output *output, struct error *err)
{
    if (!err->code && lock_file(output->lock, LOCK_EX) == LOCK_BUSY)
        error_add(err, EXIT_RUNTIME, "another run took %s", output->names.part);
    return err->code;
}

static int sign(struct source *source, struct error *err)
{
    struct file_sign *s = &source->sign;
    snprintf(s->text, sizeof s->text, "%016" PRIx64, draw_random());
    if (format_replace_text(source, OUTPUT_SIGN, s->text, err))
        return err->code;
    return source_find_sign(source, s, err);
}

int output_sign(struct output *output, struct error *err)
{
    if (lend(output, err) == 0)
        sign(&output->source, err);
    output->beside.sign = output->source.sign;
    return lock_again(output, err);
}

int output_fill_statistics(const struct output *output, const struct problem *p, struct error *err)
{
    const struct source *c = &output->source;
    struct format_vector vectors[VECTORS_MOST];
    if (!output->statistics || !scaling_shifts(p) || !has_vectors(c) || lend(output, err))
        return err->code;
    const int count = describe_vectors(c, output->statistics, p, vectors);
    for (int i = 0; i < count && !err->code; i++)
        format_of_matrix(&c->matrix)->fill_vector(c, &vectors[i], err);
    return lock_again(output, err);
}

int output_record(const struct output *output, uint64_t checksum, struct error *err)
{
    if (lend(output, err) == 0)
        output_attributes_record(&output->source, checksum, err);
    return lock_again(output, err);
}

int output_compare_part(const struct output *output, const struct problem *p, struct error *err)
{
    if (lend(output, err) == 0)
        output_compare_statistics(&output->source, output->statistics, p, false, err);
    return lock_again(output, err);
}

int output_complete(const struct output *output, struct error *err)
{
    if (check_ours(output, err) == 0 && fsync(output->lock))
        error_add(err, error_of_disk(errno, EXIT_RUNTIME), "cannot sync %s to disk: %s",
                  output->names.part, error_disk_text(errno));
    if (!err->code && lend(output, err) == 0 &&
        format_replace_text(&output->source, OUTPUT_SIGN, OUTPUT_UNSIGNED, err) == 0)
        format_replace_text(&output->source, FORMAT_MARK, FORMAT_MARK_YES, err);
    return lock_again(output, err);
}

int output_publish(struct output *output, const struct options *options, struct error *err)
{
    const char *file = output->names.output, *part = output->names.part;
    const char *again = options->saving.restart == RESTART_NEVER
                            ? "the same command without --restart never"
                            : "the same command, given again,";
    if (options->force && output_check_replaced(options, err))
        return error_add(err, EXIT_INPUT, "C is complete in %s; %s renames it", part, again);
    if (options->force && take_mode(output->lock, file, 0, err))
        return err->code;
    int number = file_give_name(part, file, options->force);
    if (number == EEXIST)
        return error_add(err, EXIT_INPUT,
                         "the output %s has appeared during the run; C is complete in %s; %s "
                         "renames it once that file is removed, or with --force if it holds only C",
                         file, part, again);
    if (number)
        return error_add(err, error_of_disk(number, EXIT_RUNTIME),
                         "cannot rename %s to %s: %s; C is complete in it; %s renames it", part,
                         file, error_disk_text(number), again);
    leftovers_keep();
    file_sync_name(file);
    output_leave(output);
    return 0;
}

void output_drop(struct output *output)
{
    leftovers_remove();
    leftovers_keep();
    if (output->lock >= 0 && is_ours(output))
        unlink(output->names.part);
    output_leave(output);
}
