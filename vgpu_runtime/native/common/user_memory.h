/*
 * Memory at addresses that the program gave in a request, read and written as the kernel does it: an address that does
 * not hold is an answer (EFAULT), not a signal. The kernel is asked about each page before it is touched, except the page
 * of the stack that the thread runs on; a thread that unmaps a page in between still meets its signal.
 */
#ifndef VGPU_USER_MEMORY_H
#define VGPU_USER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies `size` bytes from the program's address `from`. False: they cannot be read. Keeps errno. */
bool user_read(void *to, uint64_t from, size_t size);

/* Copies `size` bytes to the program's address `to`. False: they cannot be written. Keeps errno. */
bool user_write(uint64_t to, const void *from, size_t size);

#endif
