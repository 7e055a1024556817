#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>

#include "real.h"
#include "request.h"
#include "user_memory.h"

static unsigned given(unsigned code)
{
	return _IOC_SIZE(code) < REQUEST_MAX ? _IOC_SIZE(code) : REQUEST_MAX;
}

bool request_take(struct request *request, int fd, unsigned code, const void *arguments, unsigned size, bool takes)
{
	unsigned bytes = given(code);

	memset(request->bytes, 0, sizeof request->bytes);
	request->fd = fd;
	request->code = _IOC(_IOC_READ | _IOC_WRITE, _IOC_TYPE(code), _IOC_NR(code), bytes > size ? bytes : size);
	if (!takes || user_read(request->bytes, (uintptr_t)arguments, bytes))
		return true;
	errno = EFAULT;
	return false;
}

int request_send(struct request *request)
{
	return REAL(ioctl, ioctl_fn)(request->fd, request->code, request->bytes);
}

int request_answer(const struct request *request, unsigned code, void *arguments)
{
	return user_write((uintptr_t)arguments, request->bytes, given(code)) ? 0 : request_refuse(EFAULT);
}

int request_refuse(int error)
{
	errno = error;
	return -1;
}
