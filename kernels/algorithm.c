/* The algorithms of this build, their properties, and the default choice. */
#include "gemm.h"

#include <stdio.h>
#include <string.h>

#include "cpu_kernel.h"
#include "gemm_simt_maps.h"
#include "residues.h"

#ifdef HAVE_CUDA
#define HAS_GPU true
#else
#define HAS_GPU false
#endif

const struct algorithm_info algorithm_table[] = {
#ifdef HAVE_CUDA
    {ALGORITHM_NAIVE, "naive", .on_gpu = true, .same_bits = true},
    {ALGORITHM_SHARED, "shared", .on_gpu = true, .same_bits = true},
    {ALGORITHM_REGISTER, "register", .on_gpu = true, .same_bits = true},
    {ALGORITHM_VECTOR, "vector", .on_gpu = true, .same_bits = true},
    {ALGORITHM_ASYNC, "async", .on_gpu = true, .same_bits = true},
    {ALGORITHM_TENSOR, "tensor", .on_gpu = true, .same_bits = true},
    {ALGORITHM_TMA, "tma", .on_gpu = true, .same_bits = true},
    {ALGORITHM_CUBLAS, "cublas", .on_gpu = true, .same_bits = false},
#endif
    {ALGORITHM_CPU, "cpu", .on_cpu = true, .same_bits = true},
    {ALGORITHM_OZAKI, "ozaki", .on_gpu = HAS_GPU, .on_cpu = true, .same_bits = true},
    {.name = NULL},
};

/* Only the ladder of GPU kernels can be named by number. */
static bool is_number_of(const char *name, const struct algorithm_info *info)
{
    return !info->on_cpu && name[0] == '0' + (int)info->id && name[1] == '\0';
}

const struct algorithm_info *algorithm_find(const char *name)
{
    for (const struct algorithm_info *info = algorithm_table; info->name; info++)
        if (strcmp(name, info->name) == 0 || is_number_of(name, info))
            return info;
    return NULL;
}

const struct algorithm_info *algorithm_parse(const char *text, int *moduli)
{
    char name[16];
    *moduli = 0;
    if (sscanf(text, "%15[a-z]:%d%*c", name, moduli) < 2)
        return algorithm_find(text);
    char same[32]; /* with nothing before, between and behind */
    snprintf(same, sizeof same, "%s:%d", name, *moduli);
    const struct algorithm_info *info = algorithm_find(name);
    const bool takes = info && info->id == ALGORITHM_OZAKI && strcmp(text, same) == 0;
    return takes && *moduli >= RESIDUES_LEAST && *moduli <= RESIDUES_MOST ? info : NULL;
}

const char *algorithm_names(void)
{
    static char names[160];
    if (!names[0]) {
        for (const struct algorithm_info *info = algorithm_table; info->name; info++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ", info->name);
        snprintf(names + strlen(names), sizeof names - strlen(names), "ozaki:%d..%d",
                 RESIDUES_LEAST, RESIDUES_MOST);
    }
    return names;
}

const struct algorithm_info *algorithm_of(enum algorithm id)
{
    for (const struct algorithm_info *info = algorithm_table; info->name; info++)
        if (info->id == id)
            return info;
    return NULL;
}

enum algorithm algorithm_auto(int capability, enum scalar type)
{
    bool fast_fp64 = capability == 80 || capability == 100;
    if (capability == 0)
        return ALGORITHM_CPU;
    if (capability < 80)
        return ALGORITHM_VECTOR;
    if (type == SCALAR_FLOAT)
        return ALGORITHM_TENSOR;
    return capability == 90 ? ALGORITHM_TMA : fast_fp64 ? ALGORITHM_TENSOR : ALGORITHM_ASYNC;
}

bool algorithm_is_running_sum(enum algorithm id)
{
    if (id == ALGORITHM_CPU)
        return cpu_kernels(0)->fused;
    return id != ALGORITHM_OZAKI && id != ALGORITHM_CUBLAS;
}

bool algorithm_reports_peaks(enum algorithm id, enum scalar type)
{
    return type == SCALAR_FLOAT && (id == ALGORITHM_TENSOR || id == ALGORITHM_TMA);
}

int algorithm_shapes(enum algorithm id)
{
    return id <= ALGORITHM_VECTOR ? simt_shape_count((int)id) : 1;
}

/* For cuBLAS, the size that NVIDIA recommends on Hopper; with a workspace set by the caller its
 * results are reproducible. */
size_t algorithm_workspace(enum algorithm id)
{
    return id == ALGORITHM_CUBLAS ? (size_t)32 << 20 : 0;
}

/* The CUDA runtime loads kernels lazily into host memory; cuBLAS has many. */
size_t algorithm_host_overhead(enum algorithm id)
{
    const size_t mib = id == ALGORITHM_CPU ? 0 : id == ALGORITHM_CUBLAS ? 76 : 12;
    return mib << 20;
}

/* Measured on an H200, in double precision. */
double algorithm_share(enum algorithm id)
{
    static const double shares[] = {
        [ALGORITHM_NAIVE] = 0.05,   [ALGORITHM_SHARED] = 0.08, [ALGORITHM_REGISTER] = 0.26,
        [ALGORITHM_VECTOR] = 0.35,  [ALGORITHM_ASYNC] = 0.45,  [ALGORITHM_TENSOR] = 0.88,
        [ALGORITHM_TMA] = 1,        [ALGORITHM_CUBLAS] = 1,    [ALGORITHM_CPU] = 1,
        [ALGORITHM_OZAKI] = 0.0025,
    };
    return shares[id];
}
