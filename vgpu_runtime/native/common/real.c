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

/* All that REAL_HERE lists, as the linker delimits it. */
extern struct real *__start_vgpu_reals[] __attribute__((visibility("hidden")));
extern struct real *__stop_vgpu_reals[] __attribute__((visibility("hidden")));

static char absent; /* as `found`: this libc has no such function */

void *vgpu_real_if_any(struct real *real)
{
	void *found = __atomic_load_n(&real->found, __ATOMIC_ACQUIRE);

	if (!found) {
		found = dlsym(RTLD_NEXT, real->name);
		if (!found)
			found = &absent;
		__atomic_store_n(&real->found, found, __ATOMIC_RELEASE);
	}
	return found == &absent ? NULL : found;
}

void *vgpu_real(struct real *real)
{
	static const char text[] = "vgpu: no C library below this one\n";
	void *found = vgpu_real_if_any(real);
	ssize_t ignored;

	if (!found) {
		ignored = write(STDERR_FILENO, text, sizeof text - 1);
		(void)ignored;
		abort();
	}
	return found;
}

__attribute__((constructor)) static void look_up_before_main(void)
{
	for (struct real **real = __start_vgpu_reals; real < __stop_vgpu_reals; real++)
		vgpu_real_if_any(*real);
}
