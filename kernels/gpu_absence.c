#include "gpu_absence.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static int major_of(int version)
{
    return version / 1000;
}

static int minor_of(int version)
{
    return version % 1000 / 10;
}

const char *gpu_absence_text(const struct gpu_facts *f, char *text, size_t size)
{
    const char *visible = f->visible ? f->visible : "";
    bool hidden = f->visible && (!*visible || strcmp(visible, "-1") == 0 ||
                                 strcasecmp(visible, "NoDevFiles") == 0);
    if (!f->error)
        snprintf(text, size,
                 "GPU %d has compute capability %d.%d, and this build has kernels for %d.%d and "
                 "later (leave it out of CUDA_VISIBLE_DEVICES)",
                 f->index, f->capability / 10, f->capability % 10, f->oldest / 10, f->oldest % 10);
    else if (hidden)
        snprintf(text, size,
                 "CUDA_VISIBLE_DEVICES is \"%s\", which hides all GPUs (ask the batch system for "
                 "GPUs, or unset it)",
                 visible);
    else if (f->needs_driver && f->driver == 0)
        snprintf(text, size, "no NVIDIA driver (libcuda.so.1) can be loaded (see nvidia-smi)");
    else if (f->needs_driver)
        snprintf(text, size,
                 "the NVIDIA driver is for CUDA %d.%d, this build needs %d.%d (update the driver, "
                 "or build with an older CUDA)",
                 major_of(f->driver), minor_of(f->driver), major_of(f->runtime),
                 minor_of(f->runtime));
    else
        snprintf(text, size,
                 "CUDA says \"%s\"%s%s%s (see nvidia-smi, and ask the batch system for GPUs)",
                 f->error, f->visible ? ", and CUDA_VISIBLE_DEVICES is \"" : "", visible,
                 f->visible ? "\"" : "");
    return text;
}

/* Whether the file's first line begins so. */
static bool starts_with(const char *folder, const char *file, const char *beginning)
{
    char path[PATH_MAX], line[32] = "";
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "re");
    if (!stream)
        return false;
    bool same =
        fgets(line, sizeof line, stream) && strncmp(line, beginning, strlen(beginning)) == 0;
    fclose(stream);
    return same;
}

bool gpu_is_present(const char *pci)
{
    char pattern[PATH_MAX];
    glob_t devices = {0};
    bool present = false;
    snprintf(pattern, sizeof pattern, "%s/*", pci);
    if (glob(pattern, 0, NULL, &devices) == 0)
        for (size_t i = 0; i < devices.gl_pathc && !present; i++)
            present = starts_with(devices.gl_pathv[i], "vendor", "0x10de") &&
                      starts_with(devices.gl_pathv[i], "class", "0x03"); /* display controller */
    globfree(&devices);
    return present;
}
