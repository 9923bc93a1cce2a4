#include "session.h"

#include "meter.h"

void session_end_startup(struct session *s, enum startup phase)
{
    double now = clock_now();
    s->record.report.startup[phase] += now - s->startup_ended;
    s->startup_ended = now;
}
