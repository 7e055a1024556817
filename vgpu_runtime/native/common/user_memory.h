/*
 * Reads and writes memory at addresses that the program passed in a request. An invalid address gives an error
 * (EFAULT), as in the kernel, and no signal. Before a page is accessed, the kernel is asked whether the page is
 * accessible; only the page with the thread's own stack is not asked about. If another thread unmaps a page between
 * this question and the access, the access still raises a signal.
 */
#ifndef VGPU_USER_MEMORY_H
#define VGPU_USER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Copies `size` bytes from the program's address `from`; true on success, false if they cannot be read. Does not change
 * errno.
 */
bool user_read(void *to, uint64_t from, size_t size);

/*
 * Copies `size` bytes to the program's address `to`; true on success, false if they cannot be written. Does not change
 * errno.
 */
bool user_write(uint64_t to, const void *from, size_t size);

#endif
