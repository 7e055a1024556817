#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "process.h"
#include "raw.h"

#ifndef MADV_WIPEONFORK /* Linux 4.14 */
#define MADV_WIPEONFORK 18
#endif

/* As large as the largest page of the architecture, so that the kernel wipes these bytes and no others. */
#if defined(__aarch64__)
#define PAGE_BYTES 65536
#else
#define PAGE_BYTES 4096
#endif

#define RENEWING (-1) /* as `pid` */

/* Zeroes in a new process: the kernel wipes it in every forked child. An unlocked mutex is zeroes, in glibc and in musl. */
static union {
	struct {
		pthread_mutex_t mutex;
		bool known;
		int pid;
	};
	char bytes[PAGE_BYTES];
} process __attribute__((aligned(PAGE_BYTES)));

/* In the library's static memory: a signal handler can ask, and no allocation is made for a thread. */
static __thread bool locking __attribute__((tls_model("initial-exec")));

static enum recognised { UNTRIED, WIPED, COMPARED } recognised_by;

static void renew(void)
{
	process.mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	process.known = false;
}

/* Where the kernel cannot wipe: a process is then a process id. Of a child's threads, the first renews. */
static void compare(void)
{
	int self = raw_getpid();
	int known = __atomic_load_n(&process.pid, __ATOMIC_ACQUIRE);

	if (known == self)
		return;
	if (known != RENEWING &&
	    __atomic_compare_exchange_n(&process.pid, &known, RENEWING, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		renew();
		__atomic_store_n(&process.pid, self, __ATOMIC_RELEASE);
	}
	while (__atomic_load_n(&process.pid, __ATOMIC_ACQUIRE) != self)
		sched_yield();
}

bool process_lock(void)
{
	enum recognised by = __atomic_load_n(&recognised_by, __ATOMIC_RELAXED);
	bool first;

	if (by == UNTRIED) {
		by = raw_madvise(&process, sizeof process, MADV_WIPEONFORK) ? COMPARED : WIPED;
		__atomic_store_n(&recognised_by, by, __ATOMIC_RELAXED);
	}
	if (by == COMPARED)
		compare();
	locking = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	pthread_mutex_lock(&process.mutex);
	first = !process.known;
	process.known = true;
	if (first)
		__atomic_store_n(&process.pid, raw_getpid(), __ATOMIC_RELEASE);
	return first;
}

void process_unlock(void)
{
	pthread_mutex_unlock(&process.mutex);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	locking = false;
}

bool process_lock_is_own(void)
{
	return locking;
}

bool process_is_itself(void)
{
	return __atomic_load_n(&process.pid, __ATOMIC_ACQUIRE) == raw_getpid();
}

/*
 * glibc's pthread_atfork is in no shared library: it is linked into each, and calls __register_atfork, which musl does
 * not have. Both are weak here, so that the library loads with either.
 */
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library)
	__attribute__((weak));
#pragma weak pthread_atfork
extern void *__dso_handle __attribute__((visibility("hidden")));

void process_on_fork(void (*child)(void))
{
	if (__register_atfork)
		__register_atfork(NULL, NULL, child, &__dso_handle);
	else if (pthread_atfork)
		pthread_atfork(NULL, NULL, child);
}
