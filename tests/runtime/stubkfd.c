/*
 * A driver below the library that a test can look into: every descriptor that is not open, such as -1, is KFD's device
 * to it, it accepts every request, counts, and appends a line per call to $STUB_LOG. $STUB_FAIL is the number of a request that fails with EIO.
 *
 * With $STUB_TRUTH it also keeps what each live process really holds, independently of the library's books: a cell
 * per process, alive while it has an address space, as a driver sees it. Behind the cells it counts the moments when
 * the sum was above $STUB_LIMIT.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "vgpu_kfd.h"

#define CELLS 64

struct truth {
	struct {
		uint64_t held;
		uint64_t pid;
	} cells[CELLS];
	uint64_t violations;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sizes[1 << 16], held;
static uint32_t next_handle = 1, next_queue = 1;
static int truth_file = -1, cell = -1;

static void note(const char *format, ...)
{
	const char *path = getenv("STUB_LOG");
	int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
	va_list rest;

	if (fd < 0)
		return;
	va_start(rest, format);
	vdprintf(fd, format, rest);
	va_end(rest);
	close(fd);
}

static bool is_alive(uint64_t pid)
{
	char path[64], digit = '0';
	int fd;

	snprintf(path, sizeof path, "/proc/%u/statm", (unsigned)pid);
	fd = pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return false;
	if (read(fd, &digit, 1) != 1)
		digit = '0';
	close(fd);
	return digit != '0';
}

static void add_up(struct truth *truth)
{
	uint64_t sum = 0;

	for (int i = 0; cell < 0 && i < CELLS; i++)
		if (!is_alive(truth->cells[i].pid))
			cell = i;
	truth->cells[cell].pid = (uint64_t)getpid();
	truth->cells[cell].held = held;
	for (int i = 0; i < CELLS; i++)
		if (truth->cells[i].held && is_alive(truth->cells[i].pid))
			sum += truth->cells[i].held;
	truth->violations += sum > strtoull(getenv("STUB_LIMIT"), NULL, 10);
}

/* What all processes hold and the most that they held, in the file $STUB_PEAK: for processes that free all in the end. */
static void note_peak(uint64_t change)
{
	static struct {
		uint64_t held;
		uint64_t peak;
	} *all;
	const char *path = getenv("STUB_PEAK");
	uint64_t now, peak;

	if (!path)
		return;
	if (!all)
		all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED, open(path, O_RDWR | O_CLOEXEC), 0);
	if (all == MAP_FAILED)
		abort();
	now = __atomic_add_fetch(&all->held, change, __ATOMIC_SEQ_CST);
	peak = __atomic_load_n(&all->peak, __ATOMIC_SEQ_CST);
	while (peak < now && !__atomic_compare_exchange_n(&all->peak, &peak, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

/* Changes what this process holds and checks the sum over live processes, all under one lock. */
static void account(uint64_t change)
{
	struct truth truth = {0};

	note_peak(change);
	held += change;
	if (!getenv("STUB_TRUTH"))
		return;
	if (truth_file < 0)
		truth_file = open(getenv("STUB_TRUTH"), O_RDWR | O_CLOEXEC);
	if (flock(truth_file, LOCK_EX) || pread(truth_file, &truth, sizeof truth, 0) < 0)
		abort();
	add_up(&truth);
	if (pwrite(truth_file, &truth, sizeof truth, 0) != sizeof truth)
		abort();
	flock(truth_file, LOCK_UN);
}

static int alloc(struct kfd_alloc_memory *memory)
{
	uint32_t handle = next_handle++ & 0xffff;

	memory->handle = (uint64_t)memory->gpu_id << 32 | handle;
	if (memory->flags & KFD_MEM_VRAM) {
		sizes[handle] = memory->size;
		account(memory->size);
	}
	return 0;
}

static int release(const struct kfd_free_memory *memory)
{
	uint64_t *size = &sizes[memory->handle & 0xffff];

	account(-*size);
	*size = 0;
	return 0;
}

static int set_mask(const struct kfd_set_cu_mask *mask)
{
	const uint32_t *words = (const uint32_t *)(uintptr_t)mask->cu_mask_ptr;

	note("mask %u 0x", mask->queue_id);
	for (uint32_t i = mask->num_cu_mask / 32; i-- > 0;)
		note("%08x", words[i]);
	note("\n");
	return 0;
}

static int answer(unsigned number, void *argument)
{
	const char *failing = getenv("STUB_FAIL");

	note("call %#x\n", number);
	if (failing && strtoul(failing, NULL, 0) == number) {
		errno = EIO;
		return -1;
	}
	switch (number) {
	case KFD_NR_CREATE_QUEUE:
		((struct kfd_create_queue *)argument)->queue_id = next_queue++;
		return 0;
	case KFD_NR_SET_CU_MASK:
		return set_mask(argument);
	case KFD_NR_ALLOC_MEMORY:
		return alloc(argument);
	case KFD_NR_FREE_MEMORY:
		return release(argument);
	case KFD_NR_AVAILABLE_MEMORY:
		((struct kfd_available_memory *)argument)->available = (UINT64_C(16) << 30) - held;
		return 0;
	default:
		return 0;
	}
}

/* With $STUB_TRUTH, the library dwells before each publication: that is where another process, or death, may come. */
void vgpu_test_before_write(void)
{
	static __thread unsigned seed;

	if (!getenv("STUB_TRUTH"))
		return;
	if (!seed)
		seed = (unsigned)getpid();
	usleep((unsigned)rand_r(&seed) % 400);
}

/* $STUB_TAKEN_BACK is an offset in the region: there a neighbour, which a test plays, takes its charge back. */
void vgpu_test_before_pause(void)
{
	const char *at = getenv("STUB_TAKEN_BACK");
	uint64_t nothing = 0;
	char path[4096];
	int fd;

	if (!at)
		return;
	snprintf(path, sizeof path, "%s/usage", getenv("VGPU_TEST_FOLDER"));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (pwrite(fd, &nothing, sizeof nothing, (off_t)strtoull(at, NULL, 10)) != sizeof nothing)
		abort();
	close(fd);
}

static int kfd_number(void)
{
	static const char text[] = "240:0\n";
	int fd = memfd_create("number", MFD_CLOEXEC);

	return write(fd, text, sizeof text - 1) < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -1 : fd;
}

/* $STUB_SYS stands for /sys. */
static int open_below(const char *path, int flags, int mode)
{
	const char *folder = getenv("STUB_SYS");
	char moved[4096];

	if (!strcmp(path, "/sys/devices/virtual/kfd/kfd/dev"))
		return kfd_number();
	if (folder && !strncmp(path, "/sys/", 5)) {
		snprintf(moved, sizeof moved, "%s/%s", folder, path + 5);
		path = moved;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	va_list rest;
	int mode;

	va_start(rest, flags);
	mode = flags & O_CREAT ? va_arg(rest, int) : 0;
	va_end(rest);
	return open_below(path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *) = (FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen");
	int fd;

	if (!getenv("STUB_SYS") || strncmp(path, "/sys/", 5))
		return next(path, mode);
	fd = open_below(path, O_RDONLY | O_CLOEXEC, 0);
	return fd < 0 ? NULL : fdopen(fd, mode);
}

FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

int fstat(int fd, struct stat *status)
{
	if (syscall(SYS_fstat, fd, status) == 0)
		return 0;
	*status = (struct stat){.st_mode = S_IFCHR | 0666, .st_rdev = makedev(240, 0)};
	return 0;
}

/* A driver has no threads that a fork leaves behind: in the child nobody holds the lock. */
static void begin_in_child(void)
{
	pthread_mutex_init(&mutex, NULL);
}

__attribute__((constructor)) static void survive_forks(void)
{
	if (pthread_atfork(NULL, NULL, begin_in_child))
		abort();
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list rest;
	void *argument;
	int result;

	(void)fd;
	va_start(rest, request);
	argument = va_arg(rest, void *);
	va_end(rest);
	pthread_mutex_lock(&mutex);
	result = answer(_IOC_NR(request), argument);
	pthread_mutex_unlock(&mutex);
	return result;
}
