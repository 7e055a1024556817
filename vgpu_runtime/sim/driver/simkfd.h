/*
 * Declares the types and functions of the simulated driver (KFD), for all of its source files.
 *
 * The driver is a preloaded library. It answers the libc calls by which the ROCm runtime reaches the kernel (open,
 * fopen, opendir, fstat, close, ioctl) if they are about the KFD device, the DRM render nodes or the KFD topology; it
 * passes all other calls on by RTLD_NEXT. It is loaded after libvgpu.so, so that the library's calls reach it, as calls
 * reach a kernel.
 *
 * A function that returns an int returns 0 or a negative errno, unless its comment names another result. A function
 * that returns a bool returns true for "yes" or success.
 */
#ifndef SIMKFD_H
#define SIMKFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "kfd_abi.h"

#define SIM_MAX_CARDS 16
#define SIM_MAX_UNITS 1024 /* the most bits that the kernel allows in a CU mask */
#define SIM_MASK_WORDS (SIM_MAX_UNITS / 32)
#define SIM_PIPES 20 /* the number of pipes, and so of slices at a time, of a Hygon card */
#define SIM_EXPORT __attribute__((visibility("default")))

/* The sizes, in bytes per XCC, that the kernel requires of a compute queue's save area: see ../save_area.py. */
struct sim_save_area {
	uint32_t stack;
	uint32_t bytes; /* includes the stack */
	uint32_t debug; /* follows after `bytes` */
	uint32_t xccs;
};

enum sim_save_area_check { SIM_SAVE_AREA_NONE, SIM_SAVE_AREA_EQUAL, SIM_SAVE_AREA_AT_LEAST };

struct sim_card {
	uint32_t gpu_id;
	uint32_t node; /* the card's number under topology/nodes */
	uint32_t render_minor;
	uint32_t vendor; /* PCI ids: vendor and device */
	uint32_t device;
	char pci[16];
	uint32_t units;
	uint32_t xcc;
	bool paired; /* true for RDNA, whose compute units are masked in pairs */
	uint64_t vram_bytes;
	struct sim_save_area save_area;
};

/* The content of driver.conf, and the paths of the simulated machine; read once, and never changed. */
struct sim_world {
	bool present; /* false if nothing is simulated: every call is passed on */
	char dir[256]; /* the folder with sys/, state/ and driver.conf */
	char dev[260]; /* the folder that stands for /dev */
	char root[256]; /* the folder in which files of the container are read for the maker's runtime, in place of / */
	enum sim_save_area_check save_area_check;
	int card_count;
	struct sim_card cards[SIM_MAX_CARDS];
};

/* world.c: reads driver.conf */
const struct sim_world *sim_world(void);
bool sim_card_hidden(int card); /* forbidden by the device cgroup, or its slice is refused by the maker's runtime */
int sim_card_index(uint32_t gpu_id); /* -1 if there is no such card, or it is hidden */

/* slice.c: the container's slice of a Hygon card */
struct sim_slice {
	bool cut; /* true if there is a vdev file for the card */
	const char *refused; /* the reason why the slice is refused, in one word; NULL if it is not */
	bool begun; /* true once the driver has given the slice its pipe, a number */
	uint32_t units;
	uint32_t pipe;
	uint64_t vram_bytes;
	uint64_t device, inode; /* identify the vdev file */
};
const struct sim_slice *sim_slice(int card); /* NULL if the container has the whole card */
void sim_slice_begin(void);
void sim_slice_forget(void);

/* pipes.c: gives the slices of Hygon cards their pipes */
const char *sim_pipe_take(int card, const struct sim_slice *slice); /* NULL on success, else the reason in one word */
void sim_pipe_forget(void);

/* slice_files.c: returns a descriptor of the file with the slice's figures; -1 if the slice changes nothing in it */
int sim_slice_file(const char *path, const char *real_path);

/* paths.c: says what a path stands for on the simulated machine */
int sim_node_card(const char *path, const char **file); /* the card, or -1; `file` is below the node's folder */
enum sim_path { SIM_PATH_OTHER, SIM_PATH_DEVICE, SIM_PATH_TREE, SIM_PATH_FORBIDDEN };
enum sim_path sim_path_kind(const char *path, char *real_path, size_t size); /* real_path: the path to open */

/* object.c: the process's memory objects, by their numbers; negative results are a negative errno */
struct sim_object {
	int card;
	bool vram;
	uint64_t bytes;
	uint64_t offset; /* the place in the card's device file; 0 if it has none */
};
int64_t sim_object_create(int card, bool vram, bool mapped, uint64_t bytes); /* a new object with one reference */
struct sim_object sim_object_get(uint32_t object);
void sim_object_drop(uint32_t object);
int sim_object_move(uint32_t object); /* moves the object to VRAM; 0 or a negative errno */
int sim_object_export(uint32_t object); /* returns a descriptor of the object's DMA-buf */
int64_t sim_object_import(int dmabuf); /* returns the object, with one more reference */
void sim_object_look(void); /* frees objects of which all descriptors are closed and no reference is left */
void sim_object_forget(void);

/* gem.c: handles in open render nodes */
struct drm_handle;
struct drm_prime;
struct amdgpu_gem_op;
union amdgpu_gem_create;
int sim_gem_open(int fd, int card);
int sim_gem_create(int fd, int card, union amdgpu_gem_create *args);
int sim_gem_close(int fd, int card, const struct drm_handle *args);
int sim_gem_op(int fd, int card, struct amdgpu_gem_op *args);
int sim_gem_export(int fd, int card, struct drm_prime *args);
int sim_gem_import(int fd, int card, struct drm_prime *args);
void sim_gem_look(void); /* closes the handles that belong to closed files */
void sim_gem_forget(void);

/* device.c: file descriptors that stand for /dev/kfd and /dev/dri/renderD<minor> */
#define SIM_DEVICE_KFD SIM_MAX_CARDS
int sim_device_open(const char *path, int flags); /* -1 with errno on failure */
bool sim_device_is(int fd, int device); /* `device` is a card's index (its render node) or SIM_DEVICE_KFD */
int sim_device_render_card(int fd); /* the card's index; -1 if `fd` is no render node */
int sim_device_stat(int fd, struct stat *st); /* fstat(2), with the number of the device for which it stands */
int sim_device_watcher(int card); /* this library's own descriptor of the card's file */
int sim_stat(int fd, struct stat *st); /* the kernel's own fstat(2) */
int sim_open_again(int fd); /* opens the same inode again, as another open file; its descriptor, or -1 */
int sim_raise(int fd); /* moves the file to a descriptor number that programs do not use; -1 on failure */
int sim_lock(int fd, int command, short type, int64_t byte); /* as fcntl(2), for one byte; repeated if interrupted */
bool sim_mark(int fd, int64_t byte); /* locks the byte for as long as the open file exists */
bool sim_is_marked(int fd, int64_t byte); /* true if an open file other than that of `fd` has locked the byte */
void sim_device_discard(int card, uint64_t offset, uint64_t bytes); /* frees the host's memory behind it */
void sim_device_forget(void);

/* vram.c: counts the bytes of VRAM that all processes use */
int sim_vram_charge(int card, uint64_t bytes);
void sim_vram_release(int card, uint64_t bytes);
uint64_t sim_vram_available(int card); /* bytes free for all processes together */
uint64_t sim_vram_room(int card); /* bytes free for this process */
void sim_vram_forget(void);

/* memory.c: KFD's requests about memory */
int sim_memory_acquire_vm(const struct kfd_acquire_vm *args);
bool sim_memory_vm_acquired(int card);
int sim_memory_alloc(struct kfd_alloc_memory *args);
int sim_memory_export(struct kfd_export_dmabuf *args);
int sim_memory_import(struct kfd_import_dmabuf *args);
int sim_memory_free(const struct kfd_free_memory *args);
int sim_memory_map(struct kfd_map_memory *args, bool mapped);
uint64_t sim_memory_mapped(int card, uint64_t va); /* size of the buffer at this address of the card; 0 if none */
int sim_memory_available(struct kfd_available_memory *args);
void *sim_memory_cpu(uint64_t va); /* the process's address for an address of a card */
void sim_memory_forget(void);

/* svm.c: answers programs' ioctls of KFD about shared virtual memory; each int is 0, or a negative error number */
int sim_svm(const struct kfd_svm *args);
void sim_svm_forget(void);

/* queue.c: answers programs' ioctls of KFD about queues; each int is 0, or a negative error number */
int sim_queue_create(struct kfd_create_queue *args);
int sim_queue_update(const struct kfd_update_queue *args);
int sim_queue_set_mask(const struct kfd_set_cu_mask *args);
int sim_queue_destroy(const struct kfd_destroy_queue *args);
void sim_queue_forget(void);

/* save_area.c: checks the save area of a new queue as Linux does */
int sim_save_area_check(int card, const struct kfd_create_queue *args); /* -EINVAL if the sizes are wrong, else 0 */

/* packets.c: carries out the packets of a compute queue, as a card does */
struct sim_queue {
	bool live;
	int card;
	uint32_t type;
	uint64_t ring; /* an address in the program, as are `read_index` and `write_index` */
	uint64_t ring_bytes;
	uint64_t read_index;
	uint64_t write_index;
	uint32_t active_units; /* number of units that run its kernels: those of its mask, or all */
	uint64_t busy_until_ns; /* 0 if no kernel runs */
};
bool sim_packets_step(struct sim_queue *queue); /* true if it carried out a packet, or must look again soon */

/* copy_kernel.c: carries out a dispatch of HIP's own copy kernel; ignores any other dispatch */
void sim_copy_kernel(const void *dispatch);

/* sdma.c: carries out the packets of a queue for copies (SDMA) */
bool sim_sdma_step(struct sim_queue *queue);

/* event.c: the clock, and KFD's requests about events */
uint64_t sim_now_ns(void);
uint64_t sim_gpu_clock(uint64_t ns); /* a card's clock counter (100 MHz) at the time `ns` */
int sim_event_create(struct kfd_create_event *args);
int sim_event_destroy(const struct kfd_event_id *args);
int sim_event_set(uint32_t event_id);
int sim_event_reset(uint32_t event_id);
int sim_event_wait(struct kfd_wait_events *args);
void sim_event_forget(void);

/* ioctl.c: answers a program's ioctl on /dev/kfd */
int sim_ioctl(unsigned request, uint64_t args); /* `args` is an address in the program */

/* drm.c: answers a program's ioctl on a render node */
int sim_drm_ioctl(int fd, int card, unsigned request, uint64_t args); /* `args` is an address in the program */

/* log.c: appends a line about an important call to the file that the variable SIMKFD_LOG names */
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
