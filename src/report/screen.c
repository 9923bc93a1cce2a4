/* Each line has a title and a function that writes the rest; one that writes nothing is left
 * out. */
#include "screen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "integer_problem.h"
#include "options.h"
#include "plan_print.h"
#include "problem_notes.h"
#include "quantity.h"

enum { COLUMNS = 100, TITLE = 12, KEPT = '\x1f' /* a space of a name, where no line ends */ };

static const double mostly = 0.5; /* of the time */

static int print_word(FILE *out, const char *word)
{
    int length = 0;
    for (; word[length]; length++)
        putc(word[length] == KEPT ? ' ' : word[length], out);
    return length;
}

/* Print a line, which goes on below where it is too long. */
static void print_folded(FILE *out, const char *title, char *text)
{
    int column = fprintf(out, "%-*s", TITLE, title);
    for (char *rest, *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (column > TITLE && column + 1 + (int)strlen(word) > COLUMNS)
            column = fprintf(out, "\n%*s", TITLE, "") - 1;
        if (column > TITLE)
            column += fprintf(out, " ");
        column += print_word(out, word);
    }
    fprintf(out, "\n");
}

struct line {
    const char *title;
    void (*write)(FILE *out, const struct account *account);
};

static void print_lines(FILE *out, const struct line *lines, size_t count,
                        const struct account *account)
{
    for (size_t i = 0; i < count; i++) {
        char *text = NULL;
        size_t length;
        FILE *line = open_memstream(&text, &length);
        if (!line)
            continue;
        lines[i].write(line, account);
        if (fclose(line) == 0 && text[0])
            print_folded(out, lines[i].title, text);
        free(text);
    }
    fflush(out);
}

/* Before the work. */

static void write_product(FILE *out, const struct account *a)
{
    product_print(out, a->problem);
    fputs("; ", out);
    product_print_shape(out, a->problem);
}

static void write_text(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc(*text == ' ' ? KEPT : *text, out);
}

static void write_name(FILE *out, const char *file, const char *dataset)
{
    char name[sizeof(struct operand_name) + 1];
    snprintf(name, sizeof name, "%s%s%s", file, file[0] ? ":" : "", dataset);
    error_make_plain(name);
    write_text(out, name);
}

/* The file is named once where it is that of A, too. */
static void write_operand(FILE *out, const struct problem *p, enum operand operand)
{
    const struct source *source = &p->sources[operand];
    const bool same = operand != OPERAND_A && strcmp(source->file, p->sources[OPERAND_A].file) == 0;
    const char title[] = {"ABC"[operand], ' ', '=', ' ', '\0'};
    fputs(operand == OPERAND_A ? "" : ", ", out);
    write_text(out, title);
    write_name(out, same ? "" : source->file, source->dataset);
    if (same)
        write_text(out, " of that file");
}

static void write_files(FILE *out, const struct account *a)
{
    const struct problem *p = a->problem;
    write_operand(out, p, OPERAND_A);
    if (!product_b_is_a(p))
        write_operand(out, p, OPERAND_B);
    if (problem_reads_c(p))
        write_operand(out, p, OPERAND_C);
    fputs("; C goes to ", out);
    write_name(out, a->output->file, a->output->dataset);
    if (p->normal)
        fputs(", and the product in parentheses beside it, as NAME_ab", out);
}

/* What may not be expected of the elements. */
static void write_notes(FILE *out, const struct account *a)
{
    const struct problem *p = a->problem;
    char notes[NOTES_MAX][NOTE_TEXT];
    const char *between = "";
    for (enum operand i = 0; i < OPERAND_COUNT; i++) {
        const int count = i == OPERAND_B && product_b_is_a(p) ? 0 : problem_notes(p, i, notes);
        if (count > 0)
            fprintf(out, "%s%c: ", between, "ABC"[i]);
        for (int j = 0; j < count; j++)
            fprintf(out, "%s%s", j ? "; " : "", notes[j]);
        between = count > 0 ? ". " : between;
    }
}

static void write_ranks(FILE *out, const struct machine *m)
{
    const int nodes = (int)ceil_div(m->ranks, m->ranks_per_node);
    fputs(m->gpu ? m->name : "CPU", out);
    if (m->ranks > 1)
        fprintf(out, ", %d ranks", m->ranks);
    else if (!m->gpu)
        fprintf(out, ", %d thread%s", m->threads, m->threads == 1 ? "" : "s");
    if (nodes > 1)
        fprintf(out, " on %d nodes", nodes);
}

static void write_plan(FILE *out, const struct account *a)
{
    const struct machine *m = a->machine;
    const struct simulation *s = a->predicted;
    write_ranks(out, m);
    if (m->gpu)
        fprintf(out, ", %s of GPU and", quantity_bytes((double)m->device_memory));
    else
        fputc(',', out);
    fprintf(out, " %s of %smemory%s: predicted %s", quantity_bytes((double)m->host_memory),
            m->gpu ? "host " : "", m->ranks > 1 ? " each" : "",
            quantity_time(s->wall_s - s->before_s));
    if (s->before_s > 0)
        fprintf(out, " after %s of a first pass", quantity_time(s->before_s));
    fprintf(out, ", limited by %s", stage_words(resource_stage(s->limit), m->gpu));
}

void screen_begin(FILE *out, const struct account *account)
{
    static const struct line lines[] = {{"Product", write_product},
                                        {"Files", write_files},
                                        {"Note", write_notes},
                                        {"Plan", write_plan}};
    const bool plans = account->predicted != NULL; /* something is left to be done */
    print_lines(out, lines, plans ? 4 : 3, account);
}

/* At the end. */

/* Of the time that the busiest stage was at work, on the rank where it was longest. */
static double busiest(const struct report *r)
{
    return r->stages[r->limit].busy_s[2] / r->wall_s;
}

static void write_time(FILE *out, const struct account *a)
{
    const struct report *r = a->report;
    const double rate = r->stages[STAGE_GEMM].amount / r->wall_s;
    fputs(quantity_time(r->wall_s), out);
    if (a->done == 1) /* else less was done than was planned */
        fprintf(out, " (predicted %s)", quantity_time(r->planned.wall_s));
    fprintf(out, " after %s of start-up; %s", quantity_time(r->startup_s), quantity_flops(rate));
    if (a->machine->ranks > 1)
        fprintf(out, ", %s a rank", quantity_flops(rate / a->machine->ranks));
}

static void write_limit(FILE *out, const struct account *a)
{
    const struct report *r = a->report;
    const struct stage_report *stage = &r->stages[r->limit];
    const char *words = stage_words(r->limit, a->machine->gpu);
    const double percent = 100 * busiest(r), rate = stage->amount / stage->busy_s[1];
    if (busiest(r) < mostly) {
        fprintf(out, "no single part of the work; the longest, %s, took %.0f %% of the time", words,
                percent);
        return;
    }
    fprintf(out, "%s: ", words);
    if (stage->amount > 0 && stage->busy_s[1] > 0)
        fprintf(out, "%s, ", r->limit == STAGE_GEMM ? quantity_flops(rate) : quantity_rate(rate));
    fprintf(out, "busy %.0f %% of the time", percent);
}

static void write_faster(FILE *out, const struct account *a)
{
    fputs(a->report->advice, out);
}

static void write_memory(FILE *out, const struct account *a)
{
    const struct report *r = a->report;
    const struct machine *m = a->machine;
    if (m->gpu)
        fprintf(out, "GPU %s of %s, host ", quantity_bytes(r->device_bytes),
                quantity_bytes((double)m->device_memory));
    fprintf(out, "%s used of %s allowed%s", quantity_bytes(r->host_bytes),
            quantity_bytes((double)m->host_memory),
            m->ranks > 1 ? ", on the rank that used most" : "");
}

/* Of the files, as far as these say more than the sums: all bits are those that were written. */
static void write_read_back(FILE *out, const struct report *r)
{
    const struct findings *f = &r->full.findings;
    if (r->checked && findings_pass(f))
        fprintf(out, "; read back: %.2g", findings_detectable(f));
    else
        fprintf(out, "%s%s", r->checked ? "; read back: " : "", findings_sentence(f, false));
}

static void write_check(FILE *out, const struct account *a)
{
    const struct report *r = a->report;
    if (!r->complete)
        return;
    if (r->checked)
        fputs(findings_sentence(&r->findings, problem_shows_exactly(a->problem)), out);
    if (r->full.judged)
        write_read_back(out, r);
    if (!r->checked && !r->full.judged)
        fputs("none was made (--verify off)", out);
    if (r->findings.not_finite > 0)
        fprintf(out, "; %.0f elements are NaN or Inf, as A and B make them",
                r->findings.not_finite);
}

static void write_place(FILE *out, const struct account *a)
{
    if (!a->report->complete)
        fprintf(out, "not complete: %.1f %% is done and saved; it will be ", 100 * a->done);
    write_name(out, a->output->file, a->output->dataset);
}

void screen_end(FILE *out, const struct account *account)
{
    static const struct line lines[] = {{"Time", write_time},     {"Limited by", write_limit},
                                        {"Faster", write_faster}, {"Memory", write_memory},
                                        {"Check", write_check},   {"C", write_place}};
    const size_t of_the_work = account->report->wall_s > 0 ? 0 : 4; /* an earlier run did it */
    print_lines(out, lines + of_the_work, sizeof lines / sizeof *lines - of_the_work, account);
}
