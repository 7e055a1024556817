/* Which paths are the simulation's. */
#include <stdio.h>
#include <string.h>

#include "simkfd.h"

#define KFD_NUMBER "/sys/devices/virtual/kfd/kfd/dev"
#define TOPOLOGY "/sys/devices/virtual/kfd/kfd/topology"
#define AMDGPU_IDS "/usr/share/libdrm/amdgpu.ids" /* libdrm's table of marketing names */
#define NODES TOPOLOGY "/nodes/"

/* True for a file of a node whose card is hidden: the kernel asks the device cgroup on every read of one. */
static bool hidden_node_file(const char *path)
{
	const struct sim_world *world = sim_world();
	unsigned node;
	int end = 0;

	if (sscanf(path, NODES "%u/%n", &node, &end) != 1 || !end)
		return false;
	for (int card = 0; card < world->card_count; card++)
		if (world->cards[card].node == node)
			return sim_card_hidden(card);
	return false;
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
	if (strncmp(path, TOPOLOGY, strlen(TOPOLOGY)) != 0 && strcmp(path, KFD_NUMBER) != 0)
		return SIM_PATH_OTHER;
	snprintf(real_path, size, "%s%s", sim_world()->dir, path);
	return hidden_node_file(path) ? SIM_PATH_FORBIDDEN : SIM_PATH_TREE;
}
