/*
 * Files of sysfs as this container should see them: of its cards, the slice's figures. Runtimes and tools learn a card's
 * memory from files (with open, with fopen, and C++'s streams by fopen64), so serving rewritten ones makes what they
 * report honest. It is no fence: a program that reads by a system call of its own sees the kernel's.
 */
#ifndef VGPU_REWRITTEN_H
#define VGPU_REWRITTEN_H

/*
 * A descriptor of the rewritten content of `path`, or -1 for a path that is to be opened as it is. Cheap for
 * paths elsewhere. Keeps errno.
 */
int rewritten_open(const char *path);

#endif
