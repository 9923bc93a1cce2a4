/* A program that multiplies by itself, without the command line: it has its own MPI, and ranks that
 * are a part of its own, in another order.  tests/system/test_caller.py runs it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm_impl.h"
#include "error.h"
#include "job.h"
#include "nodes.h"

/* All steps of job.h.  Returns the code of the error. */
static int multiply(const struct caller *caller, struct error *err)
{
    struct hardware hardware;
    static struct job job;
    static struct outlook outlook;
    static struct record record;
    const struct machine *machine = &hardware.machine;
    outlook = (struct outlook){0};
    record = (struct record){0};
    hardware_find(caller, &hardware, err);
    job_open(caller, &job, err);
    if (job.described)
        hardware_probe(caller, &job.problem, &hardware);
    if (job_plan(caller, machine, &job, &outlook, err) == 0 && !job.complete) {
        const struct plan *plan = &outlook.first.plan;
        if (job_resume(caller, machine, &job, &outlook, &record.report, err) == 0 &&
            hardware_open(caller, &hardware, outlook.first.request.algorithm, plan->compute_threads,
                          err) == 0 &&
            job_begin(caller, machine, &job, &outlook, err) == 0 &&
            job_run(caller, &hardware, &job, &outlook, &record, err) == 0)
            job_publish(caller, machine, &job, &record.report, err);
        if (caller->comm->rank == 0)
            job_conclude(caller, &job, err);
    }
    free(hardware.placements);
    hardware_close(&hardware);
    job_close(&job);
    return err->code;
}

/* The verdict on a C that is there. */
static const char *check(const struct caller *caller, struct error *err)
{
    struct hardware hardware;
    static struct job job;
    struct verify found;
    const char *verdict = "none";
    if (job_check(caller, &hardware, &job, &found, err) == 0)
        verdict = found.judged ? findings_verdict(&found.findings) : "not judged";
    job_close(&job);
    return verdict;
}

static void tell(const struct caller *caller, const char *step, int code, const struct error *err)
{
    uint64_t ranks = comm_sum(caller->comm, err->code == code);
    if (caller->comm->rank == 0)
        printf("%s: %d on %d ranks of %d: %s\n", step, err->code, (int)ranks, caller->comm->size,
               err->text);
}

/* With a mistake, within the memory that is given, and once more. */
static void work(struct comm *comm, const char *input, const char *output)
{
    static struct options options;
    const struct caller caller = {.options = &options, .comm = comm};
    struct error mistake = {0}, job = {0}, again = {0}, checked = {0};
    options_begin(&options);
    options.check.seed = 1;
    options.device = CHOOSE_CPU;
    options.resources.host_memory = 16 << 20;
    options.resources.gpu_memory = 40 << 10;
    snprintf(options.a.file, sizeof options.a.file, "%s", input);
    snprintf(options.b.file, sizeof options.b.file, "%s", input);
    snprintf(options.output.file, sizeof options.output.file, "%s", output);
    strcpy(options.a.dataset, "/A");
    strcpy(options.b.dataset, "/none");
    strcpy(options.output.dataset, "/C");
    tell(&caller, "mistake", multiply(&caller, &mistake), &mistake);
    strcpy(options.b.dataset, "/B");
    tell(&caller, "product", multiply(&caller, &job), &job);
    tell(&caller, "again", multiply(&caller, &again), &again);
    const char *verdict = check(&caller, &checked);
    tell(&caller, "check", checked.code, &checked);
    if (comm->rank == 0)
        printf("verdict: %s\n", verdict);
}

int main(int argc, char **argv)
{
    int rank, provided;
    MPI_Comm part;
    struct comm comm = {0};
    struct error err = {0};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0 ? 1 : MPI_UNDEFINED, -rank, &part);
    if (part != MPI_COMM_NULL) {
        comm_open(&comm, part, exit);
        if (nodes_form(&comm, &err) == 0)
            work(&comm, argv[1], argv[2]);
        comm_close(&comm);
        MPI_Comm_free(&part);
    }
    MPI_Finalize();
    return err.code;
}
