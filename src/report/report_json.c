/* The report as JSON.  dgemm_ooc(1) lists its keys; one that changes its meaning changes the
 * schema. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "atomic_file.h"
#include "error.h"
#include "integer_problem.h"
#include "machine.h"
#include "options.h"
#include "plan_print.h"
#include "problem_scaling.h"
#include "report.h"
#include "version.h"

const char *const report_stages[] = {"read", "cache", "network", "in",
                                     "gemm", "check", "out",     "write"};

static json_t *stages_json(const struct report *r)
{
    json_t *stages = json_object();
    for (int i = 0; i < STAGE_COUNT; i++) {
        const struct stage_report *s = &r->stages[i];
        bool flops = i == STAGE_GEMM;
        json_t *stage = json_pack("{s:f, s:f, s:f, s:f}", "busy_min_s", s->busy_s[0], "busy_avg_s",
                                  s->busy_s[1], "busy_max_s", s->busy_s[2],
                                  flops ? "flops" : "bytes", s->amount);
        if (report_is_planned((enum stage)i))
            json_object_update_new(
                stage, json_pack("{s:f, s:f}", "planned_busy_s", r->planned.busy_s[i],
                                 flops ? "planned_flops" : "planned_bytes", r->planned.amount[i]));
        json_object_set_new(stages, report_stages[i], stage);
    }
    return stages;
}

static json_t *startup_json(const struct report *r)
{
    static const char *const phases[STARTUP_COUNT] = {
        "ranks_s", "device_s", "operands_s", "probe_s", "plan_s", "output_s", "memory_s"};
    json_t *startup = json_object();
    for (int i = 0; i < STARTUP_COUNT; i++)
        json_object_set_new(startup, phases[i], json_real(r->startup[i]));
    return startup;
}

static json_t *ways_json(const struct report *r)
{
    json_t *ways = json_object();
    for (int i = 0; i <= OPERAND_COUNT; i++)
        if (r->ways[i])
            json_object_set_new(ways, report_files[i], json_string(r->ways[i]));
    return ways;
}

/* Null where there is none. */
static json_t *checksum_json(bool has, uint64_t checksum)
{
    return has ? json_sprintf("%016" PRIx64, checksum) : json_null();
}

static json_t *finite_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* What a check found, into `to`.  JSON has no number for what is infinite. */
static json_t *with_findings(json_t *to, const struct findings *f, bool exact)
{
    json_t *found =
        json_pack("{s:s?, s:s, s:o, s:o, s:f, s:f}", "verdict", findings_verdict(f), "finding",
                  findings_sentence(f, exact), "residual", finite_json(f->ratio), "detectable",
                  finite_json(findings_detectable(f)), "elements_not_finite", f->not_finite,
                  "elements_not_judged", f->not_judged);
    json_object_update_new(to, found);
    return to;
}

static json_t *full_json(const struct verify *v)
{
    json_t *full = json_pack("{s:f, s:f, s:o, s:o}", "busy_s", v->seconds, "bytes", v->bytes,
                             "checksum", checksum_json(true, v->checksum), "checksum_recorded",
                             checksum_json(v->has_expected, v->expected));
    return with_findings(full, &v->findings, false);
}

/* Names of files may be no UTF-8, which JSON is: then without what is beyond ASCII. */
static json_t *text_json(const char *text, size_t length)
{
    json_t *json = json_stringn(text, length);
    char *ascii = json ? NULL : strndup(text, length);
    for (char *c = ascii; c && *c; c++)
        *c = *c < 0 ? '?' : *c;
    json = json ? json : json_string(ascii ? ascii : "");
    free(ascii);
    return json;
}

/* Of a name that a file may have brought along. */
static json_t *name_json(const char *name)
{
    char plain[PATH_MAX];
    snprintf(plain, sizeof plain, "%s", name);
    error_make_plain(plain);
    return text_json(plain, strlen(plain));
}

static json_t *matrix_json(const char *file, const char *dataset, int64_t rows, int64_t cols)
{
    return json_pack("{s:o, s:o, s:I, s:I}", "file", name_json(file), "dataset", name_json(dataset),
                     "rows", (json_int_t)rows, "cols", (json_int_t)cols);
}

static json_t *matrices_json(const struct problem *p, const struct operand_name *output)
{
    json_t *matrices = json_object();
    for (int i = 0; i < OPERAND_COUNT; i++) {
        const struct source *source = &p->sources[i];
        const struct matrix seen = matrix_seen(&source->matrix);
        if (i != OPERAND_C || problem_reads_c(p))
            json_object_set_new(
                matrices, report_files[i],
                matrix_json(source->file, source->dataset, seen.rows, matrix_cols(&seen)));
    }
    json_object_set_new(matrices, report_files[OPERAND_COUNT],
                        matrix_json(output->file, output->dataset, p->m, p->n / problem_width(p)));
    return matrices;
}

static json_t *problem_json(const struct problem *p)
{
    const struct scaling s = problem_seen_scaling(p);
    const int64_t width = problem_width(p);
    return json_pack(
        "{s:s, s:s, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:b, s:b, s:b, s:b, s:b, s:b, s:b, "
        "s:b, "
        "s:s, s:s, s:b, s:s, s:s}",
        "type", scalar_name(p->held[OPERAND_C]), "type_c", scalar_name(problem_written(p)),
        "complex", p->complex, "m", (json_int_t)p->m, "n", (json_int_t)(p->n / width), "k",
        (json_int_t)(p->k / width), "alpha", p->alpha, "beta", p->beta, "alpha_imag", p->alpha_i,
        "beta_imag", p->beta_i, "trans_a", problem_seen_trans(p, OPERAND_A), "trans_b",
        problem_seen_trans(p, OPERAND_B), "conjugate_a", p->conjugate[0], "conjugate_b",
        p->conjugate[1], "normal", p->normal, "symmetric", p->symmetric, "lower",
        p->lower != LOWER_NO, "packed", p->lower == LOWER_PACKED, "center",
        axis_names[scaling_center(&s)], "scale", axis_names[scaling_scale(&s)], "crossed",
        s.crossed, "nan", missing_names[s.missing], "exact", problem_exact_text(p));
}

static json_t *statistics_json(const struct statistics *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:f, s:f}", "lines", (json_int_t)s->lines, "constant",
                     (json_int_t)(s->found[0].constant.count + s->found[1].constant.count),
                     "infinite",
                     (json_int_t)(s->found[0].infinite.count + s->found[1].infinite.count),
                     "missing", (json_int_t)(s->found[0].missing + s->found[1].missing), "bytes",
                     s->bytes, "busy_s", s->seconds);
}

static json_t *plan_json(const struct problem *p, const struct plan *plan)
{
    const int64_t width = problem_width(p);
    return json_pack(
        "{s:i, s:[ii], s:i, s:[II], s:[II], s:I, s:I, s:[II], s:I, s:i, s:f, s:I, s:I, s:I, s:I, "
        "s:i, s:f, s:f, s:f, s:f, s:f}",
        "layers", plan->layers, "grid", plan->grid_rows, plan->grid_cols, "idle_ranks",
        plan->moves.idle_ranks, "node_lines", (json_int_t)plan->node_lines[0],
        (json_int_t)plan->node_lines[1], "tile", (json_int_t)plan->tile_rows,
        (json_int_t)(plan->tile_cols / width), "slab", (json_int_t)(plan->slab / width),
        "strip_rows", (json_int_t)plan->strip_rows, "super_blocks", (json_int_t)plan->supers_down,
        (json_int_t)plan->supers_across, "slabs", (json_int_t)plan->slabs, "compute_threads",
        plan->compute_threads, "gemm_flops_per_s", plan->gemm_flops_per_s, "slot_bytes",
        (json_int_t)plan->slot_bytes, "cache_bytes", (json_int_t)plan->cache_bytes, "device_bytes",
        (json_int_t)plan->device_bytes, "host_bytes", (json_int_t)plan->host_bytes, "device_tiles",
        plan->tiles, "read_bytes", plan->moves.read_bytes, "sent_bytes", plan->moves.sent_bytes,
        "in_bytes", plan->moves.total.in_bytes, "write_bytes", plan->moves.total.write_bytes,
        "factor", plan_factor(plan));
}

static json_t *resources_json(const struct simulation *s)
{
    json_t *resources = json_object();
    for (int i = 0; i < RESOURCE_COUNT; i++) {
        const struct usage *u = &s->usage[i];
        json_object_set_new(resources, resource_names[i],
                            json_pack("{s:i, s:f, s:f}", "count", u->count,
                                      i == RESOURCE_GEMM ? "flops" : "bytes", u->amount,
                                      "busy_max_s", u->busy_s));
    }
    return resources;
}

static json_t *simulation_json(const struct simulation *s)
{
    return json_pack("{s:f, s:f, s:s, s:i, s:i, s:o}", "wall_s", s->wall_s, "before_s", s->before_s,
                     "limit", resource_names[s->limit], "nodes", s->nodes, "pieces", s->pieces,
                     "resources", resources_json(s));
}

static json_t *placements_json(const struct placement *placements, int count)
{
    static const char *const binders[] = {"nobody", "launcher", "program", "program"};
    json_t *ranks = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(ranks, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "host",
                                               placements[i].host, "device", placements[i].device,
                                               "pci", placements[i].gpu, "numa", placements[i].numa,
                                               "cpus", placements[i].cpus, "bound_by",
                                               binders[placements[i].bound]));
    return ranks;
}

/* Each complaint is a line of its own. */
static json_t *errors_json(const struct error *err)
{
    json_t *errors = json_array();
    for (const char *line = err->text; *line;) {
        size_t length = strcspn(line, "\n");
        json_array_append_new(errors, text_json(line, length));
        line += length + (line[length] == '\n');
    }
    return errors;
}

/* What there is to say of every run, however it ended. */
static json_t *ending_json(const struct account *a)
{
    char date[32], directory[PATH_MAX], program[64];
    const char *version = version_text(), *built = strchr(version, '\n');
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    snprintf(program, sizeof program, "dgemm_ooc %.*s", (int)strcspn(version, "\n"), version);
    if (!getcwd(directory, sizeof directory))
        directory[0] = '\0';
    error_make_plain(directory);
    int code = a->err->code;
    int exit_status = code ? code : a->verdict;
    return json_pack("{s:i, s:s, s:s?, s:s, s:o, s:o, s:s, s:i, s:o, s:f}", "schema", REPORT_SCHEMA,
                     "program", program, "built", built ? built + 1 : NULL, "date", date, "command",
                     text_json(a->command, strlen(a->command)), "directory",
                     text_json(directory, strlen(directory)), "status",
                     code == 0              ? a->ending
                     : code == EXIT_STOPPED ? "stopped"
                                            : "failed",
                     "exit_status", exit_status, "errors", errors_json(a->err), "done", a->done);
}

/* What earlier runs had completed. */
static json_t *restart_json(const struct report *r)
{
    return json_pack("{s:f, s:f, s:I, s:b}", "compared_bytes", r->compared_bytes, "busy_s",
                     r->compare_s, "damaged_rows", (json_int_t)r->damaged_rows, "trusted",
                     r->trusted);
}

/* What the run measured. */
static void add_run(json_t *root, const struct report *r, bool exact)
{
    json_object_update_new(
        root,
        json_pack("{s:s, s:b, s:f, s:o, s:f, s:f, s:i, s:f, s:f, s:s, s:b, s:o, s:o, s:o, s:o}",
                  "algorithm", r->algorithm, "same_bits", r->same_bits, "startup_s", r->startup_s,
                  "startup", startup_json(r), "wall_s", r->wall_s, "planned_wall_s",
                  r->planned.wall_s, "pieces", r->planned.pieces, "host_peak_bytes", r->host_bytes,
                  "device_peak_bytes", r->device_bytes, "busiest_stage", report_stages[r->limit],
                  "checked", r->checked, "checksum",
                  checksum_json(r->checked && r->complete, r->checksum), "saves",
                  json_pack("{s:i, s:f}", "count", r->saves, "busy_s", r->saves_s), "stages",
                  stages_json(r), "io", ways_json(r)));
    if (r->checked)
        with_findings(root, &r->findings, exact);
    /* A text, since it may be larger than the integers of JSON. */
    json_object_set_new(root, "check_seed", json_sprintf("%" PRIu64, r->check_seed));
    json_object_set_new(root, "restart", restart_json(r));
    json_object_set_new(root, "advice", json_string(r->advice));
}

json_t *report_json(const struct account *a)
{
    json_t *root = ending_json(a);
    const struct report *r = a->report;
    if (r && r->wall_s > 0)
        add_run(root, r, a->problem && problem_shows_exactly(a->problem));
    if (r && r->full.judged)
        json_object_set_new(root, "full_check", full_json(&r->full));
    if (a->statistics)
        json_object_set_new(root, "statistics", statistics_json(a->statistics));
    if (a->predicted)
        json_object_set_new(root, "predicted", simulation_json(a->predicted));
    if (a->problem && a->problem->moduli > 0) {
        json_object_set_new(root, "moduli", json_integer(a->problem->moduli));
        json_object_set_new(root, "proven_units", json_real(problem_proven(a->problem)));
    }
    if (a->problem) {
        json_object_set_new(root, "problem", problem_json(a->problem));
        json_object_set_new(root, "matrices", matrices_json(a->problem, a->output));
    }
    if (a->machine)
        json_object_set_new(root, "machine", machine_json(a->machine));
    if (a->plan)
        json_object_set_new(root, "plan", plan_json(a->problem, a->plan));
    if (a->placements)
        json_object_set_new(root, "ranks", placements_json(a->placements, a->machine->ranks));
    return root;
}

int report_write(const char *path, const struct account *a, struct error *err)
{
    json_t *root = report_json(a);
    struct atomic_file file;
    FILE *to = atomic_file_open(&file, path, "report", err);
    if (to && (!root || json_dumpf(root, to, JSON_INDENT(2)) || fputc('\n', to) == EOF))
        error_add(err, EXIT_RUNTIME, "cannot write the report %s", path);
    atomic_file_close(&file, err);
    json_decref(root);
    return err->code;
}
