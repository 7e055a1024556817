#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "real.h"

/*
 * dlsym moved from libdl to libc in glibc 2.34. Asking for its old version works on both: newer libcs keep it
 * under that version too, and libdl.so.2, which the Makefile names as needed, has it in older ones.
 */
#if defined(__x86_64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver dlsym, dlsym@GLIBC_2.17");
#endif

void *vgpu_real_if_any(void **slot, const char *name)
{
	void *found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

	if (!found) {
		found = dlsym(RTLD_NEXT, name);
		__atomic_store_n(slot, found, __ATOMIC_RELEASE);
	}
	return found;
}

void *vgpu_real(void **slot, const char *name)
{
	static const char text[] = "vgpu: no C library below this one\n";
	void *found = vgpu_real_if_any(slot, name);
	ssize_t ignored;

	if (!found) {
		ignored = write(STDERR_FILENO, text, sizeof text - 1);
		(void)ignored;
		abort();
	}
	return found;
}
