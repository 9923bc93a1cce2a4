/* gemm_bench: opens the devices, measures, reports. */
#include "gemm_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "machine.h"

enum { GPU = 0 };

/* What a CPU runs too is measured there only without a GPU. */
static bool is_for_gpu(const struct bench_choice *choice)
{
    if (choice->rival)
        return true;
    const struct kernel *kernel = kernels[choice->algorithm];
    return kernel->on_gpu && (!kernel->on_cpu || device_gpu_count() > 0);
}

static int open_device(const struct bench_choice *choice, struct device **dev, struct error *err)
{
    if (!is_for_gpu(choice))
        return device_cpu_open(machine_threads(machine_cpus(), 1), dev, err);
    if (device_gpu_count() == 0)
        return error_add(err, EXIT_RESOURCES, "no GPU here that %s could run on: %s",
                         choice->rival ? choice->rival : kernels[choice->algorithm]->name,
                         device_gpu_absence());
    return choice->rival ? device_gpu_open_library(GPU, choice->rival, dev, err)
                         : device_gpu_open(GPU, (enum algorithm)choice->algorithm, dev, err);
}

static int ladder_add(struct ladder *ladder, struct bench_choice choice, struct error *err)
{
    int rc = open_device(&choice, &ladder->devices[ladder->count], err);
    if (rc == 0)
        ladder->choices[ladder->count++] = choice;
    return rc;
}

/* What was asked for must open; otherwise all that open are taken, on the GPU if there is one. */
static int ladder_open(const struct bench_options *o, bool gpu, struct ladder *ladder,
                       struct error *err)
{
    int rc = 0;
    for (int i = 0; i < o->choice_count && rc == 0; i++)
        if (is_for_gpu(&o->choices[i]) == gpu)
            rc = ladder_add(ladder, o->choices[i], err);
    if (o->choice_count > 0 || gpu != (device_gpu_count() > 0))
        return rc;
    if (!gpu)
        fprintf(stderr, "gemm_bench: no GPU here, so the CPU is measured: %s\n",
                device_gpu_absence());
    for (int id = 0; id < ALGORITHM_COUNT; id++) {
        struct error why = {0};
        bool slow = !gpu && id == ALGORITHM_OZAKI; /* where it is for checking */
        const struct bench_choice choice = {.algorithm = id};
        if (algorithm_is_choice((enum algorithm)id) && is_for_gpu(&choice) == gpu && !slow &&
            ladder_add(ladder, choice, &why) != 0)
            fprintf(stderr, "gemm_bench: %s is left out: %s\n", kernels[id]->name, why.text);
    }
    return 0;
}

int bench_sink_add(struct bench_sink *sink, const struct bench_row *row, struct error *err)
{
    if (sink->count == sink->room) {
        int room = sink->room ? 2 * sink->room : 64;
        struct bench_row *rows = realloc(sink->rows, (size_t)room * sizeof *rows);
        if (!rows)
            return error_add(err, EXIT_RESOURCES, "no memory for the results");
        sink->rows = rows;
        sink->room = room;
    }
    sink->rows[sink->count++] = *row;
    sink->wrong |= row->errors.over > 0;
    bench_print_row(sink->options, row);
    return 0;
}

static int run_on(bool gpu, const struct bench_options *options, struct bench_sink *sink,
                  struct error *err)
{
    struct ladder ladder = {.count = 0};
    int rc = ladder_open(options, gpu, &ladder, err);
    if (rc == 0 && ladder.count > 0) {
        bench_print_head(options, &ladder.devices[0]->info);
        rc = bench_run(options, &ladder, sink, err);
    }
    for (int i = 0; i < ladder.count; i++)
        ladder.devices[i]->close(ladder.devices[i]);
    return rc;
}

int main(int argc, char **argv)
{
    static struct bench_options options;
    static struct error err;
    bench_options_parse(argc, argv, &options);
    struct bench_sink sink = {.options = &options};

    int rc = run_on(false, &options, &sink, &err) || run_on(true, &options, &sink, &err) ? err.code
             : sink.wrong ? EXIT_VERIFY
                          : EXIT_COMPLETE;
    error_print(stderr, &err, "gemm_bench");
    free(sink.rows);
    return rc;
}
