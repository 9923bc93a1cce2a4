/* The page's beginning and end: what was multiplied, how it went; and on what. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "page_impl.h"
#include "version.h"

static void print_formula(const struct sheet *s)
{
    const struct problem *p = s->facts->problem;
    fputs("C = ", s->file);
    if (p->alpha != 1)
        fprintf(s->file, "%g ", p->alpha);
    fprintf(s->file, "A%s ", p->trans[OPERAND_A] ? "<sup>T</sup>" : "");
    fprintf(s->file, "B%s", p->trans[OPERAND_B] ? "<sup>T</sup>" : "");
    if (p->beta != 0)
        fprintf(s->file, " + %g C<sub>0</sub>", p->beta);
}

static void print_figure(const struct sheet *s, const char *what, const char *figure,
                         const char *note)
{
    fprintf(s->file, "<div><dt>%s</dt><dd>%s <small>%s</small></dd></div>\n", what, figure, note);
}

static void print_verdict(const struct sheet *s)
{
    const struct report *r = s->facts->report;
    const char *verdict = findings_verdict(&r->findings);
    char note[256];
    int used = snprintf(note, sizeof note, "%s%s", findings_sentence(&r->findings),
                        r->full.judged ? "; files read back" : "");
    if (r->findings.not_finite > 0)
        snprintf(note + used, sizeof note - (size_t)used, "; %.0f elements are NaN or Inf",
                 r->findings.not_finite);
    if (r->checked)
        print_figure(s, "check", verdict ? verdict : "none", note);
    else
        print_figure(s, "check", "none", "C was not checked");
}

/* Another process may have done some before, and tiles may have been multiplied again. */
static void print_share(const struct sheet *s)
{
    const struct problem *p = s->facts->problem;
    const struct report *r = s->facts->report;
    double all = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    double mine = r->stages[STAGE_GEMM].amount;
    if (!problem_reads_ab(p))
        return;
    if (r->planned.pieces > 1 || mine < 0.9999 * all)
        fprintf(s->file, "<p>This process multiplied %.1f %% of the product, in %d piece%s.</p>\n",
                100 * mine / all, r->planned.pieces, r->planned.pieces == 1 ? "" : "s");
}

void page_head(const struct sheet *s)
{
    const struct report *r = s->facts->report;
    const struct problem *p = s->facts->problem;
    double busiest = r->stages[r->limit].busy_s[2];
    char note[96];
    fputs("<title>dgemm_ooc: ", s->file);
    sheet_text(s, p->matrix[OPERAND_A].file);
    fputs("</title>\n</head>\n<body>\n<main>\n<header>\n<h1>", s->file);
    print_formula(s);
    fprintf(s->file, "</h1>\n<p>%s, C %" PRId64 " &#215; %" PRId64 ", k = %" PRId64 "</p>\n",
            scalar_name(p->type), p->m, p->n, p->k);
    fputs("<dl class=\"figures\">\n", s->file);
    snprintf(note, sizeof note, "planned %s", quantity_time(r->planned.wall_s));
    print_figure(s, "wall time", quantity_time(r->wall_s), note);
    snprintf(note, sizeof note, "%s in all", quantity_work(r->stages[STAGE_GEMM].amount));
    print_figure(s, "rate", quantity_flops(r->stages[STAGE_GEMM].amount / r->wall_s), note);
    snprintf(note, sizeof note, "busy %.0f %% of the wall time", 100 * busiest / r->wall_s);
    print_figure(s, "busiest stage", report_stage_title(r->limit), note);
    print_verdict(s);
    fputs("</dl>\n<p class=\"advice\">", s->file);
    sheet_text(s, report_advice(r, s->facts->plan));
    fputs(".</p>\n", s->file);
    print_share(s);
    fputs("</header>\n", s->file);
}

static void begin_row(const struct sheet *s, const char *name)
{
    fprintf(s->file, "<tr><th scope=\"row\">%s</th><td>", name);
}

static void end_row(const struct sheet *s)
{
    fputs("</td></tr>\n", s->file);
}

static void print_operand(const struct sheet *s, enum operand operand)
{
    static const char *const names[] = {"A", "B", "C<sub>0</sub>"};
    const struct problem *p = s->facts->problem;
    const struct matrix_info *info = &p->matrix[operand];
    const char *way = s->facts->report->ways[operand];
    if (operand == OPERAND_C && !problem_reads_c(p))
        return;
    begin_row(s, names[operand]);
    sheet_text(s, info->file);
    fputc(':', s->file);
    sheet_text(s, info->dataset);
    fprintf(s->file, ", %" PRId64 " &#215; %" PRId64 "%s, %s", info->rows, info->cols,
            operand != OPERAND_C && p->trans[operand] ? " transposed" : "", way ? way : "not read");
    end_row(s);
}

static void print_output(const struct sheet *s)
{
    const struct operand_name *output = s->facts->output;
    begin_row(s, "C");
    sheet_text(s, output->file);
    fputc(':', s->file);
    sheet_text(s, output->dataset);
    fprintf(s->file, ", %s", s->facts->report->ways[OPERAND_COUNT]);
    end_row(s);
}

static void print_machine(const struct sheet *s)
{
    const struct machine *m = s->facts->machine;
    const struct report *r = s->facts->report;
    const struct plan *plan = s->facts->plan;
    begin_row(s, "device");
    sheet_text(s, m->name);
    fprintf(s->file, "; kernel %s, %s", r->algorithm,
            !r->same_bits      ? "bits not promised"
            : plan->layers > 1 ? "the same bits wherever k is split so"
                               : "the same bits on any number of ranks");
    end_row(s);
    begin_row(s, "ranks");
    fprintf(s->file, "%d, %d on a node, in a grid of %d &#215; %d", m->ranks, m->ranks_per_node,
            plan->grid_rows, plan->grid_cols);
    if (plan->layers > 1)
        fprintf(s->file, ", %d layers of k", plan->layers);
    if (plan->idle_ranks)
        fprintf(s->file, ", %d without a tile", plan->idle_ranks);
    end_row(s);
    begin_row(s, "tile");
    fprintf(s->file,
            "%" PRId64 " &#215; %" PRId64 ", slabs of %" PRId64 ", %" PRId64 " &#215; %" PRId64
            " super-blocks",
            plan->tile_rows, plan->tile_cols, plan->slabs ? plan->slab : 0, plan->supers_down,
            plan->supers_across);
    end_row(s);
}

void page_details(const struct sheet *s)
{
    char date[64], version[512];
    snprintf(version, sizeof version, "dgemm_ooc %s", version_text());
    char *line_end = strchr(version, '\n');
    if (line_end)
        *line_end = ' ';
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
    fputs("<section id=\"details\">\n<h2>Details</h2>\n<table class=\"details\">\n", s->file);
    for (int i = 0; i < OPERAND_COUNT; i++)
        print_operand(s, (enum operand)i);
    print_output(s);
    print_machine(s);
    begin_row(s, "start-up");
    fputs(quantity_time(s->facts->report->startup_s), s->file);
    end_row(s);
    begin_row(s, "command");
    fputs("<code>", s->file);
    sheet_text(s, s->facts->command);
    fputs("</code>", s->file);
    end_row(s);
    begin_row(s, "version");
    sheet_text(s, version);
    end_row(s);
    begin_row(s, "date");
    fputs(date, s->file);
    end_row(s);
    fputs("</table>\n</section>\n", s->file);
}
