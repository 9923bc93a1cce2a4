#include "machine.h"

#include <errno.h>
#include <glob.h>
#include <jansson.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "control_group.h"
#include "error.h"
#include "file.h"
#include "options.h"
#include "proc.h"
#include "quantity.h"

enum { HUGE_PAGE = 2 << 20 };

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
    {"int8_ops_per_s", REAL, offsetof(struct machine, int8_ops_per_s)},
    {"node_disk_bytes_per_s", REAL, offsetof(struct machine, node_disk_bytes_per_s)},
    {"network_bytes_per_s", REAL, offsetof(struct machine, network_bytes_per_s)},
};
enum { MEMBERS = sizeof members / sizeof members[0] };

/* The bit of the member that is kept there. */
static unsigned bit_of(const struct machine *m, const void *member)
{
    size_t offset = (size_t)((const char *)member - (const char *)m);
    int i = 0;
    while (i < MEMBERS && members[i].offset != offset)
        i++;
    return 1u << i;
}

const char *machine_source(const struct machine *m, const void *member)
{
    unsigned bit = bit_of(m, member);
    return m->given & bit ? "given" : m->measured & bit ? "measured" : "assumed";
}

static void set_source(struct machine *m, const void *member, const char *source)
{
    unsigned bit = bit_of(m, member);
    m->given &= ~bit;
    m->measured &= ~bit;
    if (strcmp(source, "given") == 0)
        m->given |= bit;
    else if (strcmp(source, "measured") == 0)
        m->measured |= bit;
}

void machine_measured(struct machine *m, const void *member)
{
    set_source(m, member, "measured");
}

bool machine_has_own_memory(const struct machine *m)
{
    return m->gpu;
}

static double gpu_clock(const struct device_info *info)
{
    return info->clock_khz > 0 ? info->clock_khz * 1e3 : 1.5e9;
}

double machine_gpu_peak(const struct device_info *info, enum scalar type)
{
    return info->units * gpu_clock(info) * algorithm_peak(info->compute_capability, type);
}

/* Of that, what the fastest kernel reaches. */
static double usual_rate(const struct device_info *info, enum scalar type)
{
    const struct kernel *kernel = kernels[algorithm_auto(info->compute_capability, type)];
    return kernel->of_peak * machine_gpu_peak(info, type);
}

double machine_usual_link(int compute_capability)
{
    return compute_capability >= 90 ? 50e9 : 22e9;
}

static void assume_gpu_rates(const struct device_info *info, struct machine *m)
{
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        m->gemm_flops_per_s[type] = usual_rate(info, (enum scalar)type);
    m->int8_ops_per_s = usual_rate(info, SCALAR_INT8);
    m->in_bytes_per_s = m->out_bytes_per_s = machine_usual_link(info->compute_capability);
    m->device_bytes_per_s = info->compute_capability >= 90 ? 2500e9 : 1200e9;
}

/* Of several ranks that work on one GPU each has its part. */
static void share_gpu_rates(int sharing, struct machine *m)
{
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        m->gemm_flops_per_s[type] /= sharing;
    m->int8_ops_per_s /= sharing;
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
    set_source(m, &m->device_memory, "assumed");
}

/* Of `threads` on so many CPUs, those that have a core's floating-point units to themselves; one,
 * where ranks share a CPU. */
static int computing_threads(int threads, int cpus)
{
    uint64_t two_a_core = 0;
    proc_number("/sys/devices/system/cpu/smt/active", "", &two_a_core);
    const int computing = (int)min_i64(threads, two_a_core ? (cpus + 1) / 2 : cpus);
    return computing > 0 ? computing : 1;
}

/* Where a computer has more threads of ranks than CPUs, these take turns.  A thread copies at about
 * 4.5 GB/s beside others, and all of them check at 2.5 GB/s each (two cores of an AMD EPYC). */
static void assume_cpu_rates(int cpus, int local_ranks, struct machine *m)
{
    const double online = (double)sysconf(_SC_NPROCESSORS_ONLN);
    const double computing = fmin(computing_threads(m->threads, cpus), online / local_ranks);
    for (int type = SCALAR_FLOAT; type <= SCALAR_DOUBLE; type++)
        m->gemm_flops_per_s[type] = 3e9 * computing * gemm_cpu_flops_per_cycle((enum scalar)type);
    m->in_bytes_per_s = m->out_bytes_per_s = 4.5e9;
    m->device_bytes_per_s = 2.5e9 * computing;
}

static bool is_in_memory(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && file_is_in_memory(&fs);
}

double machine_write_by_threads(const struct machine *m)
{
    return 1.4e9 * m->threads * m->ranks_per_node;
}

/* Rates of the file systems that hold the input and will hold the output: a disk, or a file system
 * in memory, where with many CPUs every thread writes at once (store.h), as fast as pages can be
 * had; large ones come faster, to several processes faster still. */
static void assume_disk_rates(const struct options *options, struct machine *m)
{
    const double to_huge = m->ranks_per_node > 1 ? 25e9 : 12e9;
    const char *input = options->a.file;
    char output[PATH_MAX];
    struct stat file, beside;
    snprintf(output, sizeof output, "%s", options->output.file);
    const char *folder = dirname(output);
    bool huge = stat(input, &file) == 0 && file.st_blksize >= HUGE_PAGE &&
                stat(folder, &beside) == 0 && beside.st_dev == file.st_dev;
    m->files_in_memory = is_in_memory(input);
    m->output_in_memory = is_in_memory(folder);
    m->disk_read_bytes_per_s = m->files_in_memory ? 20e9 : 2e9;
    m->disk_write_bytes_per_s =
        m->output_in_memory ? fmin(machine_write_by_threads(m), huge ? to_huge : 6e9) : 1.5e9;
    m->disk_run_bytes = m->files_in_memory ? 3 << 10 : 32 << 10;
}

static void apply_limit(size_t limit, struct machine *m, size_t *memory, size_t *unlimited)
{
    if (limit == 0)
        return;
    if (*memory != limit) /* or it is applied again */
        *unlimited = *memory;
    *memory = limit;
    set_source(m, memory, "given");
}

static void apply_limits(const struct resources *resources, struct machine *m)
{
    apply_limit(resources->host_memory, m, &m->host_memory, &m->host_unlimited);
    apply_limit(resources->gpu_memory, m, &m->device_memory, &m->device_unlimited);
}

void machine_probe(const struct options *options, const struct share *share, struct machine *m)
{
    const struct device_info *device = share->device;
    const int local_ranks = share->local_ranks, cpus = share->cpus;
    const int quota = (int)ceil_div(control_group_cpus(), local_ranks);
    *m = (struct machine){.gpu = device != NULL,
                          .ranks = share->ranks,
                          .ranks_per_node = local_ranks,
                          .threads = machine_threads(cpus, local_ranks),
                          .network_bytes_per_s = 10e9};
    assume_disk_rates(options, m);
    m->host_memory = (size_t)machine_usual_memory(local_ranks);
    m->device_memory = m->host_memory;
    machine_measured(m, &m->host_memory);
    machine_measured(m, &m->device_memory);
    if (device) {
        snprintf(m->name, sizeof m->name, "%s", device->name);
        m->compute_capability = device->compute_capability;
        m->device_memory = device->memory_free / 100 * 95 / (size_t)share->sharing;
        assume_gpu_rates(device, m);
        share_gpu_rates(share->sharing, m);
    } else {
        snprintf(m->name, sizeof m->name, "CPU, %d thread%s a rank%s", m->threads,
                 m->threads == 1 ? "" : "s",
                 m->threads == quota && quota < cpus ? ", by the control group's CPU quota" : "");
        assume_cpu_rates(cpus, local_ranks, m);
    }
    apply_limits(&options->resources, m);
}

/* In coarse steps, so that the plan is mostly the same the next time.  Long copies beside reading
 * files get a little less than a short one alone. */
void machine_see_link(double bytes_per_s, struct machine *m)
{
    const double usual = machine_usual_link(m->compute_capability), sustained = 0.93;
    const double low = 0.7, high = 1.5;
    double rate = exp2(round(4 * log2(sustained * bytes_per_s)) / 4);
    if (bytes_per_s <= 0 || (rate >= low * usual && rate <= high * usual))
        return;
    m->in_bytes_per_s = m->out_bytes_per_s = rate;
    machine_measured(m, &m->in_bytes_per_s);
    machine_measured(m, &m->out_bytes_per_s);
}

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
    json_t *sources = json_object();
    json_t *json =
        json_pack("{s:s, s:s, s:b, s:b}", "name", m->name, "device", m->gpu ? "gpu" : "cpu",
                  "files_in_memory", m->files_in_memory, "output_in_memory", m->output_in_memory);
    for (int i = 0; i < MEMBERS; i++) {
        json_t *value = member_json(&members[i], m);
        if (value)
            json_object_set_new(json, members[i].key, value);
        if (value && members[i].kind != COUNT)
            json_object_set_new(sources, members[i].key,
                                json_string(machine_source(m, (char *)m + members[i].offset)));
    }
    json_object_set_new(json, "sources", sources);
    return json;
}

/* What the value may be: null when it is that. */
static const char *read_number(const struct member *member, const json_t *value, struct machine *m)
{
    void *to = (char *)m + member->offset;
    double number = json_number_value(value);
    bool whole = json_is_integer(value) && number >= 1 && number <= 1 << 24;
    if (member->kind == COUNT && !whole)
        return "a whole number from 1 to 16777216";
    if (!json_is_number(value) || !(number > 0) || number >= 0x1p62)
        return "a number above 0 and below 2^62, without a unit";
    switch (member->kind) {
    case REAL: *(double *)to = number; break;
    case BYTES: *(size_t *)to = (size_t)number; break;
    case COUNT: *(int *)to = (int)number; break;
    }
    set_source(m, to, "given");
    return NULL;
}

static const struct member *find_member(const char *key)
{
    for (int i = 0; i < MEMBERS; i++)
        if (strcmp(key, members[i].key) == 0)
            return &members[i];
    return NULL;
}

/* Where a report says that its machine's numbers are from. */
static const char *read_sources(const json_t *sources, struct machine *m)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)sources, key, value)
    {
        const struct member *member = find_member(key);
        if (!member || !json_is_string(value))
            return "what a report has there";
        set_source(m, (char *)m + member->offset, json_string_value(value));
    }
    return json_is_object(sources) ? NULL : "what a report has there";
}

/* Likewise, of any member. */
static const char *read_member(const char *key, const json_t *value, struct machine *m)
{
    const struct member *member = find_member(key);
    if (member)
        return read_number(member, value, m);
    const char *text = json_string_value(value);
    bool *flag = strcmp(key, "files_in_memory") == 0    ? &m->files_in_memory
                 : strcmp(key, "output_in_memory") == 0 ? &m->output_in_memory
                                                        : NULL;
    if (flag) {
        *flag = json_is_true(value);
        return json_is_boolean(value) ? NULL : "true or false";
    }
    if (strcmp(key, "device") == 0) {
        m->gpu = text && strcmp(text, "gpu") == 0;
        return text && (m->gpu || strcmp(text, "cpu") == 0) ? NULL : "\"gpu\" or \"cpu\"";
    }
    if (strcmp(key, "name") == 0) {
        snprintf(m->name, sizeof m->name, "%s", text ? text : "");
        return text && strlen(text) < sizeof m->name ? NULL : "a text of at most 95 bytes";
    }
    return strcmp(key, "sources") == 0 ? NULL : "";
}

/* Add the members of a file, to a machine that has values for all. */
static void read_members(const struct resources *resources, const json_t *root, struct machine *m,
                         struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)root, key, value)
    {
        const char *allowed = read_member(key, value, m);
        char *is = allowed ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
        if (allowed && !*allowed)
            error_add(err, EXIT_USAGE,
                      "--machine %s: \"%s\" is not a key of a machine file; see man dgemm_ooc",
                      resources->machine, key);
        else if (allowed)
            error_add(err, EXIT_USAGE, "--machine %s: \"%s\" is %.60s; give %s", resources->machine,
                      key, is ? is : "?", allowed);
        free(is);
    }
    value = json_object_get(root, "sources");
    const char *allowed = value ? read_sources(value, m) : NULL;
    if (allowed)
        error_add(err, EXIT_USAGE, "--machine %s: \"sources\": leave it out, or give %s",
                  resources->machine, allowed);
}

/* The folder of the machine files that come with this program, installed or as it was built; false
 * where that cannot be found. */
static bool find_folder(char folder[PATH_MAX])
{
    static const char *const places[] = {"../share/dgemm_ooc/jobs/machines", "../jobs/machines"};
    char program[PATH_MAX] = "", path[2 * PATH_MAX];
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return false;
    const char *beside = dirname(program);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", beside, places[i]);
        if (realpath(path, folder))
            return true;
    }
    return false;
}

/* "one of h200-node, laptop" */
static const char *list_names(const char *folder, char *text, size_t size)
{
    char pattern[PATH_MAX + 8];
    glob_t files = {0};
    snprintf(pattern, sizeof pattern, "%s/*.json", folder);
    snprintf(text, size, "one of ");
    if (glob(pattern, 0, NULL, &files) != 0)
        snprintf(text, size, "put one into %.400s", folder);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        const char *name = strrchr(files.gl_pathv[i], '/') + 1;
        size_t length = strlen(text);
        snprintf(text + length, size - length, "%s%.*s", i ? ", " : "",
                 (int)(strlen(name) - strlen(".json")), name);
    }
    globfree(&files);
    return text;
}

int machine_read(const struct resources *resources, struct machine *m, struct error *err)
{
    json_error_t where;
    char folder[PATH_MAX], path[2 * PATH_MAX + 8], names[512];
    struct stat status;
    bool named = !strchr(resources->machine, '/') && !file_leads(resources->machine, &status, err);
    if (named && !find_folder(folder))
        return error_add(err, EXIT_USAGE,
                         "--machine %s: there is no such file, and the folder of machine files is "
                         "not beside this program; give the path of a file",
                         resources->machine);
    if (named)
        snprintf(path, sizeof path, "%s/%s.json", folder, resources->machine);
    if (named && !file_leads(path, &status, err))
        return error_add(err, EXIT_USAGE,
                         "--machine %s: there is neither such a file nor a machine of that name; "
                         "name a file, or %s",
                         resources->machine, list_names(folder, names, sizeof names));
    json_t *root =
        json_load_file(named ? path : resources->machine, JSON_REJECT_DUPLICATES, &where);
    if (!json_is_object(root)) {
        if (root)
            error_add(err, EXIT_USAGE, "--machine %s: not a JSON object", resources->machine);
        else if (where.line < 0)
            error_add(err, EXIT_USAGE, "--machine %s cannot be opened: %s; give the path of a file",
                      resources->machine, strerror(errno));
        else
            error_add(err, EXIT_USAGE, "--machine %s: not JSON: %s (line %d); name a machine file",
                      resources->machine, where.text, where.line);
        json_decref(root);
        return err->code;
    }
    m->files_in_memory = false;
    m->output_in_memory = json_is_true(json_object_get(root, "files_in_memory")); /* by default */
    const char *device = json_string_value(json_object_get(root, "device"));
    if (!m->gpu && device && strcmp(device, "gpu") == 0)
        assume_gpu(m);
    read_members(resources, root, m, err);
    json_decref(root);
    apply_limits(resources, m);
    return err->code;
}
