#include "plan_print.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "error.h"
#include "first_read.h"
#include "integer_problem.h"
#include "problem_notes.h"
#include "quantity.h"

static const char *const titles[STAGE_COUNT] = {"disk read",      "host cache", "network",
                                                "host to device", "multiply",   "online check",
                                                "device to host", "disk write"};

const char *stage_title(enum stage stage, bool gpu)
{
    if (gpu || (stage != STAGE_IN && stage != STAGE_OUT))
        return titles[stage];
    return stage == STAGE_IN ? "copies in" : "copies out";
}

const char *stage_words(enum stage stage, bool gpu)
{
    static const char *const words[STAGE_COUNT] = {
        [STAGE_READ] = "reading the files",  [STAGE_CACHE] = "copies in host memory",
        [STAGE_NETWORK] = "the network",     [STAGE_IN] = "copies to the GPU",
        [STAGE_GEMM] = "multiplying",        [STAGE_CHECK] = "the check",
        [STAGE_OUT] = "copies from the GPU", [STAGE_WRITE] = "writing C"};
    const bool copies = stage == STAGE_CACHE || stage == STAGE_IN || stage == STAGE_OUT;
    return copies && !gpu ? "copies in memory" : words[stage];
}

/* What the layout does not say by itself. */
static const char *how_read(const struct problem *p, enum operand operand)
{
    const struct matrix *matrix = &p->matrix[operand];
    if (!problem_reads(p, operand))
        return ", not read";
    bool without = matrix->by_offset || matrix->by_chunks;
    return without && problem_through_library(p, operand) ? ", but through H5Dread" : "";
}

static void print_operand(FILE *out, const struct problem *p, enum operand operand)
{
    char name[sizeof(struct source)], notes[NOTES_MAX][NOTE_TEXT];
    const struct source *source = &p->sources[operand];
    const struct matrix seen = matrix_seen(&source->matrix);
    snprintf(name, sizeof name, "%s:%s", source->file, source->dataset);
    error_make_plain(name);
    fprintf(out, "  %c         %" PRId64 "x%" PRId64 "  %s\n            %s%s\n", "ABC"[operand],
            seen.rows, matrix_cols(&seen), name, source->layout, how_read(p, operand));
    const int count = problem_notes(p, operand, notes);
    for (int i = 0; i < count; i++)
        fprintf(out, "            %s\n", notes[i]);
}

bool product_b_is_a(const struct problem *p)
{
    const struct source *a = &p->sources[OPERAND_A], *b = &p->sources[OPERAND_B];
    return strcmp(a->file, b->file) == 0 && strcmp(a->dataset, b->dataset) == 0;
}

static void write_scalar(FILE *out, double real, double imaginary)
{
    if (imaginary != 0)
        fprintf(out, "(%g%+gi) ", real, imaginary);
    else if (real == -1)
        fputc('-', out);
    else if (real != 1)
        fprintf(out, "%g ", real);
}

static void write_factor(FILE *out, const struct problem *p, enum operand operand)
{
    const char *turned = !problem_seen_trans(p, operand) ? "" : p->conjugate[operand] ? "^H" : "^T";
    fprintf(out, "%s%s", operand == OPERAND_A || product_b_is_a(p) ? "A" : "B", turned);
}

static void write_scaling(FILE *out, const struct problem *p)
{
    static const char *const taken[] = {
        [MISSING_ERROR] = "", [MISSING_MEAN] = ", NaN as mean", [MISSING_ZERO] = ", NaN as 0"};
    const struct scaling s = problem_seen_scaling(p);
    if (problem_scales(p))
        fprintf(out, ", %s of A%s %s%s%s%s", s.axis[0] == AXIS_ROWS ? "rows" : "columns",
                !s.crossed               ? ""
                : s.axis[1] == AXIS_ROWS ? " and rows of B"
                                         : " and columns of B",
                s.centers ? "centred" : "", s.centers && s.scales ? " and " : "",
                s.scales ? "scaled" : "", taken[s.missing]);
}

void product_print(FILE *out, const struct problem *p)
{
    fputs("C = ", out);
    write_scalar(out, p->alpha, p->alpha_i);
    if (p->normal)
        fputs(problem_seen_trans(p, OPERAND_A) ? "A (" : "A^T (", out);
    write_factor(out, p, OPERAND_A);
    fputc(' ', out);
    write_factor(out, p, OPERAND_B);
    fputs(p->normal ? ")" : "", out);
    if (problem_reads_c(p)) {
        const bool minus = p->beta < 0 && p->beta_i == 0;
        fputs(minus ? " - " : " + ", out);
        write_scalar(out, minus ? -p->beta : p->beta, p->beta_i);
        fputc('C', out);
    }
    write_scaling(out, p);
}

void product_print_shape(FILE *out, const struct problem *p)
{
    fprintf(out, "%s%s; C %" PRId64 "x%" PRId64 ", k %" PRId64, p->complex ? "complex " : "",
            problem_is_exact(p) ? problem_exact_text(p) : problem_type_text(p), p->m,
            p->n / problem_width(p), p->k / problem_width(p));
}

static void print_problem(FILE *out, const struct problem *p)
{
    fputs("Problem     ", out);
    product_print(out, p);
    fputs("\n            ", out);
    product_print_shape(out, p);
    fputc('\n', out);
    if (p->symmetric)
        fprintf(out, "            %s: %s\n", problem_is_hermitian(p) ? "Hermitian" : "symmetric",
                p->lower == LOWER_PACKED ? "lower half only, packed row by row"
                : p->lower               ? "lower half only, C is 0 above the diagonal"
                                         : "half of the products, those on and below the diagonal");
    if (p->moduli > 0)
        fprintf(out,
                "            in residues of %d moduli: errors of a row proven below %.3g u |a| "
                "|B|\n",
                p->moduli, problem_proven(p));
    for (enum operand operand = 0; operand <= (problem_reads_c(p) ? OPERAND_C : OPERAND_B);
         operand++)
        print_operand(out, p, operand);
}

static void print_idle(FILE *out, int ranks, const char *why)
{
    if (ranks > 0)
        fprintf(out, "            %d rank%s without a tile: %s\n", ranks, ranks == 1 ? "" : "s",
                why);
}

/* What is taken of each limit, and where that is from. */
static void print_memory(FILE *out, const struct machine *m, const struct plan *plan)
{
    const char *device = machine_source(m, &m->device_memory);
    const char *host = machine_source(m, &m->host_memory);
    const char *half =
        m->ranks_per_node > 1 ? "half of what is available, shared" : "half of what is available";
    if (*device == 'm')
        device = m->gpu ? "95 % of what is free" : half;
    fprintf(out, "  memory    %s %s of %s (%s),\n            %s %s of %s (%s)\n",
            m->gpu ? "GPU" : "matrices", quantity_bytes((double)plan->device_bytes),
            quantity_bytes((double)m->device_memory), device, m->gpu ? "host" : "all of it",
            quantity_bytes((double)plan->host_bytes), quantity_bytes((double)m->host_memory),
            *host == 'm' ? half : host);
}

static void print_machine(FILE *out, const struct machine *m, int pieces)
{
    fprintf(out, "Machine     %s; %d rank%s, %d on a node\n", m->name, m->ranks,
            m->ranks == 1 ? "" : "s", m->ranks_per_node);
    if (pieces > 1)
        fprintf(out, "Pieces      %d are left; Plan and Links are of the first one\n", pieces);
}

static void print_shape(FILE *out, const struct problem *p, const struct machine *m,
                        const struct plan *plan)
{
    const int64_t width = problem_width(p);
    const char *holds = m->gpu ? "GPU       holds" : "memory    holds";
    fprintf(out,
            "Plan        grid %dx%d, tile %" PRId64 "x%" PRId64 ", %" PRId64 " of k in a step\n",
            plan->grid_rows, plan->grid_cols, plan->tile_rows, plan->tile_cols / width,
            plan->slabs ? plan->slab / width : 0);
    if (m->ranks > m->ranks_per_node)
        fprintf(out,
                "            each node covers at most %" PRId64 " rows x %" PRId64
                " columns of the grid\n",
                plan->node_lines[OPERAND_A], plan->node_lines[OPERAND_B]);
    fprintf(out,
            "            %" PRId64 "x%" PRId64 " round%s of a tile on each rank, %" PRId64
            " step%s along k each\n",
            plan->supers_down, plan->supers_across,
            plan->supers_down * plan->supers_across == 1 ? "" : "s", plan->slabs,
            plan->slabs == 1 ? "" : "s");
    if (p->blocks.steps > 0)
        fprintf(out, "            sums of %" PRId64 " blocks of %" PRId64 " steps of k\n",
                ceil_div(p->k_whole, p->blocks.steps), p->blocks.steps / width);
    if (plan->layers > 1)
        fprintf(out,
                "            %d layers of %d rank%s, each with %" PRId64
                " steps of k; their sums are added in %s\n",
                plan->layers, m->ranks / plan->layers, m->ranks / plan->layers == 1 ? "" : "s",
                plan->layer_k / width, quantity_time(plan->roofline.add_s));
    int beside = m->ranks - plan->grid_rows * plan->grid_cols * plan->layers;
    print_idle(out, beside, "left out of the grid");
    print_idle(out, plan->moves.idle_ranks - beside, "C is too small for so many");
    if (!m->gpu && plan->compute_threads < m->threads)
        fprintf(out, "            using %d of %d threads (limited by host memory)\n",
                plan->compute_threads, m->threads);
    fprintf(out, "            buffers: %d to read into, %d to write from, of %s\n", plan->slots_in,
            plan->slots_out, quantity_bytes((double)plan->slot_bytes));
    if (plan->tiles > 1)
        fprintf(out, "  %s two tiles of C: one is written while the next is multiplied\n", holds);
    if (plan->slabs > 1 && plan_holds(plan, OPERAND_A))
        fprintf(out, "  %s rows of A for all tiles of a row%s\n", holds,
                plan_holds_rows(plan) ? ", and those of the next row" : "");
    if (plan->slabs > 1 && plan_holds(plan, OPERAND_B))
        fprintf(out, "  %s columns of B for all tiles of a column\n", holds);
    if (plan->cache_bytes > 0) {
        int64_t all_b = plan->supers_across * plan->slabs;
        fprintf(out, "  cache     %s a node keeps %.0f %% of A for a row of tiles, %.0f %% of B\n",
                quantity_bytes((double)plan->cache_bytes),
                100 * (double)plan->kept[OPERAND_A] / (double)plan->slabs,
                100 * (double)plan->kept[OPERAND_B] / (double)all_b);
    }
    print_memory(out, m, plan);
}

/* What is read before anything is multiplied. */
static void print_first_read(FILE *out, const struct problem *p, const struct machine *m,
                             const struct plan *plan)
{
    const double bytes = first_read_bytes(p), seconds = first_read_seconds(p, m);
    if (bytes > 0 && !first_read_is_product(p, plan))
        fprintf(out, "  %-14s %10s  at %-21s %10s  (before: %s)\n", "disk read",
                quantity_bytes(bytes), quantity_rate(bytes / seconds), quantity_time(seconds),
                p->measures ? "largest elements" : "means");
}

/* The part of a link's rate that the plan gets of it, in percent: short runs, chunks that are cut,
 * GPUs that copy out of the same memory, and small slabs take the rest. */
static double rate_percent(double amount, double rate, double seconds)
{
    return seconds > 0 ? fmin(100, 100 * amount / rate / seconds) : 100;
}

static void print_links(FILE *out, const struct problem *p, const struct machine *m,
                        const struct plan *plan)
{
    const struct traffic *w = &plan->moves.worst;
    const double nodes = (double)ceil_div(m->ranks, m->ranks_per_node);
    const struct {
        double amount;
        const double *rate;
    } links[STAGE_COUNT] = {
        [STAGE_READ] = {plan->moves.read_bytes, &m->disk_read_bytes_per_s},
        [STAGE_NETWORK] = {plan->moves.sent_bytes / nodes, &m->network_bytes_per_s},
        [STAGE_IN] = {w->in_bytes, &m->in_bytes_per_s},
        [STAGE_GEMM] = {w->flops, (p->moduli > 0 || problem_of_bytes(p)) && m->gpu
                                      ? &m->int8_ops_per_s
                                      : &m->gemm_flops_per_s[p->type]},
        [STAGE_OUT] = {w->out_bytes, &m->out_bytes_per_s},
        [STAGE_WRITE] = {plan->moves.total.write_bytes, &m->disk_write_bytes_per_s},
    };
    fprintf(out, "Links       of all ranks (disk), a node (network), the busiest rank (others)\n");
    print_first_read(out, p, m, plan);
    for (int i = 0; i < STAGE_COUNT; i++) {
        const bool gemm = i == STAGE_GEMM;
        if (!links[i].rate || (i == STAGE_NETWORK && plan->moves.sent_bytes == 0))
            continue;
        const double amount = links[i].amount, seconds = plan->roofline.link_s[i];
        const double rate = gemm ? plan->gemm_flops_per_s : *links[i].rate;
        fprintf(out, "  %-14s %10s  at %3.0f %% of %-12s %10s  (%s)\n",
                stage_title((enum stage)i, m->gpu),
                gemm ? quantity_work(amount) : quantity_bytes(amount),
                rate_percent(amount, rate, seconds),
                gemm ? quantity_flops(rate) : quantity_rate(rate), quantity_time(seconds),
                machine_source(m, links[i].rate));
    }
}

void plan_print(FILE *out, const struct problem *p, const struct machine *m,
                const struct plan *plan, int pieces)
{
    print_problem(out, p);
    print_machine(out, m, pieces);
    print_shape(out, p, m, plan);
    print_links(out, p, m, plan);
}

const char *const resource_names[] = {
    "disk read",      "disk to node", "network send",   "network receive", "host cache",
    "host to device", "multiply",     "device to host", "node to disk",    "disk write"};

enum stage resource_stage(enum resource resource)
{
    static const enum stage stages[RESOURCE_COUNT] = {
        [RESOURCE_READ] = STAGE_READ,      [RESOURCE_LINK_IN] = STAGE_READ,
        [RESOURCE_SEND] = STAGE_NETWORK,   [RESOURCE_RECEIVE] = STAGE_NETWORK,
        [RESOURCE_CACHE] = STAGE_CACHE,    [RESOURCE_IN] = STAGE_IN,
        [RESOURCE_GEMM] = STAGE_GEMM,      [RESOURCE_OUT] = STAGE_OUT,
        [RESOURCE_LINK_OUT] = STAGE_WRITE, [RESOURCE_WRITE] = STAGE_WRITE};
    return stages[resource];
}

void simulate_print_time(FILE *out, const struct simulation *s, bool gpu)
{
    fprintf(out, "Predicted   %s", quantity_time(s->wall_s));
    if (s->pieces > 1)
        fprintf(out, " for all %d pieces that are left", s->pieces);
    if (s->before_s > 0)
        fprintf(out, ", %s of it before the product", quantity_time(s->before_s));
    fprintf(out,
            "%slimited by %s; disk traffic %s,\n"
            "            %.2f x the lower bound for this much memory (%s)\n",
            s->before_s > 0 ? ",\n            " : ", ", stage_words(resource_stage(s->limit), gpu),
            quantity_bytes(s->disk_bytes), s->disk_bytes / s->bound_bytes,
            quantity_bytes(s->bound_bytes));
    fflush(out);
}
