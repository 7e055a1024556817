/* The next definition of each interposed function: libc's, or that of a library preloaded after this one. */
#ifndef VGPU_REAL_H
#define VGPU_REAL_H

#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

typedef int ioctl_fn(int fd, unsigned long request, void *argument);
typedef int open_fn(const char *path, int flags, ...);
typedef int openat_fn(int folder, const char *path, int flags, ...);
typedef int open_2_fn(const char *path, int flags);
typedef int openat_2_fn(int folder, const char *path, int flags);
typedef int close_fn(int fd);
typedef int fstat_fn(int fd, struct stat *status);
typedef int setenv_fn(const char *name, const char *value, int overwrite);
typedef FILE *fopen_fn(const char *path, const char *mode);

/* Looks `name` up behind this library once and keeps it in `*slot`; ends the process where there is none. */
void *vgpu_real(void **slot, const char *name);

/* The same for a function that not every libc has; NULL where there is none. */
void *vgpu_real_if_any(void **slot, const char *name);

/* Usable as REAL(open, open_fn)(path, flags). */
#define REAL(name, type) ((type *)__extension__({ static void *slot; vgpu_real(&slot, #name); }))

/* The same, or `plain` where there is no `name`. */
#define REAL_OR(name, plain, type)                                              \
	((type *)__extension__({                                                \
		static void *slot;                                              \
		void *found = vgpu_real_if_any(&slot, #name);                   \
		found ? found : (void *)(uintptr_t)REAL(plain, type);           \
	}))

#endif
