/* The kernel's interface alone. Built together with the probe (vgpu_runtime/sim/probe/kfd.c), which makes the calls. */
#include <string.h>
#include <unistd.h>

#include "../../../vgpu_runtime/sim/probe/probe.h"
#include "way.h"

const char *take(const char *call, unsigned long bytes)
{
	uint32_t all[PROBE_MASK_WORDS];
	static pid_t opened; /* by: the kernel takes no request of a child on its parent's descriptor */
	const char *got = "hipSuccess";

	memset(all, 0xff, sizeof(all));
	if (opened != getpid())
		got = probe_open(NULL);
	opened = getpid();
	if (!strcmp(got, "hipSuccess") && !strcmp(call, "ALLOC_MEMORY"))
		got = probe_alloc(0, "", bytes);
	else if (!strcmp(got, "hipSuccess") && !strcmp(call, "CREATE_QUEUE"))
		got = probe_queue(0, NULL, 0);
	else if (!strcmp(got, "hipSuccess") && !strcmp(call, "SET_CU_MASK"))
		got = probe_queue(0, all, PROBE_MASK_WORDS);
	return strcmp(got, "hipSuccess") ? got : "taken";
}
