/*
 * The DRM render nodes: just enough for libdrm to open a card and look up its marketing name.
 * Layouts: Linux, include/uapi/drm/drm.h and amdgpu_drm.h.
 */
#include <errno.h>
#include <string.h>

#include "simkfd.h"

#define NR_VERSION 0x00
#define NR_GET_CLIENT 0x05
#define NR_AMDGPU_INFO 0x45
#define AMDGPU_MAJOR 3
#define INFO_ACCEL_WORKING 0x00
#define INFO_DEVICE 0x16
#define FAMILY_AI 141 /* from this family on, libdrm reads no registers */

struct drm_text {
	size_t length; /* room for; result: of the text */
	char *text;
};

struct drm_version {
	int major, minor, patch;
	struct drm_text name, date, description;
};

struct drm_client {
	int index;
	int authenticated;
};

struct amdgpu_info {
	uint64_t result;
	uint32_t result_bytes;
	uint32_t query;
};

struct info_device { /* how it begins */
	uint32_t device_id, chip_revision, external_revision, pci_revision, family;
};

static void answer(struct drm_text *out, const char *text)
{
	size_t length = strlen(text);

	if (out->text)
		memcpy(out->text, text, out->length < length ? out->length : length);
	out->length = length;
}

static int version(struct drm_version *args)
{
	args->major = AMDGPU_MAJOR;
	args->minor = args->patch = 0;
	answer(&args->name, "amdgpu");
	answer(&args->date, "0");
	answer(&args->description, "simulated");
	return 0;
}

static int info(int card, const struct amdgpu_info *args)
{
	struct info_device device = {.device_id = sim_world()->cards[card].device, .family = FAMILY_AI};
	const uint32_t yes = 1;
	void *result = (void *)(uintptr_t)args->result;

	memset(result, 0, args->result_bytes);
	if (args->query == INFO_ACCEL_WORKING && args->result_bytes >= sizeof(yes))
		memcpy(result, &yes, sizeof(yes));
	else if (args->query == INFO_DEVICE && args->result_bytes >= sizeof(device))
		memcpy(result, &device, sizeof(device));
	return 0;
}

int sim_drm_ioctl(int card, unsigned long request, void *args)
{
	switch (_IOC_NR(request)) {
	case NR_VERSION:
		return version(args);
	case NR_GET_CLIENT:
		((struct drm_client *)args)->authenticated = 1;
		return 0;
	case NR_AMDGPU_INFO:
		return info(card, args);
	default:
		return -EINVAL;
	}
}
