#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "paths.h"
#include "real.h"
#include "slice.h"
#include "vgpu_paths.h"

struct slice slice;

static enum enforcement enforcement;
static const char *closed_because; /* constant once CLOSED */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void slice_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void slice_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

/*
 * A forked child holds none of its parent's card memory (the kernel binds it to the parent's address space) and
 * must not write the parent's slot: it starts from nothing and claims a slot of its own when it needs one.
 */
static void start_afresh_in_child(void)
{
	pthread_mutex_init(&mutex, NULL); /* another thread of the parent may have held it */
	memset(&slice.usage, 0, sizeof slice.usage);
	table_clear(&slice.buffers);
	table_clear(&slice.queues);
	region_forget();
}

/* Returns how many bytes there are, or -1 and errno. */
static ssize_t read_file(const char *path, char *text, size_t size)
{
	int fd = REAL(open, open_fn)(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t got = 1;

	if (fd < 0)
		return -1;
	while (length < size && got > 0) {
		got = read(fd, text + length, size - length);
		if (got < 0 && errno == EINTR)
			got = 1;
		else if (got > 0)
			length += (size_t)got;
	}
	close(fd);
	return got < 0 ? -1 : (ssize_t)length;
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
	int fd = REAL(open, open_fn)("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	while (!found && (got = read(fd, text + kept, sizeof text - kept)) != 0) {
		if (got < 0 && errno != EINTR)
			break;
		if (got < 0)
			continue;
		found = memmem(text, kept + (size_t)got, name, sizeof name - 1) != NULL;
		kept += (size_t)got;
		if (kept > KEPT) {
			memmove(text, text + kept - KEPT, KEPT);
			kept = KEPT;
		}
	}
	close(fd);
	return found;
}

static enum enforcement read_config(void)
{
	static char text[CONFIG_MAX_BYTES + 1];
	ssize_t length = read_file(config_path(), text, sizeof text);
	const char *wrong;

	if (length < 0 && (errno == ENOENT || errno == ENOTDIR) && !config_is_mounted())
		return NONE;
	wrong = length < 0 ? "it cannot be read" : config_parse(text, (size_t)length, &slice.config);
	if (!wrong && pthread_atfork(NULL, NULL, start_afresh_in_child))
		wrong = "out of memory";
	closed_because = wrong;
	return wrong ? CLOSED : ENFORCED;
}

enum enforcement slice_look(void)
{
	enum enforcement known = __atomic_load_n(&enforcement, __ATOMIC_ACQUIRE);
	int saved = errno;

	if (known != UNKNOWN)
		return known;
	slice_lock();
	if (enforcement == UNKNOWN)
		__atomic_store_n(&enforcement, read_config(), __ATOMIC_RELEASE);
	known = enforcement;
	slice_unlock();
	errno = saved;
	return known;
}

enum enforcement slice_enforcement(void)
{
	enum enforcement known = slice_look();

	if (known == CLOSED)
		slice_complain("the card is refused, because of " VGPU_CONFIG_PATH, closed_because);
	return known;
}

int slice_card(uint32_t gpu_id)
{
	for (unsigned i = 0; i < slice.config.card_count; i++)
		if (slice.config.cards[i].gpu_id == gpu_id)
			return (int)i;
	return -1;
}
