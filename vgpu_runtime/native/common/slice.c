#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "paths.h"
#include "process.h"
#include "raw.h"
#include "slice.h"
#include "vgpu_paths.h"

struct slice slice;

static enum enforcement enforcement;
static const char *closed_because; /* constant once CLOSED */

/*
 * A new process holds none of its parent's card memory (the kernel binds it to the parent's address space) and must
 * not write the parent's slot: it starts from nothing and claims a slot of its own when it needs one.
 */
static void start_afresh(void)
{
	memset(&slice.usage, 0, sizeof slice.usage);
	table_clear(&slice.buffers);
	table_clear(&slice.gem);
	table_clear(&slice.shared);
	table_clear(&slice.queues);
	region_forget();
}

void slice_lock(void)
{
	if (process_lock())
		start_afresh();
}

void slice_unlock(void)
{
	process_unlock();
}

/* A child that never touches a card must not keep the parent's files open: see region_forget. */
static void forget_in_child(void)
{
	slice_lock();
	slice_unlock();
}

/* Returns how many bytes there are, or a negative errno. */
static ssize_t read_file(const char *path, char *text, size_t size)
{
	int fd = raw_open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t got = 1;

	if (fd < 0)
		return fd;
	while (length < size && got > 0) {
		got = raw_read(fd, text + length, size - length);
		if (got == -EINTR)
			got = 1;
		else if (got > 0)
			length += (size_t)got;
	}
	raw_close(fd);
	return got < 0 ? got : (ssize_t)length;
}

/*
 * Whether the agent's config is mounted, whatever its path has become: root in the container cannot unmount it, but
 * can rename the folder that holds it, and then no config would look like a container without a slice.
 */
static bool config_is_mounted(void)
{
	static const char name[] = "/vgpu.conf "; /* ends the mount point's field: proc(5), mountinfo */
	enum { KEPT = sizeof name - 2 };
	char text[4096 + KEPT];
	size_t kept = 0;
	ssize_t got;
	bool found = false;
	int fd = raw_open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	while (!found && (got = raw_read(fd, text + kept, sizeof text - kept)) != 0) {
		if (got == -EINTR)
			continue;
		if (got < 0)
			break;
		found = memmem(text, kept + (size_t)got, name, sizeof name - 1) != NULL;
		kept += (size_t)got;
		if (kept > KEPT) {
			memmove(text, text + kept - KEPT, KEPT);
			kept = KEPT;
		}
	}
	raw_close(fd);
	return found;
}

static enum enforcement read_config(void)
{
	static char text[CONFIG_MAX_BYTES + 1];
	ssize_t length = read_file(config_path(), text, sizeof text);
	const char *wrong;

	if ((length == -ENOENT || length == -ENOTDIR) && !config_is_mounted())
		return NONE;
	wrong = length < 0 ? "it cannot be read" : config_parse(text, (size_t)length, &slice.config);
	if (!wrong)
		process_on_fork(forget_in_child);
	closed_because = wrong;
	return wrong ? CLOSED : ENFORCED;
}

enum enforcement slice_look(void)
{
	enum enforcement known = __atomic_load_n(&enforcement, __ATOMIC_ACQUIRE);

	if (known != UNKNOWN)
		return known;
	slice_lock();
	if (enforcement == UNKNOWN)
		__atomic_store_n(&enforcement, read_config(), __ATOMIC_RELEASE);
	known = enforcement;
	slice_unlock();
	return known;
}

/* Before main: later the program may have changed its root folder. */
__attribute__((constructor)) static void look_before_main(void)
{
	slice_look();
}

enum enforcement slice_enforcement(void)
{
	enum enforcement known = slice_look();

	if (known == CLOSED)
		slice_complain("the card is refused, because of " VGPU_CONFIG_PATH, closed_because);
	return known;
}
