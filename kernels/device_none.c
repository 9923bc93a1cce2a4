/* The GPU functions of device.h in a build without CUDA. */
#include "device.h"

#include "error.h"

const char *device_gpu_absence(void)
{
    return "this build has no GPU support (build with nvcc)";
}

static int no_gpu(struct error *err)
{
    return error_add(err, EXIT_RESOURCES, "%s", device_gpu_absence());
}

int device_gpu_count(void)
{
    return 0;
}

void device_gpu_address(int index, char address[16])
{
    (void)index;
    address[0] = '\0';
}

int device_gpu_info(int index, struct device_info *info, struct error *err)
{
    (void)index;
    *info = (struct device_info){.kind = DEVICE_GPU};
    return no_gpu(err);
}

double device_gpu_link(int index)
{
    (void)index;
    return 0;
}

int device_gpu_open(int index, enum algorithm algorithm, struct device **dev, struct error *err)
{
    (void)index;
    (void)algorithm;
    *dev = NULL;
    return no_gpu(err);
}

int device_gpu_open_library(int index, const char *library, struct device **dev, struct error *err)
{
    (void)library;
    return device_gpu_open(index, ALGORITHM_CPU, dev, err);
}
