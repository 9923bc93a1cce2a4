#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "integer_problem.h"
#include "quantity.h"
#include "report.h"

const char *const report_files[] = {"A", "B", "C0", "C"};

static void print_seconds(double seconds)
{
    printf(" %7.*f", seconds < 100 ? 3 : seconds < 1000 ? 2 : 1, seconds);
}

static void print_stage(const struct report *r, enum stage stage)
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
    if (report_is_planned(stage))
        print_seconds(r->planned.busy_s[stage]);
    else
        printf("%8s", "");
    printf(" %4.0f%% %10s %12s\n", 100 * busy / r->wall_s, amount, rate);
}

const char *report_advice(const struct report *r, const struct plan *plan)
{
    bool several = plan->supers_down * plan->supers_across > 1;
    double busy = r->stages[r->limit].busy_s[2] / r->wall_s;
    if (busy < 0.5)
        return "no stage is at work most of the time, as in short runs";
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
    case STAGE_GEMM:
        return busy < 0.9 ? "the device computes most of the time, but also waits for other stages"
                          : "the device computes nearly all the time; more devices would help";
    case STAGE_CHECK: return "larger tiles (--gpu-memory) make the check cheaper";
    default: return "C is written once; only faster storage would help";
    }
}

/* What went over the disk, beside what there is. */
static void print_disk(const struct report *r, const struct problem *p)
{
    double moved = r->stages[STAGE_READ].amount + r->stages[STAGE_WRITE].amount, least = 0;
    least += (double)problem_element(p, OPERAND_C) * problem_elements(p);
    for (enum operand i = 0; i < OPERAND_COUNT; i++)
        if (problem_reads(p, i) && !(p->symmetric && i == OPERAND_B)) /* which is A */
            least += (double)problem_element(p, i) * (double)p->matrix[i].rows *
                     (double)p->matrix[i].cols;
    printf("Disk        %s read, %s written: %.2f times the matrices\n",
           quantity_bytes(r->stages[STAGE_READ].amount),
           quantity_bytes(r->stages[STAGE_WRITE].amount), moved / least);
}

static void print_findings(const char *title, const struct findings *f)
{
    printf("%s     %s\n            (but for a chance of 1e-12; rounding took %.2g of its limit)\n",
           title, findings_sentence(f), f->ratio);
    if (f->not_finite > 0)
        printf("            %.0f elements are NaN or Inf, as A and B make them: these have NaN or\n"
               "            Inf (numpy.isfinite finds them), or their products overflow\n",
               f->not_finite);
}

/* What holds for products in residues, whatever the elements are. */
static void print_proof(const struct problem *p)
{
    printf("Proven      each row of op(A) op(B) is within %.3g u |a| |B| of exact, by the 2-norms\n"
           "            of its row of op(A) and of op(B), unless numbers overflow or\n"
           "            underflow; sums of %" PRId64 " products are within %" PRId64 " u |a| |B|\n",
           problem_proven(p), p->k_whole, p->k_whole);
}

/* Of correlations: each is a running sum of k products, those on the diagonal exactly 1. */
static void print_diagonal(const struct problem *p)
{
    const double k = (double)p->k;
    bool correlates = p->standard.centers && p->standard.scales && p->alpha == 1 / (k - 1);
    if (correlates && p->type == SCALAR_FLOAT && p->moduli == 0)
        printf("Diagonal    within %.2g of 1, for rounding in floats (--type d: within %.2g)\n",
               (k + 8) * 0x1p-24, (k + 8) * 0x1p-53);
}

/* Products in residues of what is NaN or Inf are made step by step. */
static void warn_of_running_sums(const struct report *r, const struct problem *p)
{
    const double part = r->findings.not_finite / problem_elements(p);
    if (part > 0.05)
        fprintf(stderr,
                "dgemm_ooc: %.0f %% of C are NaN or Inf, which products in residues are slow at: "
                "--algo auto is faster\n",
                100 * part);
}

void report_print(const struct report *r, const struct problem *p, const struct machine *m,
                  const struct plan *plan)
{
    char bits[64] = "the same bits on any number of ranks";
    if (plan->layers > 1 && !p->exact)
        snprintf(bits, sizeof bits, "the same bits wherever k is split in %d", plan->layers);
    printf("Report      %s on %s, %s\n", r->algorithm, m->name,
           r->same_bits ? bits : "bits not promised");
    printf("  busy, seconds     min     avg     max planned  wall     amount   all at avg\n");
    for (int i = 0; i < STAGE_COUNT; i++)
        print_stage(r, (enum stage)i);
    printf("I/O        ");
    for (int i = 0; i <= OPERAND_COUNT; i++)
        if (r->ways[i])
            printf(" %s %s%s", report_files[i], r->ways[i], i < OPERAND_COUNT ? "," : "\n");
    double limit = r->stages[r->limit].busy_s[2];
    double rate = r->stages[STAGE_GEMM].amount / r->wall_s;
    printf("Wall        %s (planned %s) after %s of start-up\n            %s",
           quantity_time(r->wall_s), quantity_time(r->planned.wall_s), quantity_time(r->startup_s),
           quantity_flops(rate));
    if (m->ranks > 1)
        printf(", %s a rank", quantity_flops(rate / m->ranks));
    printf("\n");
    if (r->saves > 0)
        printf("Saved       %d time%s, in %s of it\n", r->saves, r->saves == 1 ? "" : "s",
               quantity_time(r->saves_s));
    printf("Overlap     %.2f of the wall is the busiest stage, %s:\n            %s\n",
           limit / r->wall_s, stage_titles[r->limit], report_advice(r, plan));
    if (r->complete)
        print_disk(r, p);
    printf("Memory      device %s taken (planned %s, limit %s)\n", quantity_bytes(r->device_bytes),
           quantity_bytes((double)plan->device_bytes), quantity_bytes((double)m->device_memory));
    printf("            host %s at most (planned %s, limit %s)\n", quantity_bytes(r->host_bytes),
           quantity_bytes((double)plan->host_bytes), quantity_bytes((double)m->host_memory));
    if (r->checked)
        print_findings("Check  ", &r->findings);
    print_diagonal(p);
    if (p->exact)
        printf("Exact       %s\n", strchr(problem_exact_text(p), ' ') + 1);
    if (p->moduli > 0) {
        print_proof(p);
        warn_of_running_sums(r, p);
    }
}

void report_print_ranks(const struct run *run)
{
    struct tally tally;
    run_tally(run, &tally);
    if (run->comm->rank > 0) {
        comm_send(&tally, sizeof tally, 0);
        return;
    }
    printf("Ranks, busy    read   cache network copy in    gemm   check     out   write\n");
    for (int rank = 0; rank < run->comm->size; rank++) {
        if (rank > 0)
            comm_receive(&tally, sizeof tally, rank);
        printf("  %8d", rank);
        for (int i = 0; i < STAGE_COUNT; i++)
            print_seconds(tally.busy_s[i]);
        printf("\n");
    }
}

void report_full_check(const struct verify *v)
{
    printf("Full check  read back: %s; %s in %s, %s\n",
           v->has_expected ? "checksum equal" : "no checksum recorded", quantity_bytes(v->bytes),
           quantity_time(v->seconds), quantity_rate(v->bytes / v->seconds));
    print_findings("       ", &v->findings);
}

static int verdict_of(const struct findings *f)
{
    return !findings_any(f) || findings_pass(f) ? EXIT_COMPLETE : EXIT_NOT_CHECKED;
}

/* What would round less, where rounding leaves too little to be found. */
static const char *remedy(const struct findings *f, const struct problem *p)
{
    if (p->type == SCALAR_DOUBLE || f->not_judged > 0 || findings_pass(f))
        return "";
    return p->moduli > 0 ? " (--type d rounds less)" : " (--type d or --algo ozaki rounds less)";
}

static void print_verdict(const char *what, const struct findings *f, const struct problem *p)
{
    const char *verdict = findings_verdict(f);
    char note[64] = "";
    if (f->not_finite > 0)
        snprintf(note, sizeof note, ", %.0f elements are NaN or Inf", f->not_finite);
    if (verdict)
        printf("RESULT: C %s checked %s%s%s: %s\n", what, findings_summary(f), remedy(f, p), note,
               verdict);
    else
        printf("RESULT: C %s %s\n", what, findings_summary(f));
}

int report_check_result(const struct verify *v, const struct problem *p)
{
    print_verdict("is", &v->findings, p);
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

void report_print_result(const struct report *r, const struct problem *p)
{
    const struct findings *findings = deciding(r);
    if (findings)
        print_verdict("complete,", findings, p);
    else
        printf("RESULT: C complete, not checked\n");
}
