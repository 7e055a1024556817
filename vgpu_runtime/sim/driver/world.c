/* Where the simulation is, and the cards in it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "real.h"
#include "simkfd.h"

#define CONTAINER_DIR "/opt/vgpu-sim"
#define CONF_VERSION 3

static struct sim_world world;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool read_check(const char *name)
{
	static const char *const names[] = {"none", "equal", "at-least"};

	for (int check = SIM_SAVE_AREA_NONE; check <= SIM_SAVE_AREA_AT_LEAST; check++)
		if (strcmp(name, names[check]) == 0) {
			world.save_area_check = check;
			return true;
		}
	return false;
}

static bool read_card(const char *line)
{
	struct sim_card *card = &world.cards[world.card_count];
	struct sim_save_area *area = &card->save_area;
	unsigned paired;

	if (world.card_count == SIM_MAX_CARDS ||
	    sscanf(line,
		   "card gpu_id=%u node=%u minor=%u vendor=%u device=%u pci=%15s units=%u xcc=%u paired=%u vram=%lu stack=%u area=%u"
		   " debug=%u xccs=%u",
		   &card->gpu_id, &card->node, &card->render_minor, &card->vendor, &card->device, card->pci, &card->units,
		   &card->xcc, &paired, &card->vram_bytes, &area->stack, &area->bytes, &area->debug, &area->xccs) != 14)
		return false;
	card->paired = paired;
	world.card_count++;
	return true;
}

static bool read_conf(FILE *file)
{
	char line[256], check[16] = "";
	int version = 0;

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "version %d", &version) == 1 || sscanf(line, "save_area_check %15s", check) == 1)
			continue;
		if (!read_card(line))
			return false;
	}
	return version == CONF_VERSION && read_check(check);
}

/* False: there is no simulation in `dir`. */
static bool look_in(const char *dir, const char *dev)
{
	char path[sizeof(world.dir) + 16];
	FILE *file;

	if (strlen(dir) >= sizeof(world.dir))
		return false;
	snprintf(path, sizeof(path), "%s/driver.conf", dir);
	file = real_fopen(path, "re");
	if (!file)
		return false;
	if (!read_conf(file)) {
		fprintf(stderr, "simkfd: %s: not a driver.conf of this version\n", path);
		abort(); /* a development tool: better loud than a machine without cards */
	}
	fclose(file);
	snprintf(world.dir, sizeof(world.dir), "%s", dir);
	snprintf(world.dev, sizeof(world.dev), "%s", dev);
	return true;
}

/* The container's own files come first: its program cannot look at another simulation through its environment. */
static void load(void)
{
	const char *dir = getenv("SIMKFD_DIR");
	char dev[sizeof(world.dev)];

	if (look_in(CONTAINER_DIR, "/dev")) {
		world.present = true;
		return;
	}
	if (!dir)
		return;
	snprintf(world.root, sizeof(world.root), "%.250s", getenv("SIMKFD_ROOT") ? getenv("SIMKFD_ROOT") : "");
	snprintf(dev, sizeof(dev), "%.250s/dev", dir);
	world.present = look_in(dir, dev);
	if (!world.present)
		fprintf(stderr, "simkfd: SIMKFD_DIR=%s holds no driver.conf\n", dir);
}

const struct sim_world *sim_world(void)
{
	pthread_once(&once, load);
	return &world;
}

/* A card without a render node in this mount namespace is one that the device cgroup forbids. */
bool sim_card_hidden(int card)
{
	char path[sizeof(world.dev) + 32];

	snprintf(path, sizeof(path), "%.259s/dri/renderD%u", sim_world()->dev, world.cards[card].render_minor);
	return access(path, F_OK) != 0 || (sim_slice(card) && sim_slice(card)->refused);
}

int sim_card_index(uint32_t gpu_id)
{
	for (int card = 0; card < sim_world()->card_count; card++)
		if (world.cards[card].gpu_id == gpu_id)
			return sim_card_hidden(card) ? -1 : card;
	return -1;
}
