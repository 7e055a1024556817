/* Which paths are the simulation's. */
#include <stdio.h>
#include <string.h>

#include "simkfd.h"

#define KFD_NUMBER "/sys/devices/virtual/kfd/kfd/dev"
#define TOPOLOGY "/sys/devices/virtual/kfd/kfd/topology"
#define PROCESSES "/sys/devices/virtual/kfd/kfd/proc/" /* written by processes.py */
#define RECORDS "/sys/devices/virtual/kfd/kfd/vgpu" /* written by records.py */
#define AMDGPU_IDS "/usr/share/libdrm/amdgpu.ids" /* libdrm's table of marketing names */
#define NODES TOPOLOGY "/nodes/"

int sim_node_card(const char *path, const char **file)
{
	const struct sim_world *world = sim_world();
	unsigned node;
	int end = 0;

	if (sscanf(path, NODES "%u/%n", &node, &end) != 1 || !end)
		return -1;
	*file = path + end;
	for (int card = 0; card < world->card_count; card++)
		if (world->cards[card].node == node)
			return card;
	return -1;
}

/* True for a file of a node whose card is hidden: the kernel asks the device cgroup on every read of one. */
static bool hidden_node_file(const char *path)
{
	const char *file;
	int card = sim_node_card(path, &file);

	return card >= 0 && sim_card_hidden(card);
}

static bool below(const char *path, const char *folder)
{
	return strncmp(path, folder, strlen(folder)) == 0;
}

enum sim_path sim_path_kind(const char *path, char *real_path, size_t size)
{
	if (strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/sys/", 5) != 0 && strcmp(path, AMDGPU_IDS) != 0)
		return SIM_PATH_OTHER;
	if (!sim_world()->present)
		return SIM_PATH_OTHER;
	if (strcmp(path, AMDGPU_IDS) == 0) {
		snprintf(real_path, size, "%s/sys/amdgpu.ids", sim_world()->dir);
		return SIM_PATH_TREE;
	}
	if (strcmp(path, "/dev/kfd") == 0 || strncmp(path, "/dev/dri/renderD", 16) == 0)
		return SIM_PATH_DEVICE;
	if (!below(path, TOPOLOGY) && !below(path, PROCESSES) && !below(path, RECORDS) && strcmp(path, KFD_NUMBER) != 0)
		return SIM_PATH_OTHER;
	snprintf(real_path, size, "%s%s", sim_world()->dir, path);
	return hidden_node_file(path) ? SIM_PATH_FORBIDDEN : SIM_PATH_TREE;
}
