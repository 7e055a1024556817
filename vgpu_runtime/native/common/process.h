/*
 * The library's lock, and which process this is. A process is an address space, as for the kernel's driver, which
 * binds card memory and queues to it: a forked child is another, a child that shares its parent's memory is not.
 */
#ifndef VGPU_PROCESS_H
#define VGPU_PROCESS_H

#include <stdbool.h>

/*
 * Takes the lock. True the first time in this process: what the library remembers is then the parent's. Holds after
 * any kind of fork, whether another thread of the parent had the lock, and whether handlers of pthread_atfork ran.
 */
bool process_lock(void);
void process_unlock(void);

/* Whether this thread has the lock or is about to: then this is one of its signal handlers, which must not wait for it. */
bool process_lock_is_own(void);

/* False in a child of vfork, which has this memory and descriptors of its own. For a process that has taken the lock. */
bool process_is_itself(void);

/* Has `child` called in each child that the C library's fork makes. Other children do without. */
void process_on_fork(void (*child)(void));

#endif
