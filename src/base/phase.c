#include "phase.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "meter.h"
#include "quantity.h"

enum { LINE_BYTES = 256, DETAIL_BYTES = 128, COLUMNS = 80, UPDATES_PER_SECOND = 4 };
enum { LOG_SECONDS = 60, CLOCK_BYTES = 32 };
static const double memory_s = 15; /* after so long a rate counts 1/e of a new one */

/* The line, and the phase that it shows. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool on, live, draws, ending; /* draws: the thread does */
    bool drawn;                   /* the line is on the terminal */
    double period_s;              /* between two lines */
    double started, told;         /* clock_now: of the first phase, of the newest line */
    phase_listener *listener;     /* who is told, and no line is drawn */
    void *user;
    struct phase phase; /* `what` is null: none */
    bool counts;        /* bytes, by phase_count */
    char details[DETAIL_BYTES];
    double begun;             /* clock_now, of the phase */
    double seconds, gained;   /* decaying sums, whose ratio is the rate */
    double before, before_at; /* what was done, and when, as these have it */
} line = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static _Atomic uint64_t counted; /* bytes of the phase */

/* Static functions but draw_on are called with the lock held. */
static double done_now(void)
{
    return fmin(line.counts ? (double)counted : line.phase.done, line.phase.amount);
}

/* 1:02:03, or 2:03 */
static const char *clock_text(double seconds, char text[CLOCK_BYTES])
{
    long long s = llround(fmin(seconds, 1e12));
    if (s < 3600)
        snprintf(text, CLOCK_BYTES, "%lld:%02lld", s / 60, s % 60);
    else
        snprintf(text, CLOCK_BYTES, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return text;
}

/* What is new since the rate was last computed counts in full, what came before the less the older
 * it is. */
static void remember(double done, double now)
{
    const double elapsed = now - line.before_at, fade = exp(-elapsed / memory_s);
    if (done <= line.before)
        return;
    line.seconds = line.seconds * fade + elapsed;
    line.gained = line.gained * fade + done - line.before;
    line.before = done;
    line.before_at = now;
}

static double rate_now(void)
{
    return line.seconds > 0 ? line.gained / line.seconds : 0;
}

/* Of a phase whose amount and rate are known. */
static double seconds_left(double done)
{
    return (line.phase.amount - done) / rate_now() + line.phase.tail_s;
}

/* Of a phase whose amount is known.  One that tells nothing yet counts bytes, too. */
static void compose_share(double done, char *text, size_t size)
{
    char left[CLOCK_BYTES] = "?";
    const double amount = line.phase.amount, rate = rate_now();
    if (rate > 0)
        clock_text(seconds_left(done), left);
    if (line.counts)
        snprintf(text, size, " %.1f%%  eta %s  %s of %s  %s", 100 * done / amount, left,
                 quantity_bytes(done), quantity_bytes(amount), quantity_rate(rate));
    else if (line.details[0])
        snprintf(text, size, " %.1f%%  eta %s  %s%s", 100 * done / amount, left,
                 quantity_flops(rate), line.details);
    else if (done < amount)
        snprintf(text, size, " %.1f%%  eta %s  %s read or written", 100 * done / amount, left,
                 quantity_bytes((double)counted));
    else
        snprintf(text, size, " 100.0%%");
}

static void compose(double now, char text[LINE_BYTES])
{
    char elapsed[CLOCK_BYTES], so_far[CLOCK_BYTES];
    const int length = snprintf(text, LINE_BYTES, "[%s] %s",
                                clock_text(now - line.started, elapsed), line.phase.what);
    const size_t left = LINE_BYTES - (size_t)length;
    const double done = done_now();
    remember(done, now);
    if (line.phase.amount > 0)
        compose_share(done, text + length, left);
    else
        snprintf(text + length, left, "  for %s", clock_text(now - line.begun, so_far));
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : COLUMNS;
}

/* The length of as many of a line's fields as have room. */
static int fitting(const char *text, int room)
{
    int length = (int)strlen(text);
    while (length > 0 && (length > room || (text[length] && strncmp(text + length, "  ", 2) != 0)))
        length--;
    return length;
}

/* Without the lock, which phases take that go on meanwhile. */
static void tell(double now)
{
    const double done = done_now();
    const bool known = line.phase.amount > 0;
    remember(done, now);
    const struct phase_now phase = {
        .what = line.phase.what,
        .share = known ? done / line.phase.amount : -1,
        .seconds_left = known && rate_now() > 0 ? seconds_left(done) : -1,
    };
    line.told = now;
    pthread_mutex_unlock(&line.lock);
    line.listener(line.user, &phase);
    pthread_mutex_lock(&line.lock);
}

static void draw(double now)
{
    char text[LINE_BYTES];
    compose(now, text);
    if (line.live)
        fprintf(stderr, "\r%.*s\033[K", fitting(text, columns() - 1), text);
    else
        fprintf(stderr, "%s\n", text);
    line.drawn = line.live;
    line.told = now;
}

static void draw_if_due(void)
{
    const double now = clock_now();
    if (line.on && line.phase.what && now >= line.told + line.period_s)
        draw(now);
}

static void erase(void)
{
    if (line.drawn)
        fprintf(stderr, "\r\033[K");
    line.drawn = false;
}

/* A live line shows the end of each phase. */
static void finish(void)
{
    if (line.on && line.live && line.phase.what && line.phase.amount > 0)
        draw(clock_now());
    line.phase.what = NULL;
}

static void start(const struct phase *phase, bool counts)
{
    finish();
    line.phase = *phase;
    line.counts = counts;
    line.seconds = line.gained = 0;
    line.before = phase->done;
    line.begun = line.before_at = clock_now();
    counted = 0;
}

static void wait_until_due(void)
{
    struct timespec until;
    double whole, wait_s = line.told + line.period_s - clock_now();
    clock_gettime(CLOCK_REALTIME, &until);
    const double part = modf(fmax(wait_s, line.period_s / 4), &whole);
    until.tv_sec += (time_t)whole;
    until.tv_nsec += (long)(1e9 * part);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&line.wake, &line.lock, &until);
}

static void *draw_on(void *ignored)
{
    (void)ignored;
    pthread_mutex_lock(&line.lock);
    while (!line.ending) {
        if (!line.listener)
            draw_if_due();
        else if (line.phase.what)
            tell(clock_now());
        wait_until_due();
    }
    pthread_mutex_unlock(&line.lock);
    return NULL;
}

static void open_every(double seconds)
{
    line.ending = false;
    line.period_s = seconds;
    line.started = line.told = clock_now();
    line.draws = pthread_create(&line.thread, NULL, draw_on, NULL) == 0;
}

/* Without its thread the line shows what phase_tell says, when it says it. */
void phases_open(bool live)
{
    line.on = true;
    line.live = live;
    open_every(live ? 1.0 / UPDATES_PER_SECOND : LOG_SECONDS);
}

void phases_open_to(phase_listener *listener, void *user)
{
    line.listener = listener;
    line.user = user;
    open_every(1.0 / UPDATES_PER_SECOND);
}

void phases_close(void)
{
    phase_end();
    pthread_mutex_lock(&line.lock);
    line.on = false;
    line.ending = true;
    pthread_cond_signal(&line.wake);
    pthread_mutex_unlock(&line.lock);
    if (line.draws)
        pthread_join(line.thread, NULL);
    line.draws = false;
    line.listener = NULL;
}

void phase_begin(const char *what, double bytes)
{
    pthread_mutex_lock(&line.lock);
    start(&(struct phase){.what = what, .amount = bytes}, true);
    pthread_mutex_unlock(&line.lock);
}

void phase_count(double bytes)
{
    counted += (uint64_t)bytes;
}

void phase_tell(const struct phase *now)
{
    pthread_mutex_lock(&line.lock);
    if (line.phase.what != now->what)
        start(now, false);
    line.phase = *now;
    snprintf(line.details, sizeof line.details, "%s", now->details);
    draw_if_due();
    pthread_mutex_unlock(&line.lock);
}

void phase_end(void)
{
    pthread_mutex_lock(&line.lock);
    finish();
    erase();
    pthread_mutex_unlock(&line.lock);
}

void phase_hide(void)
{
    pthread_mutex_lock(&line.lock);
    erase();
    line.told = line.live ? clock_now() : line.told;
    pthread_mutex_unlock(&line.lock);
}
