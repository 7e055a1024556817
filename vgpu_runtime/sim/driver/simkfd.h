/*
 * A simulated /dev/kfd: the shared vocabulary of its files.
 *
 * The driver is a preloaded library. It answers the libc calls with which the ROCm runtime reaches the kernel
 * (open, fopen, opendir, fstat, close, ioctl) for the KFD device, the DRM render nodes and the KFD topology, and passes
 * everything else on with RTLD_NEXT. It is loaded after libvgpu.so, as a kernel is below it.
 *
 * Functions that answer an ioctl return 0 or a negative errno.
 */
#ifndef SIMKFD_H
#define SIMKFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "kfd_abi.h"

#define SIM_MAX_CARDS 16
#define SIM_MAX_UNITS 1024 /* the kernel's own bound on the bits of a CU mask */
#define SIM_MASK_WORDS (SIM_MAX_UNITS / 32)
#define SIM_PIPES 20 /* of a Hygon card */
#define SIM_EXPORT __attribute__((visibility("default")))

/* What the kernel expects of a compute queue, for each XCC: see ../save_area.py. */
struct sim_save_area {
	uint32_t stack;
	uint32_t bytes; /* with the stack */
	uint32_t debug; /* behind them */
	uint32_t xccs;
};

enum sim_save_area_check { SIM_SAVE_AREA_NONE, SIM_SAVE_AREA_EQUAL, SIM_SAVE_AREA_AT_LEAST };

struct sim_card {
	uint32_t gpu_id;
	uint32_t node; /* its number under topology/nodes */
	uint32_t render_minor;
	uint32_t vendor; /* its PCI ids */
	uint32_t device;
	char pci[16];
	uint32_t units;
	uint32_t xcc;
	bool paired; /* RDNA: compute units come in pairs that are masked together */
	uint64_t vram_bytes;
	struct sim_save_area save_area;
};

/* What driver.conf says, and where things are. Read once; never changes. */
struct sim_world {
	bool present; /* false: no simulation here, pass every call on */
	char dir[256]; /* holds sys/, state/ and driver.conf */
	char dev[260]; /* stands for /dev */
	char root[256]; /* stands for / where the maker's runtime reads files of the container */
	enum sim_save_area_check save_area_check;
	int card_count;
	struct sim_card cards[SIM_MAX_CARDS];
};

/* world.c */
const struct sim_world *sim_world(void);
bool sim_card_hidden(int card); /* the device cgroup forbids it, or the maker's runtime refuses the slice */
int sim_card_index(uint32_t gpu_id); /* -1: no such card, or hidden */

/* slice.c: what this container has of a Hygon card */
struct sim_slice {
	bool cut; /* there is a vdev file for the card */
	const char *refused; /* one word with the reason, or NULL */
	bool begun; /* it has its pipe */
	uint32_t units;
	uint32_t pipe;
	uint64_t vram_bytes;
	uint64_t device, inode; /* of the vdev file */
};
const struct sim_slice *sim_slice(int card); /* NULL: the whole card */
void sim_slice_begin(void);
void sim_slice_forget(void);

/* pipes.c */
const char *sim_pipe_take(int card, const struct sim_slice *slice); /* NULL, or why not, in one word */
void sim_pipe_forget(void);

/* slice_files.c: a descriptor of the file as the slice shows it, or -1 where that is no different */
int sim_slice_file(const char *path, const char *real_path);

/* paths.c */
int sim_node_card(const char *path, const char **file); /* -1: no file of a card's node. file: below the node's folder */
enum sim_path { SIM_PATH_OTHER, SIM_PATH_DEVICE, SIM_PATH_TREE, SIM_PATH_FORBIDDEN };
enum sim_path sim_path_kind(const char *path, char *real_path, size_t size); /* real_path: for TREE and FORBIDDEN */

/* object.c: memory of this process, by the number of its object */
struct sim_object {
	int card;
	bool vram;
	uint64_t bytes;
	uint64_t offset; /* in the card's device file; 0: none */
};
int64_t sim_object_create(int card, bool vram, bool mapped, uint64_t bytes); /* with one reference; or an errno */
struct sim_object sim_object_get(uint32_t object);
void sim_object_drop(uint32_t object);
int sim_object_move(uint32_t object); /* to VRAM */
int sim_object_export(uint32_t object); /* a descriptor of its DMA-buf, or a negative errno */
int64_t sim_object_import(int dmabuf); /* with one more reference; or an errno */
void sim_object_look(void); /* drops what only closed descriptors held */
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
void sim_gem_look(void); /* closes the handles of files that are closed */
void sim_gem_forget(void);

/* device.c: file descriptors that stand for /dev/kfd and /dev/dri/renderD<minor> */
#define SIM_DEVICE_KFD SIM_MAX_CARDS
int sim_device_open(const char *path, int flags); /* -1 and errno */
bool sim_device_is(int fd, int device); /* `device`: a card's index for its render node, or SIM_DEVICE_KFD */
int sim_device_render_card(int fd); /* -1: not a render node */
int sim_device_stat(int fd, struct stat *st); /* fstat(2), with the device number of what it stands for */
int sim_device_watcher(int card); /* a descriptor of ours for the card's file */
int sim_stat(int fd, struct stat *st); /* fstat(2), as the kernel answers */
int sim_open_again(int fd); /* another open file of the same inode */
int sim_raise(int fd); /* the file under a number that programs do not use; -1 for none */
int sim_lock(int fd, int command, short type, int64_t byte); /* fcntl(2) with a lock of one byte; again if interrupted */
bool sim_mark(int fd, int64_t byte); /* for as long as the open file lives */
bool sim_is_marked(int fd, int64_t byte); /* by another open file than that of `fd` */
void sim_device_discard(int card, uint64_t offset, uint64_t bytes); /* gives the machine its memory back */
void sim_device_forget(void);

/* vram.c: bytes of VRAM in use over all processes */
int sim_vram_charge(int card, uint64_t bytes);
void sim_vram_release(int card, uint64_t bytes);
uint64_t sim_vram_available(int card); /* to all processes together */
uint64_t sim_vram_room(int card); /* to this process */
void sim_vram_forget(void);

/* memory.c */
int sim_memory_acquire_vm(const struct kfd_acquire_vm *args);
bool sim_memory_vm_acquired(int card);
int sim_memory_alloc(struct kfd_alloc_memory *args);
int sim_memory_export(struct kfd_export_dmabuf *args);
int sim_memory_import(struct kfd_import_dmabuf *args);
int sim_memory_free(const struct kfd_free_memory *args);
int sim_memory_map(struct kfd_map_memory *args, bool mapped);
uint64_t sim_memory_mapped(int card, uint64_t va); /* bytes of the buffer that begins there for this card, or 0 */
int sim_memory_available(struct kfd_available_memory *args);
void *sim_memory_cpu(uint64_t va); /* the process's address for a card's */
void sim_memory_forget(void);

/* svm.c */
int sim_svm(const struct kfd_svm *args);
void sim_svm_forget(void);

/* queue.c */
int sim_queue_create(struct kfd_create_queue *args);
int sim_queue_update(const struct kfd_update_queue *args);
int sim_queue_set_mask(const struct kfd_set_cu_mask *args);
int sim_queue_destroy(const struct kfd_destroy_queue *args);
void sim_queue_forget(void);

/* save_area.c */
int sim_save_area_check(int card, const struct kfd_create_queue *args); /* 0, or -EINVAL */

/* packets.c */
struct sim_queue {
	bool live;
	int card;
	uint32_t type;
	uint64_t ring; /* addresses as the program gave them */
	uint64_t ring_bytes;
	uint64_t read_index;
	uint64_t write_index;
	uint32_t active_units; /* that run its kernels: those of its mask, or all */
	uint64_t busy_until_ns; /* 0: no kernel is running */
};
bool sim_packets_step(struct sim_queue *queue); /* true: it did something */

/* copy_kernel.c: does what a dispatch of HIP's own copying kernel asks for, and nothing for any other dispatch */
void sim_copy_kernel(const void *dispatch);

/* sdma.c */
bool sim_sdma_step(struct sim_queue *queue);

/* event.c */
uint64_t sim_now_ns(void);
uint64_t sim_gpu_clock(uint64_t ns); /* a card's counter at that time: 100 MHz */
int sim_event_create(struct kfd_create_event *args);
int sim_event_destroy(const struct kfd_event_id *args);
int sim_event_set(uint32_t event_id);
int sim_event_reset(uint32_t event_id);
int sim_event_wait(struct kfd_wait_events *args);
void sim_event_forget(void);

/* ioctl.c */
int sim_ioctl(unsigned request, uint64_t args); /* `args`: an address of the program's */

/* drm.c */
int sim_drm_ioctl(int fd, int card, unsigned request, uint64_t args); /* `args`: an address of the program's */

/* log.c: one line per noteworthy call, appended to the file that SIMKFD_LOG names */
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
