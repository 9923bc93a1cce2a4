/* The times of spans after a month: like CUDA's, the device's clock gives the time between two
 * events as a float of milliseconds. */
#include "scratch.h"

#include <math.h>
#include <unistd.h>

#include "device.h"
#include "meter.h"
#include "trace.h"

enum { EVENTS = 64, SPANS = 20 };
static const double month = 30 * 86400.0;

struct event {
    double time; /* on the device's clock */
};

static struct event events[EVENTS];
static int created, anchored;
static double clock_rate = 1; /* relative to the host's clock */

static int create(struct device *dev, struct event **event, struct error *err)
{
    (void)dev;
    (void)err;
    *event = &events[created++];
    return 0;
}

static void destroy(struct device *dev, struct event *event)
{
    (void)dev;
    (void)event;
}

static int record(struct device *dev, struct event *event, enum stream stream, struct error *err)
{
    (void)dev;
    (void)err;
    assert_int_equal(stream, STREAM_CLOCK);
    event->time = clock_rate * clock_now();
    anchored++;
    return 0;
}

static int sync_event(struct device *dev, struct event *event, struct error *err)
{
    (void)dev;
    (void)event;
    return err->code;
}

static double elapsed(struct device *dev, struct event *start, struct event *stop)
{
    (void)dev;
    return (float)((stop->time - start->time) * 1e3) * 1e-3;
}

static struct device device = {.event_create = create,
                               .event_destroy = destroy,
                               .record = record,
                               .sync = sync_event,
                               .elapsed = elapsed};

/* Moves the start of the trace back in time. */
static void set_back(struct trace *t, double seconds)
{
    t->start -= seconds;
    for (int i = 0; i < 2; i++) {
        t->anchors[i].time -= seconds;
        t->anchors[i].event->time -= clock_rate * seconds;
    }
}

/* Traces consecutive spans of 100 us, beginning now.  Sets *off to the largest error of a start
 * time, and *uneven to the largest gap between neighbours. */
static void trace_some(struct trace *t, double *off, double *uneven)
{
    double now = clock_now();
    int64_t first = t->count;
    *off = *uneven = 0;
    for (int i = 0; i < SPANS; i++) {
        struct event begin = {clock_rate * (now + 1e-4 * i)};
        struct event end = {clock_rate * (now + 1e-4 * (i + 1))};
        trace_device(t, (struct span){.stage = STAGE_GEMM}, &begin, &end);
        const struct span *span = &t->spans[first + i];
        *off = fmax(*off, fabs(span->begin - (now + 1e-4 * i - t->start)));
        if (i > 0)
            *uneven = fmax(*uneven, fabs(span->begin - span[-1].end));
    }
}

static void open_trace(struct trace *t)
{
    struct error err = {0};
    created = anchored = 0;
    succeed(trace_open(t, &device, true, NULL, &err), &err);
}

static void test_a_month_later(void **state)
{
    (void)state;
    struct trace t;
    double off, uneven;
    clock_rate = 1;
    open_trace(&t);
    set_back(&t, month);
    trace_some(&t, &off, &uneven);
    assert_true(t.spans[0].begin > month - 1);
    assert_true(off < 1e-3); /* the host may notice an anchor late */
    assert_true(uneven < 1e-5);
    trace_close(&t);
}

/* Spans stay accurate while the clocks drift apart, without a new anchor for every span. */
static void test_clocks_that_part(void **state)
{
    (void)state;
    struct trace t;
    clock_rate = 1 + 1e-4;
    open_trace(&t);
    int minutes = 200, before = anchored;
    for (int i = 0; i < minutes; i++) {
        double off, uneven;
        set_back(&t, 61);
        trace_some(&t, &off, &uneven);
        assert_true(off < 1e-3 && uneven < 1e-5);
    }
    assert_true(anchored - before >= minutes && anchored - before < 3 * minutes);
    trace_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_month_later),
        cmocka_unit_test(test_clocks_that_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
