/*
 * The slices that this container has of Hygon's cards, by its vdev files.
 *
 * Here this library stands for the maker's runtime and driver. The runtime reads /etc/vdev/docker/vdev<N>.conf and makes
 * of the card a virtual device with the units and the memory of that file. A file that it refuses costs the container the
 * card: its programs find no device, and no line says why. The rules, and who measured them, are in ../../vdev.py. A
 * container without such a file has whole cards.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "real.h"
#include "simkfd.h"

#define HYGON 0x1d94
#define FOLDER "/etc/vdev/docker"
#define HYHAL "/opt/hyhal" /* the maker's runtime loads its management library from there, or finds no card */
#define MIB_SHIFT 20

/* The values of a vdev file. */
struct file {
	char pci[16];
	uint64_t mask[2];
	int masks;
	unsigned units, mib, vdev_id, pipe, enable;
};

static struct sim_slice slices[SIM_MAX_CARDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

static bool read_file(const char *path, struct file *file)
{
	char line[128], key[32], value[32];
	FILE *stream = real_fopen(path, "re");

	*file = (struct file){0};
	if (!stream)
		return false;
	while (fgets(line, sizeof(line), stream)) {
		if (sscanf(line, "%31[^:]: %31s", key, value) != 2)
			continue;
		if (strcmp(key, "PciBusId") == 0)
			snprintf(file->pci, sizeof(file->pci), "%.15s", value);
		else if (strcmp(key, "cu_mask") == 0 && file->masks < 2)
			file->mask[file->masks++] = strtoull(value, NULL, 16);
		else if (strcmp(key, "cu_count") == 0)
			file->units = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(key, "mem") == 0)
			file->mib = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(key, "vdev_id") == 0)
			file->vdev_id = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(key, "pipe_id") == 0)
			file->pipe = (unsigned)strtoul(value, NULL, 10);
		else if (strcmp(key, "enable") == 0)
			file->enable = (unsigned)strtoul(value, NULL, 10);
	}
	fclose(stream);
	return true;
}

/* True if the mask has a bit beyond the card's units. */
static bool beyond(const struct file *file, const struct sim_card *card)
{
	for (unsigned bit = card->units; bit < 128; bit++)
		if (file->mask[bit / 64] >> bit % 64 & 1)
			return true;
	return false;
}

/* The reason why the runtime refuses the file, or NULL. */
static const char *wrong(const struct file *file, unsigned number, const struct sim_card *card)
{
	char path[sizeof(sim_world()->root) + sizeof(HYHAL)];
	struct stat st;
	unsigned bits = (unsigned)(__builtin_popcountll(file->mask[0]) + __builtin_popcountll(file->mask[1]));

	snprintf(path, sizeof(path), "%s%s", sim_world()->root, HYHAL);
	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return "no-hyhal";
	if (file->vdev_id != number)
		return "id-is-not-the-name";
	if (file->masks != 2 || file->units != bits || !bits)
		return "count-is-not-the-mask";
	if (beyond(file, card))
		return "unit-beyond-the-card";
	if (!file->mib || (uint64_t)file->mib << MIB_SHIFT > card->vram_bytes)
		return "more-memory-than-the-card";
	if (file->pipe >= SIM_PIPES)
		return "no-such-pipe";
	return file->enable == 1 ? NULL : "not-enabled";
}

/* The first file of a card counts: a container cannot have two slices of it. */
static void load_file(const char *folder, const char *name)
{
	char path[512], again[32];
	struct file file;
	struct stat st;
	unsigned number;

	if (sscanf(name, "vdev%u.conf", &number) != 1)
		return;
	snprintf(again, sizeof(again), "vdev%u.conf", number);
	snprintf(path, sizeof(path), "%.400s/%.64s", folder, name);
	if (strcmp(name, again) != 0 || !read_file(path, &file) || stat(path, &st) != 0)
		return;
	for (int card = 0; card < sim_world()->card_count; card++) {
		const struct sim_card *of = &sim_world()->cards[card];

		if (of->vendor != HYGON || strcmp(of->pci, file.pci) != 0 || slices[card].cut)
			continue;
		slices[card] = (struct sim_slice){
			.cut = true, .units = file.units, .vram_bytes = (uint64_t)file.mib << MIB_SHIFT, .pipe = file.pipe,
			.device = st.st_dev, .inode = st.st_ino, .refused = wrong(&file, number, of),
		};
	}
}

static void load(void)
{
	char folder[sizeof(sim_world()->root) + sizeof(FOLDER)];
	struct dirent **names;
	int count;

	loaded = true;
	snprintf(folder, sizeof(folder), "%s%s", sim_world()->root, FOLDER);
	count = scandir(folder, &names, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		load_file(folder, names[i]->d_name);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
}

const struct sim_slice *sim_slice(int card)
{
	pthread_mutex_lock(&lock);
	if (!loaded)
		load();
	pthread_mutex_unlock(&lock);
	return slices[card].cut ? &slices[card] : NULL;
}

/* The program opens the driver: each of its slices takes its pipe, or is refused for as long as the process lives. */
void sim_slice_begin(void)
{
	for (int card = 0; card < sim_world()->card_count; card++) {
		const struct sim_slice *slice = sim_slice(card);

		if (!slice)
			continue;
		pthread_mutex_lock(&lock);
		if (!slice->refused && !slice->begun) {
			slices[card].refused = sim_pipe_take(card, slice);
			slices[card].begun = !slice->refused;
		}
		pthread_mutex_unlock(&lock);
		sim_log("slice card=%d pipe=%u units=%u refused=%s", card, slice->pipe, slice->units,
			slice->refused ? slice->refused : "no");
	}
}

void sim_slice_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	memset(slices, 0, sizeof(slices));
	loaded = false;
}
