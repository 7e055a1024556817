#include "paths.h"
#include "vgpu_paths.h"

#ifdef VGPU_TEST_BUILD /* build/libvgpu-test.so, which no container gets: a tenant sets its own environment */
#include <stdio.h>
#include <stdlib.h>

static const char *in_test_folder(char *path, size_t size, const char *name)
{
	const char *folder = getenv("VGPU_TEST_FOLDER");

	snprintf(path, size, "%s/%s", folder ? folder : "/nonexistent", name);
	return path;
}

const char *config_path(void)
{
	static char path[4096];

	return in_test_folder(path, sizeof path, "vgpu.conf");
}

const char *region_path(void)
{
	static char path[4096];

	return in_test_folder(path, sizeof path, "usage");
}
#else
const char *config_path(void)
{
	return VGPU_CONFIG_PATH;
}

const char *region_path(void)
{
	return VGPU_REGION_PATH;
}
#endif
