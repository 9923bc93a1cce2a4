/* The products of the planes of one part and block (ozaki_part.h): for each modulus the plane of C
 * is that of op(A) times that of op(B), reduced. */
#pragma once

#include "cuda_launch.h"
#include "ozaki_part.h"

/* By each of the kernels of enum ozaki_kernel. */
cudaError_t ozaki_product_dp4a(const residues &moduli, const ozaki_planes &planes,
                               cudaStream_t stream);
cudaError_t ozaki_product_mma(const residues &moduli, const ozaki_planes &planes,
                              cudaStream_t stream);
/* Its name is plain for the emulation, which lacks it (cuda_runtime_api.h there). */
extern "C" cudaError_t ozaki_product_wgmma(const residues &moduli, const ozaki_planes &planes,
                                           bool leaves_room, cudaStream_t stream);

/* Add to *wrong, on the device, the number of rows of planes of C that are not such products, as
 * far as signs drawn from `seed` tell. */
cudaError_t ozaki_check(const residues &moduli, const ozaki_planes &planes, uint64_t seed,
                        unsigned long long *wrong, cudaStream_t stream);
