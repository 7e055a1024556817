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

/* A function behind this library, as one place in the code calls it. */
struct real {
	const char *name;
	void *found; /* NULL: not looked up yet */
};

/*
 * The function, looked up once: before main (real.c), or by a constructor that runs before this library's. Later would be
 * too late: dlsym takes the loader's lock, for which a thread may wait for ever, and changes what dlerror says.
 * vgpu_real ends the process where there is no such function, vgpu_real_if_any returns NULL.
 */
void *vgpu_real(struct real *real);
void *vgpu_real_if_any(struct real *real);

/* The struct real of this place, listed for the constructor in real.c. */
#define REAL_HERE(name)                                                                                   \
	(__extension__({                                                                                  \
		static struct real real = {#name, NULL};                                                  \
		static struct real *listed __attribute__((section("vgpu_reals"), used)) = &real;          \
		&real;                                                                                    \
	}))

/* Usable as REAL(open, open_fn)(path, flags). */
#define REAL(name, type) ((type *)vgpu_real(REAL_HERE(name)))

/* NULL where there is no `name`: not every libc has each. */
#define REAL_IF_ANY(name, type) ((type *)vgpu_real_if_any(REAL_HERE(name)))

/* `plain` where there is no `name`. */
#define REAL_OR(name, plain, type)                                                \
	(__extension__({                                                          \
		type *found = REAL_IF_ANY(name, type);                            \
		found ? found : REAL(plain, type);                                \
	}))

#endif
