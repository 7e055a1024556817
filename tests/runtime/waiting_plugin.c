/* A library whose constructor waits for a thread that uses files. The loader's own lock is held as long as it runs. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void *use_files(void *path)
{
	FILE *stream = fopen(path, "r");
	int pair[2], on = 1;

	if (stream)
		fclose(stream);
	close(open(path, O_RDONLY | O_CLOEXEC));
	close(openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
	if (!socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {
		ioctl(pair[0], FIONBIO, &on);
		close(pair[0]);
		close(pair[1]);
	}
	return NULL;
}

__attribute__((constructor)) static void wait_for_thread(void)
{
	static char path[] = "/dev/null";
	pthread_t thread;

	alarm(20); /* a thread that waits for the loader waits for ever */
	if (!pthread_create(&thread, NULL, use_files, path))
		pthread_join(thread, NULL);
	alarm(0);
}
