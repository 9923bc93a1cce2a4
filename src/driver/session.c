#include "session.h"

#include "meter.h"

void session_end_startup(struct session *s, enum startup phase)
{
    double now = clock_now();
    s->record.report.startup[phase] += now - s->startup_ended;
    s->startup_ended = now;
}

void session_share_problem(struct session *s)
{
    comm_share(&s->comm, &s->problem, sizeof s->problem, 0);
    comm_share(&s->comm, s->sources, sizeof s->sources, 0);
    s->problem.sources = s->sources;
}
