/*
 * Calls the next definition of a function that this library interposes: the definition of libc, or of a library that is
 * preloaded after this one.
 */
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

/* The next definition of one function, for one place in the code that calls it. */
struct real {
	const char *name;
	void *found; /* NULL until it was looked up */
};

/*
 * Returns the function, which is looked up once: before main (real.c), or earlier if a constructor that runs before
 * this library's constructor calls it. A lookup after main has begun would do harm: dlsym takes the loader's lock, for
 * which a thread may wait for ever, and changes the text that dlerror returns. If there is no such function, vgpu_real
 * ends the process, and vgpu_real_if_any returns NULL.
 */
void *vgpu_real(struct real *real);
void *vgpu_real_if_any(struct real *real);

/* The struct real of the calling place; the section `vgpu_reals` lists it for the constructor in real.c. */
#define REAL_HERE(name)                                                                                   \
	(__extension__({                                                                                  \
		static struct real real = {#name, NULL};                                                  \
		static struct real *listed __attribute__((section("vgpu_reals"), used)) = &real;          \
		&real;                                                                                    \
	}))

/* The next definition of a function, to be called as REAL(open, open_fn)(path, flags). */
#define REAL(name, type) ((type *)vgpu_real(REAL_HERE(name)))

/* The next definition of `name`; NULL if there is none, because not every libc has every function. */
#define REAL_IF_ANY(name, type) ((type *)vgpu_real_if_any(REAL_HERE(name)))

/* The next definition of `name`; the next definition of `plain` if there is no `name`. */
#define REAL_OR(name, plain, type)                                                \
	(__extension__({                                                          \
		type *found = REAL_IF_ANY(name, type);                            \
		found ? found : REAL(plain, type);                                \
	}))

#endif
