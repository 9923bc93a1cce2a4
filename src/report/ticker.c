#include "ticker.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "meter.h"
#include "quantity.h"

enum { LINE_BYTES = 256, COLUMNS = 80, UPDATES_PER_SECOND = 4, LOG_SECONDS = 60 };
static const double memory_s = 15; /* after so long a rate counts 1/e of a new one */

void ticker_open(struct ticker *t, enum progress_choice choice, bool quiet, double flops,
                 double tail_s)
{
    *t = (struct ticker){.flops = flops, .tail_s = tail_s};
    t->on = flops > 0 && (choice == PROGRESS_ALWAYS || (choice == PROGRESS_AUTO && !quiet));
    t->redraws = choice == PROGRESS_ALWAYS || isatty(STDERR_FILENO);
    t->period_s = t->redraws ? 1.0 / UPDATES_PER_SECOND : LOG_SECONDS;
    t->started = t->told = clock_now();
}

void ticker_begin(struct ticker *t, double done, uint64_t tiles)
{
    t->done = done * t->flops;
    t->tiles = tiles;
    t->before = (struct tally){0};
}

/* 1:02:03, or 2:03 */
static const char *clock_text(double seconds, char text[32])
{
    long long s = llround(fmin(seconds, 1e12));
    if (s < 3600)
        snprintf(text, 32, "%lld:%02lld", s / 60, s % 60);
    else
        snprintf(text, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return text;
}

/* What has happened since the newest line counts in full, what came before the less the older it
 * is. */
static void remember(struct ticker *t, const struct tally *now, double elapsed)
{
    double fade = exp(-elapsed / memory_s);
    t->seconds = t->seconds * fade + elapsed;
    for (int i = 0; i < STAGE_COUNT; i++) {
        double amount = now->amount[i] - t->before.amount[i];
        double busy_s = now->busy_s[i] - t->before.busy_s[i];
        t->amount[i] = t->amount[i] * fade + amount;
        t->busy_s[i] = t->busy_s[i] * fade + busy_s / now->ranks;
    }
    t->before = *now;
}

static void compose(const struct ticker *t, char line[LINE_BYTES])
{
    char elapsed[32], left[32] = "?";
    enum stage limit = STAGE_READ;
    double done = fmin(t->done + t->before.amount[STAGE_GEMM], t->flops);
    double rate = t->amount[STAGE_GEMM] / t->seconds;
    for (int i = 0; i < STAGE_COUNT; i++)
        if (t->busy_s[i] > t->busy_s[limit])
            limit = (enum stage)i;
    if (rate > 0)
        clock_text((t->flops - done) / rate + t->tail_s, left);
    int length = snprintf(line, LINE_BYTES, "[%s] %.1f%%  eta %s  %s  %s %.0f%%",
                          clock_text(clock_now() - t->started, elapsed), 100 * done / t->flops,
                          left, quantity_flops(rate), stage_titles[limit],
                          fmin(100, 100 * t->busy_s[limit] / t->seconds));
    snprintf(line + length, LINE_BYTES - (size_t)length, "  read %s  write %s  tile %.0f/%" PRIu64,
             quantity_rate(t->amount[STAGE_READ] / t->seconds),
             quantity_rate(t->amount[STAGE_WRITE] / t->seconds), t->before.tiles, t->tiles);
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : COLUMNS;
}

/* The length of as many of a line's fields as have room. */
static int fitting(const char *line, int room)
{
    int length = (int)strlen(line);
    while (length > 0 && (length > room || (line[length] && strncmp(line + length, "  ", 2) != 0)))
        length--;
    return length;
}

static bool is_due(const struct ticker *t)
{
    return t->on && clock_now() >= t->told + t->period_s;
}

static void draw(struct ticker *t, const char *line)
{
    if (t->redraws)
        fprintf(stderr, "\r%.*s\033[K", fitting(line, columns() - 1), line);
    else
        fprintf(stderr, "%s\n", line);
    t->drawn = t->redraws;
}

void ticker_tell(struct ticker *t, const struct tally *now)
{
    char line[LINE_BYTES];
    double time = clock_now();
    if (!is_due(t))
        return;
    remember(t, now, time - t->told);
    t->told = time;
    compose(t, line);
    draw(t, line);
}

void ticker_tell_other(struct ticker *t, const char *what, double done)
{
    char line[LINE_BYTES], elapsed[32];
    double time = clock_now();
    if (!is_due(t))
        return;
    t->told = time;
    snprintf(line, sizeof line, "[%s] %.1f%%  %s", clock_text(time - t->started, elapsed),
             100 * done, what);
    draw(t, line);
}

void ticker_hide(struct ticker *t)
{
    if (t->drawn)
        fprintf(stderr, "\r\033[K");
    t->drawn = false;
}
