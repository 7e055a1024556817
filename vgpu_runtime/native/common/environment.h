/* Reads the program's environment without libc's getenv, because a shell may define a getenv of its own. */
#ifndef VGPU_ENVIRONMENT_H
#define VGPU_ENVIRONMENT_H

/* Returns the variable's value, valid until the program changes the variable; NULL if it is not set. */
const char *environment_value(const char *name);

#endif
