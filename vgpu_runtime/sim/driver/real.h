/* Calls libc's own functions, which this library interposes. Arguments, results and errno are those of libc. */
#ifndef SIM_REAL_H
#define SIM_REAL_H

#include <dirent.h>
#include <stdio.h>
#include <sys/types.h>

FILE *real_fopen(const char *path, const char *mode);
DIR *real_opendir(const char *path);
int real_open(const char *path, int flags, mode_t mode);
int real_openat(int folder, const char *path, int flags, mode_t mode);
int real_close(int fd);
int real_ioctl(int fd, unsigned long request, void *args);

#endif
