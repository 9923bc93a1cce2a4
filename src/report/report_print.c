#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "integer_problem.h"
#include "notice.h"
#include "plan_print.h"
#include "quantity.h"
#include "report.h"

const char *const report_files[] = {"A", "B", "C0", "C"};

static void print_seconds(FILE *out, double seconds)
{
    fprintf(out, " %7.*f", seconds < 100 ? 3 : seconds < 1000 ? 2 : 1, seconds);
}

static void print_stage(FILE *out, const struct report *r, enum stage stage, bool gpu)
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
    fprintf(out, "  %-14s", stage_title(stage, gpu));
    for (int i = 0; i < 3; i++)
        print_seconds(out, s->busy_s[i]);
    if (report_is_planned(stage))
        print_seconds(out, r->planned.busy_s[stage]);
    else
        fprintf(out, "%8s", "");
    fprintf(out, " %4.0f%% %10s %12s\n", 100 * busy / r->wall_s, amount, rate);
}

/* What went over the disk, beside what there is. */
static void print_disk(FILE *out, const struct report *r, const struct problem *p)
{
    double moved = r->stages[STAGE_READ].amount + r->stages[STAGE_WRITE].amount, least = 0;
    least += (double)problem_written_element(p) * problem_elements(p);
    for (enum operand i = 0; i < OPERAND_COUNT; i++)
        if (problem_reads(p, i) && !(p->symmetric && i == OPERAND_B)) /* which is A */
            least += (double)problem_element(p, i) * (double)p->matrix[i].rows *
                     (double)p->matrix[i].cols;
    fprintf(out, "Disk        %s read, %s written: %.2f times the matrices\n",
            quantity_bytes(r->stages[STAGE_READ].amount),
            quantity_bytes(r->stages[STAGE_WRITE].amount), moved / least);
}

static void print_residual(FILE *out, const char *title, const struct findings *f)
{
    fprintf(out, "%-12srounding took %.2g of its limit; the chance of a miss is 1e-12\n", title,
            f->ratio);
    if (f->not_finite > 0)
        fprintf(
            out,
            "            %.0f elements are NaN or Inf, as A and B make them: these have NaN or\n"
            "            Inf (numpy.isfinite finds them), or their products overflow\n",
            f->not_finite);
}

/* Products in residues of what is NaN or Inf are made step by step. */
void report_warn_of_running_sums(const struct report *r, const struct problem *p)
{
    const double part = r->findings.not_finite / problem_elements(p);
    if (p->moduli > 0 && part > 0.05)
        notice(
            "%.0f %% of C are NaN or Inf, which products in residues are slow at: --algo auto is "
            "faster",
            100 * part);
}

void report_print(FILE *out, const struct report *r, const struct problem *p,
                  const struct machine *m, const struct plan *plan)
{
    fprintf(out, "Report      %s on %s, %s\n", r->algorithm, m->name,
            r->same_bits ? "the same bits on any number of ranks" : "bits not promised");
    fprintf(out, "  busy, seconds     min     avg     max planned  wall     amount   all at avg\n");
    for (int i = 0; i < STAGE_COUNT; i++)
        print_stage(out, r, (enum stage)i, m->gpu);
    fprintf(out, "I/O        ");
    for (int i = 0; i <= OPERAND_COUNT; i++)
        if (r->ways[i])
            fprintf(out, " %s %s%s", report_files[i], r->ways[i], i < OPERAND_COUNT ? "," : "\n");
    if (r->saves > 0)
        fprintf(out, "Saved       %d time%s, in %s of it\n", r->saves, r->saves == 1 ? "" : "s",
                quantity_time(r->saves_s));
    if (r->complete)
        print_disk(out, r, p);
    fprintf(out, "Planned     %s of %s memory, %s of host memory a rank\n",
            quantity_bytes((double)plan->device_bytes), m->gpu ? "GPU" : "matrices'",
            quantity_bytes((double)plan->host_bytes));
    if (r->checked)
        print_residual(out, "Check", &r->findings);
    if (problem_is_exact(p))
        fprintf(out, "Exact       %s\n", strchr(problem_exact_text(p), ' ') + 1);
}

void report_print_ranks(FILE *out, const struct run *run)
{
    struct run_totals done;
    run_totals(run, &done);
    if (run->comm->rank > 0) {
        comm_send(run->comm, &done, sizeof done, 0);
        return;
    }
    fprintf(out, "Ranks, busy    read   cache network copy in    gemm   check     out   write\n");
    for (int rank = 0; rank < run->comm->size; rank++) {
        if (rank > 0)
            comm_receive(run->comm, &done, sizeof done, rank);
        fprintf(out, "  %8d", rank);
        for (int i = 0; i < STAGE_COUNT; i++)
            print_seconds(out, done.busy_s[i]);
        fprintf(out, "\n");
    }
}

void report_full_check(FILE *out, const struct verify *v)
{
    fprintf(out, "Full check  read back: %s; %s in %s, %s\n",
            v->has_expected ? "checksum equal" : "no checksum recorded", quantity_bytes(v->bytes),
            quantity_time(v->seconds), quantity_rate(v->bytes / v->seconds));
    fprintf(out, "            %s\n", findings_sentence(&v->findings, false));
    print_residual(out, "", &v->findings);
}

static int verdict_of(const struct findings *f)
{
    return !findings_any(f) || findings_pass(f) ? EXIT_COMPLETE : EXIT_NOT_CHECKED;
}

/* What would round less, where rounding leaves too little to be found. */
static const char *remedy(const struct findings *f, const struct problem *p)
{
    if (scalar_finer(p->type) == p->type || f->not_judged > 0 || findings_pass(f))
        return "";
    return p->moduli > 0 ? " (--type d rounds less)" : " (--type d or --algo ozaki rounds less)";
}

static void print_verdict(FILE *out, const char *what, const struct findings *f, bool exact,
                          const struct problem *p)
{
    const char *verdict = findings_verdict(f);
    char note[64] = "";
    if (f->not_finite > 0)
        snprintf(note, sizeof note, ", %.0f elements are NaN or Inf", f->not_finite);
    if (verdict)
        fprintf(out, "RESULT: C %s checked %s%s%s: %s\n", what, findings_summary(f, exact),
                remedy(f, p), note, verdict);
    else
        fprintf(out, "RESULT: C %s %s\n", what, findings_summary(f, exact));
}

int report_check_result(FILE *out, const struct verify *v, const struct problem *p)
{
    print_verdict(out, "is", &v->findings, false, p);
    return verdict_of(&v->findings);
}

/* Those that the result rests on; null where C was not checked.  Read back, C itself may hold what
 * the sums did not: alpha and beta C0 come after them. */
static const struct findings *deciding(const struct report *r)
{
    bool overflows = r->full.judged && r->full.findings.not_judged > 0;
    if (!r->checked && !r->full.judged)
        return NULL;
    return r->checked && !overflows ? &r->findings : &r->full.findings;
}

int report_verdict(const struct report *r)
{
    const struct findings *findings = deciding(r);
    return findings ? verdict_of(findings) : EXIT_COMPLETE;
}

void report_print_result(FILE *out, const struct report *r, const struct problem *p)
{
    const struct findings *findings = deciding(r);
    if (findings)
        print_verdict(out, "complete,", findings,
                      problem_shows_exactly(p) && findings == &r->findings, p);
    else
        fprintf(out, "RESULT: C complete, not checked\n");
}
