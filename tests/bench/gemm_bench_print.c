/* What gemm_bench found, for people and for programs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "gemm_bench.h"
#include "gemm_simt_maps.h"
#include "text.h"
#include "version.h"

void bench_print_head(const struct bench_options *options, const struct device_info *info)
{
    printf("%s, %d %s", info->name, info->units,
           info->kind == DEVICE_GPU ? "multiprocessors" : "threads");
    if (info->clock_khz > 0)
        printf(", up to %d MHz", info->clock_khz / 1000);
    printf("; medians of %d\n", options->repeat);
    printf("%-12s %-6s op %18s %10s %6s %8s %7s %6s %5s %5s %8s", "algorithm", "type", "m x n x k",
           "ms", "spread", "TFLOP/s", "cuBLAS", "peak", "MHz", "W", "units");
    if (options->transfers)
        printf(" %10s", "with copies");
    if (options->sweep)
        printf(" %12s", "tile/threads");
    printf("  %s\n", options->check ? "errors" : "check");
}

/* The shape of a block, or nothing where there is no choice. */
static const char *shape_text(char text[32], const struct bench_row *r)
{
    text[0] = '\0';
    if (!r->of.rival && kernels[r->of.algorithm]->shapes > 1) {
        const struct simt_shape s = simt_shapes[r->of.algorithm][r->gemm.shape];
        snprintf(text, 32, "%dx%d/%d", s.tile_m, s.tile_n, simt_threads(s));
    }
    return text;
}

static const char *type_text(const struct gemm *g)
{
    return g->complex ? text_make("%c", scalar_letter(g->type, true)) : scalar_name(g->type);
}

/* Of a rival its file's name between lib and the first dot. */
static const char *name_text(char text[32], const struct bench_row *r)
{
    const struct bench_choice *of = &r->of;
    if (of->rival) {
        const char *file = strrchr(of->rival, '/') + 1;
        file += strncmp(file, "lib", 3) == 0 ? 3 : 0;
        snprintf(text, 32, "%.*s", (int)strcspn(file, "."), file);
    } else if (of->moduli > 0)
        snprintf(text, 32, "%s:%d", kernels[of->algorithm]->name, of->moduli);
    else
        snprintf(text, 32, "%s", kernels[of->algorithm]->name);
    return text;
}

/* A share in percent, or nothing. */
static const char *percent(char text[16], double share)
{
    text[0] = '\0';
    if (share > 0)
        snprintf(text, 16, "%.1f%%", 100 * share);
    return text;
}

static void print_errors(const struct bench_options *options, const struct bench_errors *e)
{
    printf("  %s", e->over ? "WRONG" : "ok");
    if (options->check || e->over)
        printf(": max %.2e, MSE %.2e, %.3g%% of %lld over the tolerance", e->max_abs, e->mse,
               100.0 * (double)e->over / (double)e->compared, (long long)e->compared);
    putchar('\n');
}

void bench_print_row(const struct bench_options *options, const struct bench_row *r)
{
    const struct gemm *g = &r->gemm;
    const double rate = bench_flops(g) / r->seconds;
    char name[32], size[64], shape[32], reference[16], peak[16], spread[16], units[16],
        clock[16] = "", watts[16] = "";
    snprintf(size, sizeof size, "%lldx%lldx%lld", (long long)(g->m / bench_width(g)),
             (long long)g->n, (long long)(g->k / bench_width(g)));
    if (r->clock_mhz)
        snprintf(clock, sizeof clock, "%u", r->clock_mhz);
    snprintf(units, sizeof units, "%.3g", r->errors.max_units);
    if (r->watts > 0)
        snprintf(watts, sizeof watts, "%.0f", r->watts);
    printf("%-12s %-6s %c%c %18s %10.3f %6s %8.3f %7s %6s %5s %5s %8s", name_text(name, r),
           type_text(g), g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', size, r->seconds * 1e3,
           percent(spread, (r->most_s - r->least_s) / r->seconds), rate * 1e-12,
           percent(reference, r->of_reference),
           percent(peak, r->peak_flops_per_s > 0 ? rate / r->peak_flops_per_s : 0), clock, watts,
           units);
    if (options->transfers)
        printf(" %8.3f ms", r->transfers_s * 1e3);
    if (options->sweep)
        printf(" %12s", shape_text(shape, r));
    print_errors(options, &r->errors);
    fflush(stdout);
}

/* Null where it is no number. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *row_json(const struct bench_row *r)
{
    const struct gemm *g = &r->gemm;
    const struct bench_errors *e = &r->errors;
    const char trans[] = {g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', '\0'};
    char name[32], shape[32];
    json_t *row = json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "algorithm", name_text(name, r), "number",
        r->of.algorithm, "shape", shape_text(shape, r), "type", type_text(g), "trans", trans, "m",
        (json_int_t)(g->m / bench_width(g)), "n", (json_int_t)g->n, "k",
        (json_int_t)(g->k / bench_width(g)), "ldc", (json_int_t)(g->ldc / bench_width(g)));
    json_t *time = json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:f}", "ms", r->seconds * 1e3, "ms_min",
        r->least_s * 1e3, "ms_max", r->most_s * 1e3, "tflops", bench_flops(g) / r->seconds * 1e-12,
        "of_cublas", r->of_reference, "peak_tflops", r->peak_flops_per_s * 1e-12, "ms_with_copies",
        r->transfers_s * 1e3, "clock_mhz", (int)r->clock_mhz, "watts", r->watts);
    json_t *errors = json_pack("{s:I, s:I, s:o, s:o, s:o}", "compared", (json_int_t)e->compared,
                               "over", (json_int_t)e->over, "max_abs", number(e->max_abs), "mse",
                               number(e->mse), "max_units", number(e->max_units));
    if (r->of.rival)
        json_object_set_new(row, "library", json_string(r->of.rival));
    json_object_update_new(row, time);
    json_object_set_new(row, "errors", errors);
    return row;
}

int bench_write(const struct bench_sink *sink, const struct device_info *info, struct error *err)
{
    char date[32], version[128];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    snprintf(version, sizeof version, "%.*s", (int)strcspn(version_text(), "\n"), version_text());
    json_t *rows = json_array();
    for (int i = 0; i < sink->count; i++)
        json_array_append_new(rows, row_json(&sink->rows[i]));
    json_t *root = json_pack("{s:s, s:s, s:{s:s, s:i, s:i}, s:i, s:f, s:o}", "version", version,
                             "date", date, "device", "name", info->name, "units", info->units,
                             "clock_mhz", info->clock_khz / 1000, "repeat", sink->options->repeat,
                             "phi", sink->options->phi, "rows", rows);
    int failed = json_dump_file(root, sink->options->json, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(root);
    if (failed)
        return error_add(err, EXIT_RUNTIME, "%s cannot be written", sink->options->json);
    return 0;
}
