/* NVIDIA's management library, found at run time: its functions are few and their ABI is fixed, so
 * they are declared here and no header is needed. */
#include <dlfcn.h>

#include "gemm_bench.h"

enum { CLOCK_SM = 1 };

struct management {
    void *gpu;
    int (*clock)(void *gpu, int which, unsigned *mhz);
    int (*power)(void *gpu, unsigned *milliwatts);
};

/* The library counts all GPUs of the host: with several it would have to be told which one is ours.
 */
static struct management management_open(void)
{
    struct management m = {0};
    unsigned count = 0;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return m;
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    int (*count_gpus)(unsigned *) = (int (*)(unsigned *))dlsym(library, "nvmlDeviceGetCount_v2");
    int (*gpu_of)(unsigned, void **) =
        (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    m.clock = (int (*)(void *, int, unsigned *))dlsym(library, "nvmlDeviceGetClockInfo");
    m.power = (int (*)(void *, unsigned *))dlsym(library, "nvmlDeviceGetPowerUsage");
    if (!init || !count_gpus || !gpu_of || !m.clock || !m.power || init() != 0 ||
        count_gpus(&count) != 0 || count != 1 || gpu_of(0, &m.gpu) != 0)
        m.gpu = NULL;
    return m;
}

void bench_power_read(unsigned *clock_mhz, double *watts)
{
    static struct management m;
    static bool opened;
    unsigned milliwatts = 0;
    if (!opened)
        m = management_open();
    opened = true;
    *clock_mhz = 0;
    if (m.gpu && (m.clock(m.gpu, CLOCK_SM, clock_mhz) != 0 || m.power(m.gpu, &milliwatts) != 0))
        *clock_mhz = milliwatts = 0;
    *watts = milliwatts * 1e-3;
}
