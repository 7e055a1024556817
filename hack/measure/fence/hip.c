/* The real HIP runtime 5.2.3, linked. Declarations are facts of its hip_runtime_api.h, so that no header is needed. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "way.h"

int hipMalloc(void **pointer, size_t bytes);
int hipExtMallocWithFlags(void **pointer, size_t bytes, unsigned flags);
int hipMallocManaged(void **pointer, size_t bytes, unsigned flags);
int hipMemPrefetchAsync(const void *pointer, size_t bytes, int device, void *stream);
int hipIpcGetMemHandle(char *handle, void *pointer);
int hipStreamCreate(void **stream);
int hipExtStreamCreateWithCUMask(void **stream, uint32_t words, const uint32_t *mask);
const char *hipGetErrorName(int error);

#define FINE_GRAINED 0x1
#define ATTACH_GLOBAL 0x1
#define MASK_WORDS 10

static int called(const char *call, size_t bytes)
{
	uint32_t all[MASK_WORDS];
	char handle[64];
	void *pointer = NULL;
	int error;

	memset(all, 0xff, sizeof(all));
	if (!strcmp(call, "hipMalloc"))
		return hipMalloc(&pointer, bytes);
	if (!strcmp(call, "hipExtMallocWithFlags"))
		return hipExtMallocWithFlags(&pointer, bytes, FINE_GRAINED);
	if (!strcmp(call, "hipStreamCreate"))
		return hipStreamCreate(&pointer);
	if (!strcmp(call, "hipExtStreamCreateWithCUMask"))
		return hipExtStreamCreateWithCUMask(&pointer, MASK_WORDS, all);
	if (!strcmp(call, "hipMallocManaged")) {
		error = hipMallocManaged(&pointer, bytes, ATTACH_GLOBAL);
		return error ? error : hipMemPrefetchAsync(pointer, bytes, 0, NULL);
	}
	error = hipMalloc(&pointer, bytes);
	return error ? error : hipIpcGetMemHandle(handle, pointer);
}

const char *take(const char *call, unsigned long bytes)
{
	int error = called(call, bytes);

	return error ? hipGetErrorName(error) : "taken";
}
