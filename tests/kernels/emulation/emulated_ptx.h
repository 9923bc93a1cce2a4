/* The functions of ptx.cuh on the CPU.
 *
 * An asynchronous copy is performed when its thread waits for it, as late as possible; until then
 * its destination in shared memory holds NaN.  A matrix multiply-add is one collective operation of
 * its warp. */
#pragma once

#include "emulated_block.h"

/* An address in shared memory counts from the start of the block's dynamic part. */
inline unsigned shared_address(const void *shared)
{
    return (unsigned)((const unsigned char *)shared - emulated_dynamic_shared());
}

inline void load_shared(double &x, unsigned at)
{
    x = *(const double *)(emulated_dynamic_shared() + at);
}

inline void load_shared(double &x, double &y, unsigned at)
{
    load_shared(x, at);
    load_shared(y, at + 8);
}

inline void opaque(unsigned &)
{
}

template <int THREADS>
void block_barrier()
{
    __syncthreads();
}

template <int BYTES>
void cp_async(void *shared, const void *global, int bytes = BYTES)
{
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "what cp.async copies");
    emulated_copy_begin({shared, global, bytes, BYTES, 0});
}

template <int BYTES>
void cp_async(unsigned shared, const void *global, int bytes)
{
    cp_async<BYTES>(emulated_dynamic_shared() + shared, global, bytes);
}

template <int BYTES>
void cp_async_if(void *shared, const void *global, bool wanted)
{
    if (wanted)
        cp_async<BYTES>(shared, global);
}

inline void cp_async_commit()
{
    emulated_copy_commit();
}

template <int PENDING>
void cp_async_wait()
{
    emulated_copy_wait(PENDING);
}

void mma_m8n8k4(double d[2], double a, double b);
void mma_m16n8k8(double d[4], const double a[4], const double b[2]);

template <bool SIGNED>
int byte_of(int word, int byte)
{
    const int x = word >> 8 * byte & 255;
    return SIGNED ? (int8_t)x : x;
}

template <bool SIGNED_A, bool SIGNED_B>
int dp4a(int a, int b, int sum)
{
    unsigned total = (unsigned)sum;
    for (int byte = 0; byte < 4; byte++)
        total += (unsigned)(byte_of<SIGNED_A>(a, byte) * byte_of<SIGNED_B>(b, byte));
    return (int)total;
}

template <bool SIGNED_A, bool SIGNED_B>
void mma_m16n8k32(int d[4], const int a[4], const int b[2]);
