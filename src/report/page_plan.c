/* What was planned, beside what was measured. */
#include <math.h>

#include "page_impl.h"

static void begin_table(const struct sheet *s, const char *what, const char *third)
{
    fprintf(s->file,
            "<table>\n<thead><tr><th scope=\"col\">%s</th><th scope=\"col\">planned</th>"
            "<th scope=\"col\">measured</th>%s</tr></thead>\n<tbody>\n",
            what, third);
}

/* A row of seconds, with bars up to `most` of them. */
static void print_seconds(const struct sheet *s, const char *name, double planned, double measured,
                          double most)
{
    fprintf(s->file,
            "<tr><th scope=\"row\">%s</th><td>%s</td><td>%s</td><td class=\"bars\">"
            "<svg viewBox=\"0 0 100 16\" preserveAspectRatio=\"none\"><title>%s: planned %.6g s, "
            "measured %.6g s</title><rect class=\"planned\" y=\"1\" width=\"%.2f\" height=\"4\"/>"
            "<rect class=\"measured\" y=\"6\" width=\"%.2f\" height=\"9\"/></svg></td></tr>\n",
            name, quantity_time(planned), quantity_time(measured), name, planned, measured,
            100 * planned / most, 100 * measured / most);
}

static void print_times(const struct sheet *s)
{
    const struct report *r = s->facts->report;
    const struct planned *planned = &r->planned;
    double most = fmax(planned->wall_s, r->wall_s);
    for (int i = 0; i < STAGE_COUNT; i++)
        most = fmax(most, planned->busy_s[i]);
    begin_table(s, "time, busiest rank",
                "<th scope=\"col\" class=\"bars\">planned (grey), measured</th>");
    for (int i = 0; i < STAGE_COUNT; i++) {
        enum stage stage = (enum stage)i;
        if (report_is_planned(stage) && (planned->busy_s[i] > 0 || r->stages[i].amount > 0))
            print_seconds(s, report_stage_title(stage), planned->busy_s[i], r->stages[i].busy_s[2],
                          most);
    }
    print_seconds(s, "wall", planned->wall_s, r->wall_s, most);
    fputs("</tbody></table>\n", s->file);
}

static void print_amounts(const struct sheet *s)
{
    const struct report *r = s->facts->report;
    const struct plan *plan = s->facts->plan;
    const struct machine *m = s->facts->machine;
    begin_table(s, "amount, all ranks", "");
    for (int i = 0; i < STAGE_COUNT; i++) {
        enum stage stage = (enum stage)i;
        double planned = r->planned.amount[i], measured = r->stages[i].amount;
        const char *(*text)(double) = stage == STAGE_GEMM ? quantity_work : quantity_bytes;
        if (report_is_planned(stage) && (planned > 0 || measured > 0))
            fprintf(s->file, "<tr><th scope=\"row\">%s</th><td>%s</td><td>%s</td></tr>\n",
                    report_stage_title(stage), text(planned), text(measured));
    }
    fprintf(s->file,
            "<tr><th scope=\"row\">device memory, a rank</th><td>%s</td><td>%s</td></tr>\n",
            quantity_bytes((double)plan->device_bytes), quantity_bytes(r->device_bytes));
    fprintf(s->file,
            "<tr><th scope=\"row\">host memory, a rank</th><td>%s</td><td>%s</td></tr>\n"
            "</tbody></table>\n",
            quantity_bytes((double)plan->host_bytes), quantity_bytes(r->host_bytes));
    fprintf(s->file, "<p class=\"note\">Limits: device %s, host %s.</p>\n",
            quantity_bytes((double)m->device_memory), quantity_bytes((double)m->host_memory));
}

void page_plan(const struct sheet *s)
{
    fputs("<section id=\"plan\">\n<h2>Planned and measured</h2>\n<div class=\"pair\">\n<div>\n",
          s->file);
    print_times(s);
    fputs("</div>\n<div>\n", s->file);
    print_amounts(s);
    fputs("</div>\n</div>\n</section>\n", s->file);
}
