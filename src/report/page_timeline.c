/* The timeline: how busy every stage of every rank was, and where the device waited. */
#include <math.h>

#include "page_impl.h"

enum {
    IDLE = STAGE_COUNT, /* a lane of its own: the device neither multiplies nor checks */
    LANE_COUNT,
    LANE_HEIGHT = 10, /* in the picture's own units */
    SHADES = 8,
    RANKS_APART = 4, /* up to so many rows, each rank has its stages together */
    TICKS = 6,
};

/* How many ranks a row has, and the first of them. */
static int row_ranks(const struct sheet *s, int row, int *first)
{
    int ranks = s->facts->machine->ranks;
    *first = sheet_first_rank(row, ranks, s->rows);
    return sheet_first_rank(row + 1, ranks, s->rows) - *first;
}

/* The part of a bin in which the lane was in use, on average of the row's ranks. */
static double share(const struct sheet *s, int row, int lane, int bin)
{
    const double *busy = s->busy_s + (int64_t)row * STAGE_COUNT * TIMELINE_BINS + s->first + bin;
    int first;
    double whole = row_ranks(s, row, &first) * s->bin_s;
    double used =
        lane < IDLE ? busy[lane * TIMELINE_BINS]
                    : whole - busy[STAGE_GEMM * TIMELINE_BINS] - busy[STAGE_CHECK * TIMELINE_BINS];
    return fmin(fmax(used / whole, 0), 1);
}

static double mean_share(const struct sheet *s, int row, int lane)
{
    double sum = 0;
    for (int i = 0; i < s->bins; i++)
        sum += share(s, row, lane, i);
    return sum / s->bins;
}

static bool is_used(const struct sheet *s, int lane)
{
    double sum = 0;
    for (int row = 0; row < s->rows; row++)
        sum += mean_share(s, row, lane);
    return sum > 0;
}

static const char *lane_name(int lane)
{
    return lane < IDLE ? report_stage_title((enum stage)lane) : "device waits";
}

/* "rank 3", "ranks 8 to 15" */
static void print_row_name(const struct sheet *s, int row)
{
    int first, count = row_ranks(s, row, &first);
    if (count == 1)
        fprintf(s->file, "rank %d", first);
    else
        fprintf(s->file, "ranks %d to %d", first, first + count - 1);
}

/* The least that a stage does can be seen, but not the least pause between two products. */
static int shade(const struct sheet *s, int row, int lane, int bin)
{
    double shades = SHADES * share(s, row, lane, bin);
    return (int)(lane == IDLE ? round(shades) : ceil(shades));
}

/* All that has one shade in one stroke. */
static void print_shade(const struct sheet *s, int row, int lane, int wanted, int y)
{
    bool any = false;
    for (int i = 0, end; i < s->bins; i = end) {
        for (end = i + 1; end < s->bins && shade(s, row, lane, end) == shade(s, row, lane, i);)
            end++;
        if (shade(s, row, lane, i) != wanted)
            continue;
        if (!any)
            fprintf(s->file, "<path stroke-opacity=\"%g\" d=\"", (double)wanted / SHADES);
        fprintf(s->file, "M%d %dh%d", i, y + LANE_HEIGHT / 2, end - i);
        any = true;
    }
    if (any)
        fputs("\"/>", s->file);
}

static void print_lane(const struct sheet *s, int row, int lane, int y)
{
    double mean = mean_share(s, row, lane);
    fprintf(s->file, "<g class=\"%s\"><title>", lane < IDLE ? "busy" : "idle");
    print_row_name(s, row);
    fprintf(s->file, ", %s: %.6g s, %.1f %% of the time</title>", lane_name(lane),
            mean * s->bins * s->bin_s, 100 * mean);
    fprintf(s->file, "<rect y=\"%d\" width=\"%d\" height=\"%d\"/>", y + 1, s->bins,
            LANE_HEIGHT - 2);
    for (int i = 1; i <= SHADES; i++)
        print_shade(s, row, lane, i, y);
    fputs("</g>\n", s->file);
}

static void begin_picture(const struct sheet *s, int lanes)
{
    fprintf(s->file,
            "<svg class=\"lanes\" role=\"img\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
            "style=\"height:calc(var(--h)*%d)\">\n",
            s->bins, lanes * LANE_HEIGHT, lanes);
}

static void end_picture(const struct sheet *s)
{
    double end = s->bins * s->bin_s, unit, tick;
    sheet_time_unit(end, &unit);
    tick = sheet_tick(end / unit, TICKS) * unit;
    fputs("<path class=\"grid\" d=\"", s->file);
    for (double at = tick; at < end; at += tick)
        fprintf(s->file, "M%.2f 0v9999", at / s->bin_s);
    fputs("\"/></svg>\n", s->file);
}

/* A rank, and its stages from top to bottom. */
static void print_rank(const struct sheet *s, int row, const int *lanes, int count)
{
    fputs("<h3>", s->file);
    print_row_name(s, row);
    fputs("</h3>\n<div class=\"names\">", s->file);
    for (int i = 0; i < count; i++)
        fprintf(s->file, "<span>%s</span>", lane_name(lanes[i]));
    fputs("</div>\n", s->file);
    begin_picture(s, count);
    for (int i = 0; i < count; i++)
        print_lane(s, row, lanes[i], i * LANE_HEIGHT);
    end_picture(s);
    fputs("<div class=\"shares\">", s->file);
    for (int i = 0; i < count; i++)
        fprintf(s->file, "<span>%.0f %%</span>", 100 * mean_share(s, row, lanes[i]));
    fputs("</div>\n", s->file);
}

/* A stage, and all ranks from top to bottom. */
static void print_stage(const struct sheet *s, int lane)
{
    double sum = 0;
    fprintf(s->file, "<h3>%s</h3>\n<div class=\"ends\"><span>", lane_name(lane));
    print_row_name(s, 0);
    fputs("</span><span>", s->file);
    print_row_name(s, s->rows - 1);
    fputs("</span></div>\n", s->file);
    begin_picture(s, s->rows);
    for (int row = 0; row < s->rows; row++) {
        print_lane(s, row, lane, row * LANE_HEIGHT);
        sum += mean_share(s, row, lane);
    }
    end_picture(s);
    fprintf(s->file, "<div class=\"shares\"><span>%.0f %%</span></div>\n", 100 * sum / s->rows);
}

static void print_axis(const struct sheet *s)
{
    double end = s->bins * s->bin_s, unit_s;
    const char *unit = sheet_time_unit(end, &unit_s);
    double tick = sheet_tick(end / unit_s, TICKS);
    fputs("<div class=\"axis\">", s->file);
    for (int i = 0; i * tick * unit_s < 0.97 * end; i++)
        fprintf(s->file, "<span style=\"left:%.2f%%\">%g</span>", 100 * i * tick * unit_s / end,
                i * tick);
    fprintf(s->file, "</div>\n<p class=\"unit\">%s since the first stage began</p>\n", unit);
}

/* What else went on while the device waited. */
static void print_waiting(const struct sheet *s)
{
    double waited = 0, busy[STAGE_COUNT] = {0};
    for (int row = 0; row < s->rows; row++)
        for (int i = 0; i < s->bins; i++) {
            double idle = share(s, row, IDLE, i);
            waited += idle;
            for (int lane = 0; lane < STAGE_COUNT; lane++)
                busy[lane] += idle * share(s, row, lane, i);
        }
    fprintf(s->file, "<p>The device waited %.0f %% of the time",
            100 * waited / (s->rows * s->bins));
    const char *between = ". In that time other stages were busy: ";
    for (int lane = 0; lane < STAGE_COUNT; lane++)
        if (lane != STAGE_GEMM && lane != STAGE_CHECK && waited > 0 && is_used(s, lane)) {
            fprintf(s->file, "%s%s %.0f&#160;%%", between, lane_name(lane),
                    100 * busy[lane] / waited);
            between = ", ";
        }
    fputs(".</p>\n", s->file);
}

void page_timeline(const struct sheet *s)
{
    int lanes[LANE_COUNT], count = 0, ranks = s->facts->machine->ranks;
    static const int order[LANE_COUNT] = {STAGE_READ, STAGE_CACHE, STAGE_NETWORK,
                                          STAGE_IN,   STAGE_GEMM,  STAGE_CHECK,
                                          IDLE,       STAGE_OUT,   STAGE_WRITE};
    for (int i = 0; i < LANE_COUNT; i++)
        if (order[i] == IDLE || is_used(s, order[i]))
            lanes[count++] = order[i];
    fputs("<section id=\"timeline\">\n<h2>Timeline</h2>\n", s->file);
    fprintf(s->file,
            "<p>The stronger the colour, the larger the part of each %.3g ms in which a stage was "
            "at work",
            1e3 * s->bin_s);
    if (ranks > s->rows)
        fprintf(s->file, "; %d ranks in %d groups", ranks, s->rows);
    fputs(".</p>\n", s->file);
    print_waiting(s);
    fprintf(s->file, "<div class=\"timeline\" style=\"--h:%dpx\">\n",
            s->rows <= RANKS_APART  ? 15
            : s->rows <= 2 * SHADES ? 8
                                    : 5);
    if (s->rows <= RANKS_APART)
        for (int row = 0; row < s->rows; row++)
            print_rank(s, row, lanes, count);
    else
        for (int i = 0; i < count; i++)
            print_stage(s, lanes[i]);
    print_axis(s);
    fputs("</div>\n</section>\n", s->file);
}
