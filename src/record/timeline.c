#include "timeline.h"

#include <math.h>
#include <string.h>

static const double narrowest = 1e-6; /* seconds */

void timeline_begin(struct timeline *t, double now)
{
    t->start = now;
    t->width = narrowest;
}

static void fold(double bins[TIMELINE_BINS])
{
    enum { HALF = TIMELINE_BINS / 2 };
    for (int i = 0; i < HALF; i++)
        bins[i] = bins[2 * i] + bins[2 * i + 1];
    memset(bins + HALF, 0, HALF * sizeof *bins);
}

void timeline_widen(struct timeline *t, double width)
{
    while (t->width < width) {
        t->width *= 2;
        for (int i = 0; i < STAGE_COUNT; i++) {
            fold(t->busy_s[i]);
            fold(t->amount[i]);
        }
    }
}

void timeline_add(struct timeline *t, enum stage stage, double begin, double end, double amount)
{
    begin = fmax(0, begin - t->start);
    end = fmax(begin, end - t->start);
    while (end >= TIMELINE_BINS * t->width)
        timeline_widen(t, 2 * t->width);
    int first = (int)(begin / t->width), last = (int)(end / t->width);
    for (int i = first; i <= last; i++) {
        double busy = fmax(0, fmin(end, (i + 1) * t->width) - fmax(begin, i * t->width));
        t->busy_s[stage][i] += busy;
        t->amount[stage][i] += end > begin ? amount * busy / (end - begin) : amount;
    }
}
