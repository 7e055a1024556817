/*
 * libFuzzer's target for all that a program can pass to the library: requests to KFD and DRM with any number, letter,
 * size and address, and changes of its own usage region. $FUZZ_TARGET (kfd, drm, region) says which of them. The library
 * is in this program; the simulated driver is below it.
 *
 * After each step the driver holds no more than the slice may; after each input, when everything was given back, it
 * holds nothing and the library charges nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vgpu_drm.h"
#include "vgpu_kfd.h"
#include "vgpu_region.h"

#define PAGE 4096
#define STEPS 48 /* of an input at most */
#define RESERVE (UINT64_C(32) << 20)
#define FIRST_OF_AMDGPU DRM_NR_AMDGPU_GEM_CREATE
#define DESCRIPTORS 128 /* more than an input opens; the library and the simulated driver have higher numbers */
#define ACQUIRE_VM _IOW(KFD_IOC_TYPE, 0x15, uint64_t)

static enum { KFD, DRM, REGION } target;

struct input {
	const uint8_t *at, *end;
};

static int (*driver)(int, unsigned long, ...);
static uint32_t gpu_id;
static uint64_t limit, whole; /* bytes of the slice, and of the card */
static char render_node[64], usage[512];
static uint8_t *page; /* followed by one that cannot be touched */
static uint64_t ring[512];
static int kfd, render, nothing; /* descriptors; that of no card is /dev/null's */

static uint64_t take(struct input *input, size_t bytes)
{
	uint64_t value = 0;

	for (; bytes-- && input->at < input->end; input->at++)
		value = value << 8 | *input->at;
	return value;
}

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "broken: %s\n", what);
	abort();
}

/* Bytes of the card that a driver's answer leaves to the asker: the simulated driver's, or the library's. */
static uint64_t available(int (*call)(int, unsigned long, ...))
{
	struct kfd_available_memory args = {.gpu_id = gpu_id};

	check(call(kfd, _IOWR(KFD_IOC_TYPE, KFD_NR_AVAILABLE_MEMORY, struct kfd_available_memory), &args) == 0,
	      "the memory that is left cannot be asked for");
	return args.available;
}

static uint64_t held(void)
{
	return whole - available(driver);
}

/* Where `size` bytes are: at the end of a page before one that cannot be touched, across it, in no memory at all. */
static void *choose_place(struct input *input, size_t size)
{
	switch (take(input, 1) % 16) {
	case 0:
		return NULL;
	case 1:
		return page + PAGE;
	case 2:
		return page + PAGE - size / 2;
	case 3:
		return (void *)(uintptr_t)(take(input, 8) | UINT64_C(1) << 62); /* never an address of this program */
	default:
		return page + PAGE - size;
	}
}

static void put(uint8_t *args, size_t size, size_t at, const void *value, size_t bytes)
{
	if (at + bytes <= size)
		memcpy(args + at, value, bytes);
}

static unsigned kfd_number(struct input *input)
{
	static const unsigned numbers[] = {
		KFD_NR_CREATE_QUEUE, KFD_NR_DESTROY_QUEUE, KFD_NR_ALLOC_MEMORY, KFD_NR_FREE_MEMORY, KFD_NR_SET_CU_MASK,
		KFD_NR_AVAILABLE_MEMORY, 0x1d /* import */, 0x1e /* SVM */, 0x20, 0x24 /* export */,
	};

	return numbers[take(input, 1) % (sizeof numbers / sizeof *numbers)];
}

/* Values that pass an argument's first check: the card, sizes near the limit, handles, live rings. */
static void fill_kfd(struct input *input, unsigned number, uint8_t *args, size_t size)
{
	uint64_t handle = (uint64_t)gpu_id << 32 | take(input, 1) % 8, bytes = take(input, 2) << 16;
	uintptr_t address = number == KFD_NR_CREATE_QUEUE ? (uintptr_t)ring : (uintptr_t)choose_place(input, 16);
	bool own_card = take(input, 1) % 8;

	if (number == KFD_NR_CREATE_QUEUE) {
		for (size_t at = 0; at < 24; at += 8) /* the simulated card reads there */
			put(args, size, at, &address, 8);
		put(args, size, 24, &(uint64_t){4096}, 8);
		if (own_card)
			put(args, size, 36, &gpu_id, 4);
	} else if (number == KFD_NR_ALLOC_MEMORY && own_card) {
		put(args, size, 8, &bytes, 8);
		put(args, size, 32, &gpu_id, 4);
		put(args, size, 36, &(uint32_t){KFD_MEM_VRAM | (uint32_t)take(input, 1) << 24}, 4);
	} else if (number == KFD_NR_AVAILABLE_MEMORY && own_card) {
		put(args, size, 8, &gpu_id, 4);
	} else if (number == KFD_NR_FREE_MEMORY) {
		put(args, size, 0, &handle, 8);
	} else if (number == KFD_NR_SET_CU_MASK || number == KFD_NR_DESTROY_QUEUE) {
		put(args, size, 0, &(uint32_t){(uint32_t)handle}, 4);
		put(args, size, 8, &address, 8);
	}
}

/* GEM and PRIME: what DRM itself has, then what amdgpu adds. */
static unsigned drm_number(struct input *input)
{
	static const unsigned numbers[] = {
		DRM_NR_GEM_CLOSE, DRM_NR_PRIME_HANDLE_TO_FD, DRM_NR_PRIME_FD_TO_HANDLE, DRM_NR_GEM_FLINK, 0x0b /* open */,
	};
	unsigned choice = (unsigned)take(input, 1);

	return choice & 1 ? numbers[choice / 2 % (sizeof numbers / sizeof *numbers)] : FIRST_OF_AMDGPU + choice / 2 % 0x20;
}

/* GEM_CREATE's size and domain (VRAM), what is asked and where the answer goes, chunks, or a handle. */
static void fill_drm(struct input *input, unsigned number, uint8_t *args, size_t size)
{
	uint64_t bytes = take(input, 2) << 16;
	void *place;

	if (number == DRM_NR_AMDGPU_GEM_CREATE) {
		put(args, size, 0, &bytes, 8);
		put(args, size, 16, &(uint64_t){AMDGPU_DOMAIN_VRAM}, 8);
	} else if (number == DRM_NR_AMDGPU_INFO) {
		memset(args, 0, size); /* no other address, which might be this program's */
		place = choose_place(input, 96);
		put(args, size, 0, &place, 8);
		put(args, size, 8, &(uint32_t){(uint32_t)take(input, 1)}, 4);
		put(args, size, 12, &(uint32_t){AMDGPU_INFO_VRAM_USAGE + (uint32_t)take(input, 1) % 12}, 4);
	} else if (number == DRM_NR_AMDGPU_CS) {
		place = choose_place(input, 64);
		put(args, size, 8, &(uint32_t){(uint32_t)take(input, 2)}, 4);
		put(args, size, 16, &place, 8);
	} else {
		put(args, size, 0, &(uint32_t){(uint32_t)bytes >> 16 & 7}, 4);
	}
}

static unsigned size_of(unsigned number, bool to_kfd)
{
	if (to_kfd)
		return number == KFD_NR_CREATE_QUEUE ? sizeof(struct kfd_create_queue)
						     : number == KFD_NR_ALLOC_MEMORY ? sizeof(struct kfd_alloc_memory) : 16;
	return number == DRM_NR_AMDGPU_GEM_CREATE || number == DRM_NR_AMDGPU_INFO ? 32 : 24;
}

static int descriptor(struct input *input, bool to_kfd)
{
	const int choices[] = {-1, nothing, kfd, render, to_kfd ? kfd : render};

	return choices[take(input, 1) % (sizeof choices / sizeof *choices)];
}

static void request(struct input *input, bool to_kfd)
{
	unsigned number = to_kfd ? kfd_number(input) : drm_number(input), how = (unsigned)take(input, 1);
	unsigned size = how & 1 ? (unsigned)take(input, 1) : size_of(number, to_kfd);
	unsigned letter = how & 2 ? (unsigned)take(input, 1) : to_kfd ? KFD_IOC_TYPE : 'd';
	unsigned direction = how & 4 ? (unsigned)take(input, 1) % 4 : 3;
	int fd = how & 8 ? descriptor(input, to_kfd) : to_kfd ? kfd : render;
	uint8_t *args = page + PAGE - size;
	void *place = choose_place(input, size);

	memset(page, 0, PAGE);
	for (unsigned i = 0; i < size && how & 16; i++)
		args[i] = (uint8_t)take(input, 1);
	if (to_kfd)
		fill_kfd(input, number, args, size);
	else
		fill_drm(input, number, args, size);
	ioctl(fd, _IOC(direction, letter, number, size), place);
}

/*
 * As the container's programs can: any bytes at any place, another length, locks on any slot. Not on the byte for
 * admission: who holds that lock makes its own container wait.
 */
static void scribble(struct input *input, int file)
{
	uint64_t value = take(input, 8);
	struct flock lock = {
		.l_type = (short)(take(input, 1) % 3), .l_start = VGPU_REGION_LOCK_SLOT + (off_t)take(input, 1), .l_len = 1,
	};

	switch (take(input, 1) % 8) {
	case 0:
		if (ftruncate(file, (off_t)(take(input, 2)))) /* then it is as it was */
			return;
		break;
	case 1:
		fcntl(file, F_OFD_SETLK, &lock);
		break;
	default:
		if (pwrite(file, &value, take(input, 1) % 9, (off_t)take(input, 2)) < 0)
			return;
	}
}

static void allocate(struct input *input)
{
	struct kfd_alloc_memory args = {.size = take(input, 2) << 16, .gpu_id = gpu_id, .flags = KFD_MEM_VRAM};

	ioctl(kfd, _IOWR(KFD_IOC_TYPE, KFD_NR_ALLOC_MEMORY, struct kfd_alloc_memory), &args);
}

/* Also those that a request was answered without: its arguments ended before the descriptor, or took no answer. */
static void close_dmabufs(void)
{
	char path[32], file[64];
	ssize_t length;

	for (int fd = 3; fd < DESCRIPTORS; fd++) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		length = readlink(path, file, sizeof file);
		if (length > 0 && memmem(file, (size_t)length, "simdmabuf", 9))
			close(fd);
	}
}

/* Handles and queue numbers of the simulated driver are the lowest that are free. */
static void give_back(uint32_t steps)
{
	for (uint32_t i = 0; i < steps; i++) {
		struct kfd_free_memory memory = {(uint64_t)gpu_id << 32 | i};
		struct kfd_destroy_queue queue = {.queue_id = i};

		ioctl(kfd, _IOW(KFD_IOC_TYPE, KFD_NR_FREE_MEMORY, struct kfd_free_memory), &memory);
		ioctl(kfd, KFD_DESTROY_QUEUE, &queue);
	}
	close(render);
	close_dmabufs();
}

static void begin(void)
{
	uint64_t vm;

	close(kfd);
	kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	render = open(render_node, O_RDWR | O_CLOEXEC);
	check(kfd >= 0 && render >= 0, "the simulated card cannot be opened");
	vm = (uint64_t)gpu_id << 32 | (uint32_t)render;
	ioctl(kfd, ACQUIRE_VM, &vm);
}

int LLVMFuzzerInitialize(int *count, char ***words)
{
	(void)count, (void)words;
	driver = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	target = !strcmp(getenv("FUZZ_TARGET"), "kfd") ? KFD : !strcmp(getenv("FUZZ_TARGET"), "drm") ? DRM : REGION;
	gpu_id = (uint32_t)strtoul(getenv("FUZZ_GPU"), NULL, 10);
	limit = strtoull(getenv("FUZZ_LIMIT"), NULL, 10);
	snprintf(render_node, sizeof render_node, "/dev/dri/renderD%s", getenv("FUZZ_RENDER"));
	snprintf(usage, sizeof usage, "%s/usage", getenv("VGPU_TEST_FOLDER"));
	page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(page != MAP_FAILED && mprotect(page + PAGE, PAGE, PROT_NONE) == 0, "no memory");
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	begin();
	whole = available(driver);
	check(available(ioctl) == limit, "the library does not hold this process to a slice");
	return 0;
}

static void touch(struct input *input, int file)
{
	if (target == REGION)
		(take(input, 1) % 2) ? allocate(input) : scribble(input, file);
	else
		request(input, target == KFD || take(input, 1) % 4 == 0);
}

/* A region is broken where its length or its header is: then the slice gets nothing. It is mended for the next input. */
static void run(struct input *input)
{
	static uint8_t region[1 << 17];
	static ssize_t length;
	int file = open(usage, O_RDWR | O_CLOEXEC);
	uint32_t steps = 0;

	check(file >= 0, "the region cannot be opened");
	if (!length)
		length = pread(file, region, sizeof region, 0);
	for (; steps < STEPS && input->at < input->end; steps++) {
		touch(input, file);
		check(held() <= limit + RESERVE, "more memory than the slice has");
	}
	if (target == REGION)
		check(ftruncate(file, length) == 0 && pwrite(file, region, (size_t)length, 0) == length, "no more room");
	else
		check(held() > limit || limit - available(ioctl) == held(), "the library charges other than the driver holds");
	close(file);
	give_back(steps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, data + size};

	begin();
	run(&input);
	check(held() == 0, "memory that cannot be given back");
	check(available(ioctl) == limit, "a charge for memory that was given back");
	return 0;
}
