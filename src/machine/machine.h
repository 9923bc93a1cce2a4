/* The machine: what each rank may use, and how fast the links are.
 *
 * Memories are read from the machine or given by the user.  Rates are assumed from the kind of
 * device; those of reading files and of products on a CPU, and that of copies to a GPU where it is
 * not the usual one, are measured, unless a machine file is given.  Rates decide on the plan and
 * its prediction, never on the bits of the result. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "device.h"

struct json_t;
struct options;
struct resources;
struct problem;
struct error;

/* Plain data. */
struct machine {
    char name[96];
    bool gpu;
    int compute_capability; /* of the GPU: 90 for 9.0 */
    int ranks, ranks_per_node;
    int threads;          /* CPU threads a rank */
    size_t device_memory; /* bytes a rank may take on its device */
    size_t host_memory;   /* bytes a rank may take on its host, the CPU device included */
    size_t device_unlimited, host_unlimited; /* what these would be without the options that limit
                                                them; 0: those were not given */
    bool files_in_memory;  /* A and B lie in the node's memory, whose bandwidth all ranks share */
    bool output_in_memory; /* C will */
    double disk_read_bytes_per_s,
        disk_write_bytes_per_s; /* of the input's file system, of C's; all ranks together */
    double disk_run_bytes;      /* a read of this length runs at half the rate */
    double in_bytes_per_s, out_bytes_per_s; /* host to device and back, each rank */
    double device_bytes_per_s;              /* of the device's own memory */
    double node_disk_bytes_per_s; /* between a node and the file system, each way; 0: no limit */
    double network_bytes_per_s;   /* between a node and the others, each way */
    double gemm_flops_per_s[2];   /* each rank; float, double */
    double int8_ops_per_s;        /* of each rank's GPU, in products of residues */
    unsigned given, measured;     /* a bit for each member of a machine file: its source */
};

/* What one of the ranks has of its computer. */
struct share {
    int ranks, local_ranks;           /* of the run; of them on this computer */
    int cpus;                         /* for this rank's threads */
    const struct device_info *device; /* its GPU; null: the CPU */
    int sharing;                      /* ranks that use that GPU */
};

/* Describe this machine for such a rank. */
void machine_probe(const struct options *options, const struct share *share,
                   struct machine *machine);

/* Take the measured rate of copies to this rank's GPU, which no other rank uses, where it is not
 * the usual one: a slot or switch of an older generation, or a link that is faster than those known
 * here.  0: it is not known. */
void machine_see_link(double bytes_per_s, struct machine *machine);

/* The usual rate of copies to a GPU. */
double machine_usual_link(int compute_capability);

/* Bytes of host memory that are available now: what is free, as far as the control groups of this
 * process allow it. */
uint64_t machine_host_memory(void);

/* What each of so many ranks on this computer takes of it by default: half of that, and of what the
 * limits of this process leave, since stacks and libraries need some, too. */
uint64_t machine_usual_memory(int local_ranks);

/* Complain (EXIT_RESOURCES) about limits, given as options or in a machine file, that are beyond
 * what the ranks of this computer can have together. */
int machine_check_memory(const struct resources *resources, const struct share *share,
                         const struct machine *machine, struct error *err);

/* Who measures the rate of the file system: one process, or all ranks at the same time. */
struct prober {
    int local, locals; /* this one's number among those of its computer, and how many these are */
};

/* Measure what the file system gives this prober, in bytes a second: read samples of the largest
 * operand for about a tenth of a second, and see whether it is in memory.  0 for small problems. */
double machine_probe_disk(const struct problem *p, const struct prober *prober,
                          struct machine *machine);

/* Set the rate of the file system to what it was measured to give all computers; 0: leave it. */
void machine_see_disk(double rate, struct machine *machine);

/* Measure how fast each of so many ranks of this computer multiplies on the CPU, in operations a
 * second: products of the shape and layout of the problem's, for about a hundredth of a second.  0
 * on a GPU, for small problems, and where there is no memory for that. */
double machine_probe_products(const struct problem *p, int local_ranks,
                              const struct machine *machine);

/* Set the rate of products of the type to what it was measured to be; 0: leave it. */
void machine_see_products(double rate, enum scalar type, struct machine *machine);

/* Bytes a second that a node's threads write to files in memory, if all of them do nothing else. */
double machine_write_by_threads(const struct machine *machine);

/* Replace the members that the machine file `resources->machine` states, a JSON object with the
 * names above as keys. */
int machine_read(const struct resources *resources, struct machine *machine, struct error *err);

/* The source of the member of the machine that `member` points to: "given" by the user, "measured"
 * here, or "assumed". */
const char *machine_source(const struct machine *machine, const void *member);

/* Note that this member was measured. */
void machine_measured(struct machine *machine, const void *member);

/* The machine file that states all of this machine; the caller frees it. */
struct json_t *machine_json(const struct machine *machine);

/* Whether devices have memory of their own, which the host has no other use for. */
bool machine_has_own_memory(const struct machine *machine);

/* Operations a second of a GPU's fastest unit for the type, at its highest clock; SCALAR_INT8: for
 * products of bytes. */
double machine_gpu_peak(const struct device_info *info, enum scalar type);

/* Threads of one of `ranks` ranks of this computer, with so many CPUs: OMP_NUM_THREADS where that
 * is set, otherwise one a CPU, as far as the quota of the control groups allows. */
int machine_threads(int cpus, int ranks);

/* CPUs that this process is bound to. */
int machine_cpus(void);
