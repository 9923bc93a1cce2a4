/* Two charts: the run under its roofs, and its progress. */
#include <math.h>

#include "page_impl.h"

enum { WIDTH = 460, HEIGHT = 290, LEFT = 60, RIGHT = 12, TOP = 12, BOTTOM = 44 };

/* A chart's extents, in decades where they are logarithms. */
struct axes {
    double x[2], y[2];
};

static double place_x(const struct axes *a, double x)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (x - a->x[0]) / (a->x[1] - a->x[0]);
}

static double place_y(const struct axes *a, double y)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - a->y[0]) / (a->y[1] - a->y[0]);
}

static void begin_chart(const struct sheet *s, const char *id, const char *title)
{
    fprintf(s->file,
            "<section id=\"%s\">\n<h2>%s</h2>\n<svg class=\"chart\" role=\"img\" viewBox=\"0 0 %d "
            "%d\">\n",
            id, title, WIDTH, HEIGHT);
}

static void print_line(const struct sheet *s, const char *class, double x0, double y0, double x1,
                       double y1)
{
    fprintf(s->file, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", class, x0, y0, x1, y1);
}

static void tick_x(const struct sheet *s, const struct axes *a, double x, const char *label)
{
    double at = place_x(a, x);
    print_line(s, "grid", at, TOP, at, HEIGHT - BOTTOM);
    fprintf(s->file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at,
            HEIGHT - BOTTOM + 16, label);
}

static void tick_y(const struct sheet *s, const struct axes *a, double y, const char *label)
{
    double at = place_y(a, y);
    print_line(s, "grid", LEFT, at, WIDTH - RIGHT, at);
    fprintf(s->file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6, at + 4,
            label);
}

static void label_x(const struct sheet *s, const char *label)
{
    fprintf(s->file, "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, label);
}

/* A link under the roofs: what it may carry, of all ranks, and what the run did on it. */
struct roof {
    const char *name, *class;
    const double *source; /* the machine's rate */
    double bytes_per_s;   /* of all ranks */
    double intensity;     /* flops for each byte that it carried */
};

static int find_roofs(const struct sheet *s, struct roof roofs[LINK_COUNT])
{
    const struct machine *m = s->facts->machine;
    const double all = m->ranks, nodes = (double)ceil_div(m->ranks, m->ranks_per_node);
    const struct roof candidates[] = {
        {"disk read", "read", &m->disk_read_bytes_per_s, m->disk_read_bytes_per_s, 0},
        {"network", "network", &m->network_bytes_per_s, nodes * m->network_bytes_per_s, 0},
        {"host to device", "in", &m->in_bytes_per_s, all * m->in_bytes_per_s, 0},
        {"disk write", "write", &m->disk_write_bytes_per_s, m->disk_write_bytes_per_s, 0},
    };
    const enum stage stages[] = {STAGE_READ, STAGE_NETWORK, STAGE_IN, STAGE_WRITE};
    const struct stage_report *measured = s->facts->report->stages;
    int count = 0;
    for (int i = 0; i < 4; i++)
        if (measured[stages[i]].amount > 0 && candidates[i].bytes_per_s > 0) {
            roofs[count] = candidates[i];
            roofs[count++].intensity = measured[STAGE_GEMM].amount / measured[stages[i]].amount;
        }
    return count;
}

/* "100G" at 11 decades, "10k" at 4. */
static const char *decade_label(int decade)
{
    static char text[16];
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    if (decade < 0 || decade >= 21)
        snprintf(text, sizeof text, "1e%d", decade);
    else
        snprintf(text, sizeof text, "%.0f%s", pow(10, decade % 3), units[decade / 3]);
    return text;
}

/* The decades of all points, and of the places where roofs meet. */
static struct axes roof_axes(const struct roof *roofs, int count, double rate, double peak)
{
    struct axes a = {{INFINITY, -INFINITY}, {log10(rate), log10(fmax(rate, peak))}};
    for (int i = 0; i < count; i++) {
        double point = log10(roofs[i].intensity), knee = log10(peak / roofs[i].bytes_per_s);
        a.x[0] = fmin(a.x[0], fmin(point, knee));
        a.x[1] = fmax(a.x[1], fmax(point, knee));
    }
    for (int i = 0; i < 2; i++) {
        double margin = i ? 0.1 : -0.1;
        a.x[i] = (i ? ceil(a.x[i]) : floor(a.x[i])) + margin;
        a.y[i] = (i ? ceil(a.y[i]) : floor(a.y[i])) + margin;
    }
    return a;
}

/* The rate at which a link lets this intensity compute, from the chart's edge to the device's own
 * roof; and the run, with what is between them. */
static void print_roof(const struct sheet *s, const struct axes *a, const struct roof *roof,
                       double rate, double peak)
{
    double slope = log10(roof->bytes_per_s), top = log10(peak);
    double left = fmax(a->x[0], a->y[0] - slope), right = top - slope;
    double at = log10(roof->intensity), y = log10(rate), most = fmin(top, at + slope);
    char class[32];
    snprintf(class, sizeof class, "roof %s", roof->class);
    print_line(s, class, place_x(a, left), place_y(a, left + slope), place_x(a, right),
               place_y(a, top));
    snprintf(class, sizeof class, "stem %s", roof->class);
    print_line(s, class, place_x(a, at), place_y(a, y), place_x(a, at), place_y(a, most));
    fprintf(s->file,
            "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"><title>%s: %.4g flop for each "
            "byte, %s of at most %s</title></circle>\n",
            roof->class, place_x(a, at), place_y(a, y), roof->name, roof->intensity,
            quantity_flops(rate), quantity_flops(pow(10, most)));
}

static void print_roof_legend(const struct sheet *s, const struct roof *roofs, int count,
                              double rate, double peak)
{
    const struct machine *m = s->facts->machine;
    fputs("<ul class=\"legend\">\n", s->file);
    fprintf(s->file, "<li><i class=\"peak\"></i>device%s: %s (%s)</li>\n", m->ranks > 1 ? "s" : "",
            quantity_flops(peak), machine_source(m, &m->gemm_flops_per_s[s->facts->problem->type]));
    for (int i = 0; i < count; i++) {
        double most = fmin(peak, roofs[i].intensity * roofs[i].bytes_per_s);
        char reached[16];
        snprintf(reached, sizeof reached, rate < 0.1 * most ? "%.2g" : "%.0f", 100 * rate / most);
        fprintf(s->file, "<li><i class=\"%s\"></i>%s, %s (%s): %s %% of its roof, %s</li>\n",
                roofs[i].class, roofs[i].name, quantity_rate(roofs[i].bytes_per_s),
                machine_source(m, roofs[i].source), reached, quantity_flops(most));
    }
    fputs("</ul>\n", s->file);
}

void page_roofline(const struct sheet *s)
{
    const struct report *r = s->facts->report;
    struct roof roofs[LINK_COUNT];
    int count = find_roofs(s, roofs);
    double rate = r->stages[STAGE_GEMM].amount / r->wall_s;
    double peak = s->facts->plan->gemm_flops_per_s * s->facts->machine->ranks;
    if (count == 0 || !(rate > 0) || !(peak > 0))
        return;
    struct axes a = roof_axes(roofs, count, rate, peak);
    begin_chart(s, "roofline", "Roofline");
    for (double x = ceil(a.x[0]); x <= a.x[1]; x++)
        tick_x(s, &a, x, decade_label((int)x));
    for (double y = ceil(a.y[0]); y <= a.y[1]; y++)
        tick_y(s, &a, y, decade_label((int)y));
    print_line(s, "roof peak", place_x(&a, a.x[0]), place_y(&a, log10(peak)), WIDTH - RIGHT,
               place_y(&a, log10(peak)));
    for (int i = 0; i < count; i++)
        print_roof(s, &a, &roofs[i], rate, peak);
    label_x(s, "flop for each byte on the link");
    fprintf(s->file,
            "<text class=\"label\" transform=\"translate(10 %d) rotate(-90)\" "
            "text-anchor=\"middle\">flop/s</text>\n",
            (TOP + HEIGHT - BOTTOM) / 2);
    fputs("</svg>\n", s->file);
    print_roof_legend(s, roofs, count, rate, peak);
    fputs("<p class=\"note\">A point for each link: this run. Its roof is what the link, at the "
          "rate that was given, measured at the start or assumed, or the device would let it "
          "reach.</p>\n"
          "</section>\n",
          s->file);
}

/* How much of a stage's amount was done by the end of each bin. */
static void print_curve(const struct sheet *s, const struct axes *a, enum stage stage,
                        const char *class)
{
    const double *amount = s->amount + stage * TIMELINE_BINS + s->first;
    double all = s->facts->report->stages[stage].amount, done = 0;
    if (all == 0)
        return;
    fprintf(s->file, "<path class=\"curve %s\" d=\"M%.1f %.1f", class, place_x(a, 0),
            place_y(a, 0));
    for (int i = 0; i < s->bins; i++) {
        done += amount[i];
        fprintf(s->file, "L%.1f %.1f", place_x(a, (i + 1) * s->bin_s), place_y(a, done / all));
    }
    fputs("\"/>\n", s->file);
}

void page_progress(const struct sheet *s)
{
    const struct stage_report *stages = s->facts->report->stages;
    struct axes a = {{0, s->bins * s->bin_s}, {0, 1}};
    double unit_s;
    const char *unit = sheet_time_unit(a.x[1], &unit_s);
    double tick = sheet_tick(a.x[1] / unit_s, 6);
    char text[32];
    begin_chart(s, "progress", "Progress");
    for (int i = 0; i * tick * unit_s <= a.x[1]; i++) {
        snprintf(text, sizeof text, "%g", i * tick);
        tick_x(s, &a, i * tick * unit_s, text);
    }
    for (int i = 0; i <= 4; i++) {
        snprintf(text, sizeof text, "%d %%", 25 * i);
        tick_y(s, &a, 0.25 * i, text);
    }
    print_curve(s, &a, STAGE_READ, "read");
    print_curve(s, &a, STAGE_WRITE, "write");
    print_curve(s, &a, STAGE_GEMM, "peak");
    label_x(s, unit);
    fputs("</svg>\n<ul class=\"legend\">\n", s->file);
    fprintf(s->file, "<li><i class=\"read\"></i>read: %s</li>\n",
            quantity_bytes(stages[STAGE_READ].amount));
    fprintf(s->file, "<li><i class=\"peak\"></i>multiplied: %s</li>\n",
            quantity_work(stages[STAGE_GEMM].amount));
    fprintf(s->file, "<li><i class=\"write\"></i>written: %s</li>\n</ul>\n</section>\n",
            quantity_bytes(stages[STAGE_WRITE].amount));
}
