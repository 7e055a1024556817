/*
 * Replaces the content of sysfs files about the container's cards by the figures of its slices. Runtimes and tools read
 * a card's memory from files (with open, fopen, or C++ streams, which call fopen64); with replaced content they report
 * the slice's memory. This limits nothing: a program that makes the system call itself sees the kernel's file.
 */
#ifndef VGPU_REWRITTEN_H
#define VGPU_REWRITTEN_H

/*
 * Returns a descriptor of the replaced content of `path`, or -1 if the path must be opened as it is. It takes little
 * time for a path outside of /sys. Does not change errno.
 */
int rewritten_open(const char *path);

#endif
