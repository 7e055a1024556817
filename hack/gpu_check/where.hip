/* Prints the units on which groups ran; s_getreg's operand names a register and all 32 of its bits. */
#include <cstdio>
#include <hip/hip_runtime.h>
#include <set>
__global__ void where(unsigned *units) {
    unsigned id = 0;
#if defined(__GFX9__)
    id = __builtin_amdgcn_s_getreg(4 | 31 << 11) & 0xff00; /* HW_ID: CU, SH, SE */
#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
    id |= (__builtin_amdgcn_s_getreg(20 | 31 << 11) & 0xf) << 16; /* XCC_ID */
#endif
#elif defined(__AMDGCN__)
    id = __builtin_amdgcn_s_getreg(23 | 31 << 11) & 0x1d3e00; /* HW_ID1: half of a WGP, WGP, SA, SE */
#endif
    for (long end = clock64() + 100000; clock64() < end;)
        ;
    if (threadIdx.x == 0)
        units[blockIdx.x] = id;
}
int main() {
    enum { GROUPS = 8192 };
    static unsigned found[GROUPS];
    unsigned *units;
    if (hipMalloc(&units, sizeof found))
        return 1;
    hipLaunchKernelGGL(where, dim3(GROUPS), dim3(64), 0, 0, units);
    if (hipMemcpy(found, units, sizeof found, hipMemcpyDeviceToHost))
        return 1;
    for (unsigned unit : std::set<unsigned>(found, found + GROUPS))
        printf("%u\n", unit);
}
