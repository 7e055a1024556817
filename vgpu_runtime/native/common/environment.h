/* The program's environment, read without libc's getenv: a shell may have one of its own. */
#ifndef VGPU_ENVIRONMENT_H
#define VGPU_ENVIRONMENT_H

/* The value of the variable, or NULL where there is none. Valid until the program changes it. */
const char *environment_value(const char *name);

#endif
