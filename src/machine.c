#include "machine.h"

#include <linux/magic.h>
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "error.h"
#include "options.h"
#include "quantity.h"

enum { HUGE_PAGE = 2 << 20 };

int machine_threads(int cpus)
{
    const char *wanted = getenv("OMP_NUM_THREADS");
    if (wanted && atoi(wanted) > 0)
        return atoi(wanted);
    return cpus > 1 ? cpus : 1;
}

int machine_cpus(void)
{
    cpu_set_t set;
    int online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : online;
}

/* FLOPs per multiprocessor and clock of the fastest unit for the type. */
static double gpu_flops_per_clock(int capability, enum scalar type)
{
    bool tensor_fp64 = capability == 80 || capability == 90 || capability == 100;
    if (type == SCALAR_FLOAT)
        return capability == 75 || capability == 80 ? 128 : 256;
    return capability == 90 ? 256 : tensor_fp64 ? 128 : 4;
}

double machine_gpu_peak(const struct device_info *info, enum scalar type)
{
    double clock = info->clock_khz > 0 ? info->clock_khz * 1e3 : 1.5e9;
    return info->units * clock * gpu_flops_per_clock(info->compute_capability, type);
}

static void assume_gpu_rates(const struct device_info *info, struct machine *m)
{
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        m->gemm_flops_per_s[type] = 0.86 * machine_gpu_peak(info, (enum scalar)type);
    m->in_bytes_per_s = m->out_bytes_per_s = info->compute_capability >= 90 ? 50e9 : 22e9;
    m->device_bytes_per_s = info->compute_capability >= 90 ? 2500e9 : 1200e9;
}

/* Of several ranks that work on one GPU each has its part. */
static void share_gpu_rates(int sharing, struct machine *m)
{
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        m->gemm_flops_per_s[type] /= sharing;
    m->in_bytes_per_s /= sharing;
    m->out_bytes_per_s /= sharing;
    m->device_bytes_per_s /= sharing;
}

/* A GPU that is not here: as much as is not said of it is an H100's. */
static void assume_gpu(struct machine *m)
{
    static const struct device_info h100 = {
        .units = 132, .clock_khz = 1980000, .compute_capability = 90};
    assume_gpu_rates(&h100, m);
    m->compute_capability = h100.compute_capability;
    m->device_memory = (size_t)76e9;
}

static void assume_cpu_rates(struct machine *m)
{
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        m->gemm_flops_per_s[type] = 3e9 * m->threads * gemm_cpu_flops_per_cycle((enum scalar)type);
    m->in_bytes_per_s = m->out_bytes_per_s = m->device_bytes_per_s = 8e9;
}

/* Rates of the file system that holds the input: a disk, or a file system in memory, where with
 * many CPUs every thread writes at once (store.h), as fast as pages can be had; large ones come
 * faster, to several processes faster still. */
static void assume_disk_rates(const char *input, struct machine *m)
{
    const double to_huge = m->ranks_per_node > 1 ? 40e9 : 20e9;
    struct statfs fs;
    struct stat file;
    bool in_memory = statfs(input, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
    bool huge = in_memory && stat(input, &file) == 0 && file.st_blksize >= HUGE_PAGE;
    double by_threads = 1.4e9 * m->threads * m->ranks_per_node;
    m->files_in_memory = in_memory;
    m->disk_read_bytes_per_s = in_memory ? 20e9 : 2e9;
    m->disk_write_bytes_per_s = in_memory ? fmin(by_threads, huge ? to_huge : 6e9) : 1.5e9;
    m->disk_run_bytes = in_memory ? 3 << 10 : 32 << 10;
}

static void apply_limits(const struct options *options, struct machine *m)
{
    if (options->host_memory)
        m->host_memory = options->host_memory;
    if (options->gpu_memory)
        m->device_memory = options->gpu_memory;
}

void machine_probe(const struct options *options, int ranks, int local_ranks, int cpus,
                   const struct device_info *device, int sharing, struct machine *m)
{
    *m = (struct machine){.gpu = device != NULL,
                          .ranks = ranks,
                          .ranks_per_node = local_ranks,
                          .threads = machine_threads(cpus),
                          .network_bytes_per_s = 10e9};
    assume_disk_rates(options->a.file, m);
    m->host_memory = (size_t)(machine_host_memory() / 2 / (uint64_t)local_ranks);
    m->device_memory = m->host_memory;
    if (device) {
        snprintf(m->name, sizeof m->name, "%s", device->name);
        m->compute_capability = device->compute_capability;
        m->device_memory = device->memory_free / 100 * 95 / (size_t)sharing;
        assume_gpu_rates(device, m);
        share_gpu_rates(sharing, m);
    } else {
        snprintf(m->name, sizeof m->name, "CPU, %d thread%s a rank", m->threads,
                 m->threads == 1 ? "" : "s");
        assume_cpu_rates(m);
    }
    apply_limits(options, m);
}

/* The members of a machine file that are numbers, and where they are kept. */
static const struct member {
    const char *key;
    enum { REAL, BYTES, COUNT } kind;
    size_t offset;
} members[] = {
    {"ranks", COUNT, offsetof(struct machine, ranks)},
    {"ranks_per_node", COUNT, offsetof(struct machine, ranks_per_node)},
    {"threads", COUNT, offsetof(struct machine, threads)},
    {"compute_capability", COUNT, offsetof(struct machine, compute_capability)},
    {"device_memory_bytes", BYTES, offsetof(struct machine, device_memory)},
    {"host_memory_bytes", BYTES, offsetof(struct machine, host_memory)},
    {"disk_read_bytes_per_s", REAL, offsetof(struct machine, disk_read_bytes_per_s)},
    {"disk_write_bytes_per_s", REAL, offsetof(struct machine, disk_write_bytes_per_s)},
    {"disk_run_bytes", REAL, offsetof(struct machine, disk_run_bytes)},
    {"in_bytes_per_s", REAL, offsetof(struct machine, in_bytes_per_s)},
    {"out_bytes_per_s", REAL, offsetof(struct machine, out_bytes_per_s)},
    {"device_bytes_per_s", REAL, offsetof(struct machine, device_bytes_per_s)},
    {"gemm_double_flops_per_s", REAL, offsetof(struct machine, gemm_flops_per_s[SCALAR_DOUBLE])},
    {"gemm_float_flops_per_s", REAL, offsetof(struct machine, gemm_flops_per_s[SCALAR_FLOAT])},
    {"node_disk_bytes_per_s", REAL, offsetof(struct machine, node_disk_bytes_per_s)},
    {"network_bytes_per_s", REAL, offsetof(struct machine, network_bytes_per_s)},
};
enum { MEMBERS = sizeof members / sizeof members[0] };

/* Null for what is not known. */
static json_t *member_json(const struct member *member, const struct machine *m)
{
    const void *from = (const char *)m + member->offset;
    const double *real = from;
    const size_t *bytes = from;
    const int *count = from;
    switch (member->kind) {
    case REAL: return *real > 0 ? json_real(*real) : NULL;
    case BYTES: return json_integer((json_int_t)*bytes);
    case COUNT: return *count > 0 ? json_integer(*count) : NULL;
    }
    return NULL;
}

json_t *machine_json(const struct machine *m)
{
    json_t *json = json_pack("{s:s, s:s, s:b}", "name", m->name, "device", m->gpu ? "gpu" : "cpu",
                             "files_in_memory", m->files_in_memory);
    for (int i = 0; i < MEMBERS; i++) {
        json_t *value = member_json(&members[i], m);
        if (value)
            json_object_set_new(json, members[i].key, value);
    }
    return json;
}

static bool read_number_member(const struct member *member, const json_t *value, struct machine *m)
{
    void *to = (char *)m + member->offset;
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number > 0))
        return false;
    switch (member->kind) {
    case REAL: *(double *)to = number; return true;
    case BYTES: return number < 0x1p62 && (*(size_t *)to = (size_t)number, true);
    case COUNT:
        return json_is_integer(value) && number <= 1 << 24 && (*(int *)to = (int)number, true);
    }
    return false;
}

static bool read_member(const char *key, const json_t *value, const char **device,
                        struct machine *m)
{
    for (int i = 0; i < MEMBERS; i++)
        if (strcmp(key, members[i].key) == 0)
            return read_number_member(&members[i], value, m);
    if (strcmp(key, "files_in_memory") == 0 && json_is_boolean(value)) {
        m->files_in_memory = json_boolean_value(value);
        return true;
    }
    if (strcmp(key, "device") == 0 && json_is_string(value)) {
        *device = json_string_value(value);
        return true;
    }
    if (strcmp(key, "name") == 0 && json_is_string(value) &&
        json_string_length(value) < sizeof m->name) {
        snprintf(m->name, sizeof m->name, "%s", json_string_value(value));
        return true;
    }
    return false;
}

int machine_read(const struct options *options, struct machine *m, struct error *err)
{
    json_error_t where;
    json_t *root = json_load_file(options->machine, JSON_REJECT_DUPLICATES, &where);
    if (!json_is_object(root)) {
        if (root)
            error_add(err, EXIT_USAGE, "--machine %s: not a JSON object", options->machine);
        else if (where.line < 0)
            error_add(err, EXIT_USAGE, "--machine: %s", where.text);
        else
            error_add(err, EXIT_USAGE, "--machine %s: %s (line %d)", options->machine, where.text,
                      where.line);
        json_decref(root);
        return err->code;
    }
    m->files_in_memory = false;
    const char *key, *device = m->gpu ? "gpu" : "cpu";
    json_t *value = json_object_get(root, "device");
    if (!m->gpu && json_is_string(value) && strcmp(json_string_value(value), "gpu") == 0)
        assume_gpu(m);
    json_object_foreach(root, key, value) if (!read_member(key, value, &device, m))
        error_add(err, EXIT_USAGE,
                  "--machine %s: \"%s\" is not a key of a machine file, or its value is invalid",
                  options->machine, key);
    m->gpu = strcmp(device, "gpu") == 0;
    if (!m->gpu && strcmp(device, "cpu") != 0)
        error_add(err, EXIT_USAGE, "--machine %s: \"device\" is \"gpu\" or \"cpu\"",
                  options->machine);
    json_decref(root);
    apply_limits(options, m);
    return err->code;
}
