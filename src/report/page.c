#include "page.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_file.h"
#include "error.h"
#include "quantity.h"

enum {
    LANES = STAGE_COUNT * TIMELINE_BINS,
    ROWS_MAX = 32,     /* of the timeline: ranks, or groups of equally many of them */
    PLACES_MAX = 4096, /* ranks whose place the page knows */
    FULL = 1000,       /* of a bin: busy all the time */
};

/* page.html as the build has assembled it, with a null character at its end. */
extern const unsigned char page_template[];

/* What all ranks did, on rank 0. */
struct course {
    const struct tile_map *map;
    int64_t cell_width; /* numbers of an element of C, of which the tiles have columns */
    int ranks, rows;
    int first, bins; /* of the timeline: those of the run */
    double width_s;  /* of each */
    double *busy_s;  /* of all ranks of a row; [rows][STAGE_COUNT][TIMELINE_BINS] */
    double *amount;  /* of all ranks; [STAGE_COUNT][TIMELINE_BINS] */
};

/* Make the bins of all ranks equally wide, so that they reach to the end of the run.  That end, in
 * seconds. */
static double align(const struct comm *comm, struct timeline *t, double end)
{
    double most[] = {end - t->start, t->width};
    comm_most_vector(comm, most, 2);
    timeline_widen(t, most[1]);
    while (most[0] >= TIMELINE_BINS * t->width)
        timeline_widen(t, 2 * t->width);
    return most[0];
}

/* The tiles of each cell may be several ranks'. */
static void gather_cells(const struct comm *comm, struct tile_map *map)
{
    double ratios[CELLS_MAX], not_finite[CELLS_MAX];
    for (int i = 0; i < map->count; i++) {
        ratios[i] = map->cells[i].ratio;
        not_finite[i] = map->cells[i].not_finite;
    }
    comm_most_vector(comm, ratios, map->count);
    comm_sum_vector(comm, not_finite, map->count);
    for (int i = 0; i < map->count; i++) {
        map->cells[i].ratio = ratios[i];
        map->cells[i].not_finite = not_finite[i];
    }
}

/* Add up what the ranks of each row did, and all ranks. */
static void gather_bins(const struct timeline *t, const struct comm *comm, struct course *c)
{
    int64_t row = (int64_t)comm->rank * c->rows / comm->size;
    memcpy(c->busy_s + row * LANES, t->busy_s, sizeof t->busy_s);
    memcpy(c->amount, t->amount, sizeof t->amount);
    comm_sum_vector(comm, c->busy_s, (int64_t)c->rows * LANES);
    comm_sum_vector(comm, c->amount, LANES);
}

static const double *lane_of(const struct course *c, int row, int stage)
{
    return c->busy_s + (row * STAGE_COUNT + stage) * TIMELINE_BINS;
}

/* The first bin in which anything was done, not behind the last one. */
static int first_bin(const struct course *c, int last)
{
    int first = last;
    for (int row = 0; row < c->rows; row++)
        for (int stage = 0; stage < STAGE_COUNT; stage++)
            for (int i = 0; i < first; i++)
                if (lane_of(c, row, stage)[i] > 0)
                    first = i;
    return first;
}

static int row_begin(const struct course *c, int row)
{
    return (int)ceil_div((int64_t)row * c->ranks, c->rows);
}

/* How busy the row's ranks were in each bin, in thousandths.  Those of a stage that did anything
 * are 1 at least. */
static json_t *shares_json(const struct course *c, const double *lane, double whole_s)
{
    json_t *shares = json_array();
    for (int i = c->first; i < c->first + c->bins; i++) {
        double share = fmin(FULL, round(FULL * lane[i] / whole_s));
        json_array_append_new(shares, json_integer(lane[i] > 0 ? (int)fmax(1, share) : 0));
    }
    return shares;
}

/* Stages that did nothing are left out. */
static json_t *row_json(const struct course *c, int row)
{
    int ranks = row_begin(c, row + 1) - row_begin(c, row);
    json_t *stages = json_object();
    for (int stage = 0; stage < STAGE_COUNT; stage++) {
        const double *lane = lane_of(c, row, stage);
        double busy_s = 0;
        for (int i = 0; i < TIMELINE_BINS; i++)
            busy_s += lane[i];
        if (busy_s > 0)
            json_object_set_new(stages, report_stages[stage],
                                json_pack("{s:f, s:o}", "busy_s", busy_s / ranks, "shares",
                                          shares_json(c, lane, ranks * c->width_s)));
    }
    return json_pack("{s:i, s:i, s:o}", "rank", row_begin(c, row), "ranks", ranks, "stages",
                     stages);
}

static json_t *amounts_json(const struct course *c)
{
    static const enum stage stages[] = {STAGE_READ, STAGE_GEMM, STAGE_WRITE};
    json_t *amounts = json_object();
    for (int i = 0; i < 3; i++) {
        const double *amount = c->amount + (int)stages[i] * TIMELINE_BINS;
        json_t *values = json_array();
        for (int bin = c->first; bin < c->first + c->bins; bin++)
            json_array_append_new(values, json_real(amount[bin]));
        json_object_set_new(amounts, report_stages[stages[i]], values);
    }
    return amounts;
}

/* Each cell as row, column, rows, columns, rank, residual (null: not checked), elements that are
 * not finite. */
static json_t *tiles_json(const struct tile_map *map, int64_t width)
{
    json_t *cells = json_array();
    for (int i = 0; i < map->count; i++) {
        const struct cell *cell = &map->cells[i];
        const struct block *b = &cell->block;
        json_t *residual =
            cell->ratio >= 0 && isfinite(cell->ratio) ? json_real(cell->ratio) : json_null();
        json_array_append_new(cells, json_pack("[I, I, I, I, i, o, I]", (json_int_t)b->row,
                                               (json_int_t)(b->col / width), (json_int_t)b->rows,
                                               (json_int_t)(b->cols / width), cell->rank, residual,
                                               (json_int_t)cell->not_finite));
    }
    return json_pack("{s:I, s:o}", "merged", (json_int_t)map->merged, "cells", cells);
}

static json_t *course_json(const struct course *c)
{
    json_t *rows = json_array();
    for (int row = 0; row < c->rows; row++)
        json_array_append_new(rows, row_json(c, row));
    return json_pack("{s:f, s:i, s:o, s:o, s:o}", "width_s", c->width_s, "bins", c->bins, "rows",
                     rows, "amounts", amounts_json(c), "tiles", tiles_json(c->map, c->cell_width));
}

/* JSON has '<' in strings alone, where it can be escaped: no text of a user's ends the script that
 * the JSON is in. */
static int embed(const char *json, size_t size, void *file)
{
    for (const char *c = json; c < json + size; c++)
        if (*c == '<')
            fputs("\\u003c", file);
        else
            fputc(*c, file);
    return ferror((FILE *)file) ? -1 : 0;
}

/* The template, with each JSON value in place of its name. */
static void fill(FILE *file, json_t *report, json_t *course, const char *path, struct error *err)
{
    const struct {
        const char *name;
        json_t *json;
        size_t flags;
    } values[] = {{"@REPORT@", report, JSON_INDENT(1)},
                  {"@COURSE@", course, JSON_COMPACT | JSON_REAL_PRECISION(7)}};
    const char *rest = (const char *)page_template;
    bool failed = !report || !course;
    for (int i = 0; i < 2 && !failed; i++) {
        const char *at = strstr(rest, values[i].name);
        fwrite(rest, 1, (size_t)(at - rest), file);
        failed = json_dump_callback(values[i].json, embed, file,
                                    values[i].flags | JSON_ENSURE_ASCII | JSON_ENCODE_ANY) != 0;
        rest = at + strlen(values[i].name);
    }
    fputs(rest, file);
    if (failed && !ferror(file))
        error_add(err, EXIT_RESOURCES, "no host memory for the page %s", path);
}

/* Takes both values.  However many ranks there are, the page stays one that a browser can show. */
static int write_file(json_t *report, json_t *course, const char *path, struct error *err)
{
    json_t *places = json_object_get(report, "ranks");
    while (json_array_size(places) > PLACES_MAX)
        json_array_remove(places, json_array_size(places) - 1);
    struct atomic_file file;
    if (atomic_file_open(&file, path, "page", err))
        fill(file.to, report, course, path, err);
    atomic_file_close(&file, err);
    json_decref(report);
    json_decref(course);
    return err->code;
}

int page_write(struct page *page, const struct account *account, struct comm *comm,
               const char *path, struct error *err)
{
    struct timeline *t = &page->timeline;
    struct course course = {.map = &page->map,
                            .cell_width = problem_width(account->problem),
                            .ranks = comm->size,
                            .rows = (int)min_i64(comm->size, ROWS_MAX)};
    double *bins = calloc((size_t)(course.rows + 1) * LANES, sizeof *bins);
    if (!bins)
        error_add(err, EXIT_RESOURCES, "no host memory for the page; C is complete");
    if (comm_agree(comm, err) == 0) {
        double end = align(comm, t, page->end);
        course.amount = bins;
        course.busy_s = bins + LANES;
        gather_bins(t, comm, &course);
        gather_cells(comm, &page->map);
        course.width_s = t->width;
        int last = (int)(end / t->width);
        course.first = first_bin(&course, last);
        course.bins = last + 1 - course.first;
        if (comm->rank == 0)
            write_file(report_json(account), course_json(&course), path, err);
    }
    free(bins);
    return err->code;
}

int page_write_saved(const char *report, const char *path, struct error *err)
{
    json_error_t why;
    json_t *root = json_load_file(report, JSON_REJECT_DUPLICATES, &why);
    json_int_t schema = json_integer_value(json_object_get(root, "schema"));
    if (!root && why.line < 0)
        error_add(err, EXIT_INPUT, "cannot read the report: %s; give a file that --report wrote",
                  why.text);
    else if (!root)
        error_add(err, EXIT_INPUT,
                  "cannot read the report %s: not JSON: %s (line %d); give a file that --report "
                  "wrote",
                  report, why.text, why.line);
    else if (schema != REPORT_SCHEMA)
        error_add(err, EXIT_INPUT, "%s is no report of this version, which has \"schema\": %d",
                  report, REPORT_SCHEMA);
    else
        return write_file(root, json_null(), path, err);
    json_decref(root);
    return err->code;
}
