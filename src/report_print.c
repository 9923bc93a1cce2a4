#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "quantity.h"
#include "report.h"
#include "version.h"

static const char *const stage_titles[] = {"disk read",      "host cache", "network",
                                           "host to device", "multiply",   "online check",
                                           "device to host", "disk write"};
static const char *const stage_keys[] = {"read", "cache", "network", "in",
                                         "gemm", "check", "out",     "write"};

/* The link of the plan that a stage is. */
static const int stage_links[] = {LINK_READ, -1, LINK_NETWORK, LINK_IN,
                                  LINK_GEMM, -1, LINK_OUT,     LINK_WRITE};

static const char *const file_names[] = {"A", "B", "C0", "C"};

static void print_seconds(double seconds)
{
    printf(" %7.*f", seconds < 100 ? 3 : seconds < 1000 ? 2 : 1, seconds);
}

static void print_stage(const struct report *r, const struct plan *plan, enum stage stage)
{
    const struct stage_report *s = &r->stages[stage];
    const char *amount = "", *rate = "";
    double busy = s->busy_s[1];
    if ((stage == STAGE_CACHE || stage == STAGE_NETWORK) && s->amount == 0)
        return;
    if (s->amount > 0)
        amount = stage == STAGE_GEMM ? quantity_work(s->amount) : quantity_bytes(s->amount);
    if (s->amount > 0 && busy > 0)
        rate = stage == STAGE_GEMM ? quantity_flops(s->amount / busy)
                                   : quantity_rate(s->amount / busy);
    printf("  %-14s", stage_titles[stage]);
    for (int i = 0; i < 3; i++)
        print_seconds(s->busy_s[i]);
    if (stage_links[stage] >= 0)
        print_seconds(plan->link_s[stage_links[stage]]);
    else
        printf("%8s", "");
    printf(" %4.0f%% %10s %12s\n", 100 * busy / r->wall_s, amount, rate);
}

/* What would make such a run faster. */
static const char *advice(const struct report *r, const struct plan *plan)
{
    bool several = plan->supers_down * plan->supers_across > 1;
    switch (r->limit) {
    case STAGE_READ:
        return plan->factor > 1.05 ? "more --host-memory or --gpu-memory means fewer bytes to read"
                                   : "each byte is read once; only faster storage would help";
    case STAGE_CACHE:
    case STAGE_NETWORK:
    case STAGE_IN:
    case STAGE_OUT:
        return several ? "more --gpu-memory means larger tiles and fewer bytes on this link"
                       : "each byte crosses once; only more devices would help";
    case STAGE_GEMM: return "the device computes nearly all the time; more devices would help";
    case STAGE_CHECK: return "larger tiles (--gpu-memory) make the check cheaper";
    default: return "C is written once; only faster storage would help";
    }
}

void report_print(const struct report *r, const struct machine *m, const struct plan *plan)
{
    char bits[64] = "the same bits on any number of ranks";
    if (plan->layers > 1)
        snprintf(bits, sizeof bits, "the same bits wherever k is split in %d", plan->layers);
    printf("Report      %s on %s, %s\n", r->algorithm, m->name,
           r->same_bits ? bits : "bits not promised");
    printf("  busy, seconds     min     avg     max planned  wall     amount   all at avg\n");
    for (int i = 0; i < STAGE_COUNT; i++)
        print_stage(r, plan, (enum stage)i);
    printf("I/O        ");
    for (int i = 0; i <= OPERAND_COUNT; i++)
        if (r->ways[i])
            printf(" %s %s%s", file_names[i], r->ways[i], i < OPERAND_COUNT ? "," : "\n");
    double limit = r->stages[r->limit].busy_s[2];
    printf("Wall        %s (planned %s) after %s of start-up; %s\n", quantity_time(r->wall_s),
           quantity_time(plan->wall_s), quantity_time(r->startup_s),
           quantity_flops(r->stages[STAGE_GEMM].amount / r->wall_s));
    printf("Overlap     %.2f of the wall is the busiest stage, %s:\n            %s\n",
           limit / r->wall_s, stage_titles[r->limit], advice(r, plan));
    printf("Memory      device %s taken (planned %s, limit %s)\n", quantity_bytes(r->device_bytes),
           quantity_bytes((double)plan->device_bytes), quantity_bytes((double)m->device_memory));
    printf("            host %s at most (planned %s, limit %s)\n", quantity_bytes(r->host_bytes),
           quantity_bytes((double)plan->host_bytes), quantity_bytes((double)m->host_memory));
    if (r->not_finite > 0)
        printf("Note        %.0f rows of tiles hold NaN or Inf, or |A||B| overflows: not checked\n",
               r->not_finite);
    if (r->read_back)
        report_full_check(&r->full);
}

void report_full_check(const struct verify *v)
{
    printf("Full check  read back: %s, residual %.3g (limit %.3g)\n            %s in %s, %s\n",
           v->has_expected ? "checksum equal" : "no checksum recorded", v->residual, v->limit,
           quantity_bytes(v->bytes), quantity_time(v->seconds),
           quantity_rate(v->bytes / v->seconds));
    if (v->not_finite > 0)
        printf("            %" PRId64 " rows hold NaN or Inf, or |A||B| overflows: %s\n",
               v->not_finite, v->has_expected ? "checksum only" : "not checked");
}

static void print_passed(const char *what, double residual, double limit, bool all)
{
    printf("RESULT: C %s, residual %.3g (limit %.3g): PASSED%s\n", what, residual, limit,
           all ? "" : " but for rows with NaN, Inf or overflow");
}

void report_check_result(const struct verify *v)
{
    print_passed("checked", v->residual, v->limit, v->not_finite == 0);
}

void report_result(const struct report *r)
{
    if (r->checked)
        print_passed("complete", r->residual, r->residual_limit, r->not_finite == 0);
    else
        printf("RESULT: C complete, not checked\n");
}

static json_t *stages_json(const struct report *r)
{
    json_t *stages = json_object();
    for (int i = 0; i < STAGE_COUNT; i++) {
        const struct stage_report *s = &r->stages[i];
        json_object_set_new(stages, stage_keys[i],
                            json_pack("{s:f, s:f, s:f, s:f}", "busy_min_s", s->busy_s[0],
                                      "busy_avg_s", s->busy_s[1], "busy_max_s", s->busy_s[2],
                                      i == STAGE_GEMM ? "flops" : "bytes", s->amount));
    }
    return stages;
}

static json_t *ways_json(const struct report *r)
{
    json_t *ways = json_object();
    for (int i = 0; i <= OPERAND_COUNT; i++)
        if (r->ways[i])
            json_object_set_new(ways, file_names[i], json_string(r->ways[i]));
    return ways;
}

/* Null where there is none. */
static json_t *checksum_json(bool has, uint64_t checksum)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, checksum);
    return has ? json_string(text) : json_null();
}

static json_t *full_json(const struct verify *v)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:o, s:o}", "busy_s", v->seconds, "bytes", v->bytes,
                     "residual", v->residual, "residual_limit", v->limit, "rows_not_finite",
                     (json_int_t)v->not_finite, "checksum", checksum_json(true, v->checksum),
                     "checksum_recorded", checksum_json(v->has_expected, v->expected));
}

static json_t *problem_json(const struct problem *p)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:b, s:b}", "type", scalar_name(p->type), "m",
                     (json_int_t)p->m, "n", (json_int_t)p->n, "k", (json_int_t)p->k, "alpha",
                     p->alpha, "beta", p->beta, "trans_a", p->trans[0], "trans_b", p->trans[1]);
}

static json_t *machine_json(const struct machine *m)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:I}", "name", m->name, "device",
                     m->gpu ? "gpu" : "cpu", "ranks", m->ranks, "ranks_per_node", m->ranks_per_node,
                     "threads", m->threads, "device_memory_bytes", (json_int_t)m->device_memory,
                     "host_memory_bytes", (json_int_t)m->host_memory);
}

static json_t *plan_json(const struct plan *plan)
{
    return json_pack(
        "{s:i, s:[ii], s:[II], s:[II], s:I, s:I, s:[II], s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I,"
        " s:s, s:f, s:f}",
        "layers", plan->layers, "grid", plan->grid_rows, plan->grid_cols, "node_lines",
        (json_int_t)plan->node_lines[0], (json_int_t)plan->node_lines[1], "tile",
        (json_int_t)plan->tile_rows, (json_int_t)plan->tile_cols, "slab", (json_int_t)plan->slab,
        "strip_rows", (json_int_t)plan->strip_rows, "super_blocks", (json_int_t)plan->supers_down,
        (json_int_t)plan->supers_across, "slabs", (json_int_t)plan->slabs, "slot_bytes",
        (json_int_t)plan->slot_bytes, "cache_bytes", (json_int_t)plan->cache_bytes, "device_bytes",
        (json_int_t)plan->device_bytes, "host_bytes", (json_int_t)plan->host_bytes, "read_bytes",
        (json_int_t)plan->read_bytes, "sent_bytes", (json_int_t)plan->sent_bytes, "in_bytes",
        (json_int_t)plan->total.in_bytes, "write_bytes", (json_int_t)plan->total.write_bytes,
        "limit", plan_link_name(plan->limit), "wall_s", plan->wall_s, "factor", plan->factor);
}

/* "dgemm_ooc VERSION". */
static const char *program_text(void)
{
    static char text[64];
    snprintf(text, sizeof text, "dgemm_ooc %.*s", (int)strcspn(version_text(), "\n"),
             version_text());
    return text;
}

static json_t *report_json(const struct report *r, const struct problem *p, const struct machine *m,
                           const struct plan *plan)
{
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return json_pack("{s:i, s:s, s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:s, s:b, s:f, s:f, s:f,"
                     " s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "schema", 1, "program", program_text(), "date", date, "algorithm",
                     r->algorithm, "same_bits", r->same_bits, "startup_s", r->startup_s, "wall_s",
                     r->wall_s, "host_peak_bytes", r->host_bytes, "device_peak_bytes",
                     r->device_bytes, "busiest_stage", stage_keys[r->limit], "checked", r->checked,
                     "residual", r->residual, "residual_limit", r->residual_limit,
                     "rows_not_finite", r->not_finite, "checksum",
                     checksum_json(r->checked, r->checksum), "full_check",
                     r->read_back ? full_json(&r->full) : json_null(), "stages", stages_json(r),
                     "io", ways_json(r), "problem", problem_json(p), "machine", machine_json(m),
                     "plan", plan_json(plan));
}

static json_t *resources_json(const struct simulation *s)
{
    json_t *resources = json_object();
    for (int i = 0; i < RESOURCE_COUNT; i++) {
        const struct usage *u = &s->usage[i];
        json_object_set_new(resources, simulate_resource_name((enum resource)i),
                            json_pack("{s:i, s:f, s:f}", "count", u->count,
                                      i == RESOURCE_GEMM ? "flops" : "bytes", u->amount,
                                      "busy_max_s", u->busy_s));
    }
    return resources;
}

static json_t *simulation_json(const struct simulation *s)
{
    return json_pack("{s:f, s:s, s:f, s:i, s:I, s:o}", "wall_s", s->wall_s, "limit",
                     simulate_resource_name(s->limit), "factor", s->factor, "nodes", s->nodes,
                     "slabs_a_step", (json_int_t)s->slabs_a_step, "resources", resources_json(s));
}

/* Takes over `root`. */
static int write_json(const char *path, json_t *root, struct error *err)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s.part", path) >= PATH_MAX || !root ||
        json_dump_file(root, part, JSON_INDENT(2)) || rename(part, path))
        error_add(err, EXIT_RUNTIME, "cannot write the report %s", path);
    json_decref(root);
    return err->code;
}

int report_write(const char *path, const struct report *r, const struct problem *p,
                 const struct machine *m, const struct plan *plan, struct error *err)
{
    return write_json(path, report_json(r, p, m, plan), err);
}

int report_write_check(const char *path, const struct verify *full, const struct problem *p,
                       struct error *err)
{
    json_t *root = json_pack("{s:i, s:s, s:o, s:o}", "schema", 1, "program", program_text(),
                             "full_check", full_json(full), "problem", problem_json(p));
    return write_json(path, root, err);
}

int report_write_simulation(const char *path, const struct simulation *s, const struct problem *p,
                            const struct machine *m, const struct plan *plan, struct error *err)
{
    json_t *root = json_pack("{s:i, s:s, s:o, s:o, s:o, s:o}", "schema", 1, "program",
                             program_text(), "simulated", simulation_json(s), "problem",
                             problem_json(p), "machine", machine_json(m), "plan", plan_json(plan));
    return write_json(path, root, err);
}
