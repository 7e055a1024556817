/*
 * dlopen and dlmopen, so that this library stays in front of the C library for whatever a program loads.
 *
 * With RTLD_DEEPBIND a loaded library finds the C library's `ioctl` before the one here, so the flag is taken out. A new
 * namespace of dlmopen has no preloaded libraries: it gets this one before anything else, for in glibc the first object
 * of a namespace heads the scope in which all others look for symbols. That copy has memory and a slot of its own.
 *
 * glibc finds the calling object by the return address, and looks along that object's RUNPATH and in its namespace. So
 * both functions are written in assembly: they jump to the real ones and are not seen there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real.h"
#include "slice.h"

typedef int dladdr_fn(const void *address, Dl_info *info);
typedef int dlinfo_fn(void *handle, int request, void *result);
typedef void *dlmopen_fn(Lmid_t id, const char *file, int mode);

_Static_assert(RTLD_DEEPBIND == 8, "as in glibc, on every architecture");

/* Used by the assembly alone. */
extern int loader_kept_flags;
int loader_kept_flags = ~RTLD_DEEPBIND;

struct target {
	Lmid_t id;
	dlmopen_fn *next; /* NULL: the call fails; dlerror says why */
};

void *loader_dlopen(void);
struct target loader_dlmopen(Lmid_t id);

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	".cfi_startproc\n"
	"	endbr64\n"
	"	push %rdi\n"
	"	push %rsi\n"
	"	sub $8, %rsp\n"
	".cfi_def_cfa_offset 32\n"
	"	call loader_dlopen\n"
	"	add $8, %rsp\n"
	"	pop %rsi\n"
	"	pop %rdi\n"
	".cfi_def_cfa_offset 8\n"
	"	and loader_kept_flags(%rip), %esi\n"
	"	jmp *%rax\n"
	".cfi_endproc\n"
	".size dlopen, . - dlopen\n"

	".globl dlmopen\n"
	".type dlmopen, @function\n"
	"dlmopen:\n"
	".cfi_startproc\n"
	"	endbr64\n"
	"	push %rsi\n"
	"	push %rdx\n"
	"	sub $8, %rsp\n"
	".cfi_def_cfa_offset 32\n"
	"	call loader_dlmopen\n" /* %rax: target.id, %rdx: target.next */
	"	mov %rax, %rdi\n"
	"	mov %rdx, %rax\n"
	"	add $8, %rsp\n"
	"	pop %rdx\n"
	"	pop %rsi\n"
	".cfi_def_cfa_offset 8\n"
	"	and loader_kept_flags(%rip), %edx\n"
	"	test %rax, %rax\n"
	"	jz 1f\n"
	"	jmp *%rax\n"
	"1:	ret\n"
	".cfi_endproc\n"
	".size dlmopen, . - dlmopen\n"
	".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
	".globl dlopen\n"
	".type dlopen, %function\n"
	"dlopen:\n"
	".cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	stp x29, x30, [sp, #-32]!\n"
	".cfi_def_cfa_offset 32\n"
	".cfi_offset 29, -32\n"
	".cfi_offset 30, -24\n"
	"	mov x29, sp\n"
	"	stp x0, x1, [sp, #16]\n"
	"	bl loader_dlopen\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	".cfi_def_cfa_offset 0\n"
	".cfi_restore 29\n"
	".cfi_restore 30\n"
	"	adrp x9, loader_kept_flags\n"
	"	ldr w9, [x9, #:lo12:loader_kept_flags]\n"
	"	and w1, w1, w9\n"
	"	br x16\n"
	".cfi_endproc\n"
	".size dlopen, . - dlopen\n"

	".globl dlmopen\n"
	".type dlmopen, %function\n"
	"dlmopen:\n"
	".cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	stp x29, x30, [sp, #-32]!\n"
	".cfi_def_cfa_offset 32\n"
	".cfi_offset 29, -32\n"
	".cfi_offset 30, -24\n"
	"	mov x29, sp\n"
	"	stp x1, x2, [sp, #16]\n"
	"	bl loader_dlmopen\n" /* x0: target.id, x1: target.next */
	"	mov x16, x1\n"
	"	ldp x1, x2, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	".cfi_def_cfa_offset 0\n"
	".cfi_restore 29\n"
	".cfi_restore 30\n"
	"	adrp x9, loader_kept_flags\n"
	"	ldr w9, [x9, #:lo12:loader_kept_flags]\n"
	"	and w2, w2, w9\n"
	"	cbz x16, 1f\n"
	"	br x16\n"
	"1:	mov x0, xzr\n"
	"	ret\n"
	".cfi_endproc\n"
	".size dlmopen, . - dlmopen\n"
	".popsection\n");
#else
#error "dlopen and dlmopen are written for x86_64 and aarch64"
#endif

/*
 * The namespaces that this library has made, at most glibc's 16. The copy of this library is never unloaded, so a
 * namespace stays when the program has closed what it loaded there; it is then given to the next that asks for a new
 * one, or a program that loads and closes again and again would run out of them.
 */
#define MAX_NAMESPACES 16

static struct namespace {
	Lmid_t id;
	struct link_map *last; /* of the objects that came with this library; NULL: this entry is free */
	int taker;             /* the thread that it was given to */
} namespaces[MAX_NAMESPACES];

static int thread_id(void)
{
	return (int)syscall(SYS_gettid);
}

/*
 * A namespace in which nothing but this library is loaded, or NULL. Where another thread took it, its call may still be
 * under way: such a one is taken only where `any` is set.
 */
static struct namespace *take_empty(bool any)
{
	struct namespace *found = NULL;
	int self = thread_id();

	slice_lock();
	for (int i = 0; i < MAX_NAMESPACES && !found; i++)
		if (namespaces[i].last && !namespaces[i].last->l_next && (any || namespaces[i].taker == self))
			found = &namespaces[i];
	if (found)
		found->taker = self;
	slice_unlock();
	return found;
}

/* Without the lock around the loader's calls: the loader holds its own while constructors run, and they come here. */
static struct namespace *make(void)
{
	struct namespace made = {.taker = thread_id()};
	struct namespace *entry = NULL;
	void *handle = NULL;
	Dl_info self;

	if (REAL(dladdr, dladdr_fn)(namespaces, &self))
		handle = REAL(dlmopen, dlmopen_fn)(LM_ID_NEWLM, self.dli_fname, RTLD_NOW);
	if (!handle)
		return NULL;
	if (REAL(dlinfo, dlinfo_fn)(handle, RTLD_DI_LMID, &made.id) ||
	    REAL(dlinfo, dlinfo_fn)(handle, RTLD_DI_LINKMAP, &made.last))
		return NULL;
	while (made.last->l_next)
		made.last = made.last->l_next;
	slice_lock();
	for (int i = 0; i < MAX_NAMESPACES && !entry; i++)
		if (!namespaces[i].last)
			entry = &namespaces[i];
	if (entry)
		*entry = made;
	slice_unlock();
	return entry;
}

void *loader_dlopen(void)
{
	if (slice_look() == NONE)
		__atomic_store_n(&loader_kept_flags, ~0, __ATOMIC_RELAXED);
	return REAL(dlopen, void);
}

struct target loader_dlmopen(Lmid_t id)
{
	struct target target = {id, REAL(dlmopen, dlmopen_fn)};
	struct namespace *space;

	if (slice_look() == NONE)
		__atomic_store_n(&loader_kept_flags, ~0, __ATOMIC_RELAXED);
	else if (id == LM_ID_NEWLM) {
		space = take_empty(false);
		if (!space)
			space = make();
		if (!space)
			space = take_empty(true);
		target.id = space ? space->id : id;
		target.next = space ? target.next : NULL;
	}
	return target;
}
