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

/* Has `child` called in each child that the C library's fork makes. Other children do without. */
void process_on_fork(void (*child)(void));

#endif
