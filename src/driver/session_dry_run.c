#include <stdio.h>

#include "device.h"
#include "error.h"
#include "gpu_absence.h"
#include "launcher.h"
#include "quantity.h"
#include "session.h"

int session_dry_run(struct session *s)
{
    const struct options *o = &s->options;
    struct device_info info;
    struct error beyond = {0};
    int ranks = o->ranks ? o->ranks : launcher_size();
    int launched = o->ranks ? ranks : launcher_local_size();
    int local = o->ranks_per_node ? o->ranks_per_node : launched;
    int gpus = o->device != CHOOSE_CPU ? device_gpu_count() : 0;
    bool gpu = gpus > 0 && device_gpu_info(0, &info, &s->err) == 0;
    int sharing = gpu ? (int)ceil_div(local, gpus) : 1;
    if (!gpu && !o->machine[0] && o->device == CHOOSE_GPU)
        error_add(&s->err, EXIT_RESOURCES,
                  "no GPU can be used here: %s; --machine plans for one that is elsewhere",
                  device_gpu_absence());
    else if (!gpu && !o->machine[0] && o->device == CHOOSE_AUTO && o->algorithm == ALGORITHM_AUTO)
        session_say_cpu();
    machine_probe(o, ranks, local, machine_cpus() / local, gpu ? &info : NULL, sharing,
                  &s->machine);
    if (o->machine[0])
        machine_read(o, &s->machine, &s->err);
    s->machine.ranks = o->ranks ? o->ranks : s->machine.ranks;
    s->machine.ranks_per_node = o->ranks_per_node ? o->ranks_per_node : s->machine.ranks_per_node;
    s->described = problem_open(o, &s->problem, &s->err) == 0;
    if (s->described && output_check_beside(o, &s->problem, &s->err) == 0) {
        if (!o->machine[0])
            machine_probe_disk(&s->problem,
                               (int)ceil_div(s->machine.ranks, s->machine.ranks_per_node),
                               &s->machine);
        work_begin(&s->progress.left, &s->problem);
        session_plan(s);
    }
    if (s->err.code)
        return s->err.code;
    s->all = s->predicted;
    if (!o->quiet) {
        plan_print(&s->problem, &s->machine, &s->plan);
        simulate_print(&s->all);
    }
    simulate_print_time(&s->all);
    if (!o->machine[0] &&
        machine_check_memory(o, local, gpu ? &info : NULL, sharing, &s->machine, &beyond))
        error_add(&beyond, EXIT_RESOURCES, "a run with this limit would be refused");
    else if (!o->machine[0])
        session_warn_of_memory(s, local);
    error_print(&beyond, "dgemm_ooc");
    return s->err.code;
}
