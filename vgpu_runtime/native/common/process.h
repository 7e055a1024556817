/*
 * The library's lock, which also notices that it is taken in a new process. A process here is an address space, because
 * the kernel's driver binds card memory and queues to an address space. So a forked child is a new process, and a child
 * that shares its parent's memory (vfork) is not.
 */
#ifndef VGPU_PROCESS_H
#define VGPU_PROCESS_H

#include <stdbool.h>

/*
 * Takes the lock. Returns true the first time in this process: the library's variables then have the values of the
 * parent. This works after any kind of fork, also if another thread of the parent held the lock, and if no handler of
 * pthread_atfork was called.
 */
bool process_lock(void);
void process_unlock(void);

/*
 * Returns true if this thread holds the lock, or is just taking it. Then the caller is a signal handler that has
 * interrupted this thread, and must not wait for the lock.
 */
bool process_lock_is_own(void);

/*
 * Returns false in a child of vfork, which shares its parent's memory and has file descriptors of its own. The process
 * must have taken the lock before.
 */
bool process_is_itself(void);

/* Lets the C library call `child` in each child that its fork() makes; in children made otherwise it is not called. */
void process_on_fork(void (*child)(void));

#endif
