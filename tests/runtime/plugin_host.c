/*
 * A program whose plug-in uses the card: `plugin_host WAY PLUGIN MIB` loads the plug-in (sim/probe/kfd.c) by one of the
 * ways that there are, lets it take so much card memory and create a queue, and prints what came of both.
 *
 * `plugin_host again PLUGIN` opens a namespace for it 64 times, closing it each time, and prints how many times that worked.
 * `plugin_host load PLUGIN` only loads it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef const char *open_fn(char **argv);
typedef const char *alloc_fn(int device, const char *how, uint64_t bytes);
typedef const char *queue_fn(int device, const uint32_t *mask, unsigned words);
typedef void *load_fn(const char *path, int flags);

#define FIND(library, name, type) ((type *)(uintptr_t)dlsym(library, name))

static void *loaded(void *library)
{
	if (!library) {
		printf("%s\n", dlerror());
		exit(3);
	}
	return library;
}

static void *load(const char *way, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	void *first;
	Lmid_t id;

	if (!strcmp(way, "dlopen"))
		return loaded(dlopen(path, RTLD_NOW));
	if (!strcmp(way, "deepbind"))
		return loaded(dlopen(path, RTLD_NOW | RTLD_DEEPBIND));
	if (!strcmp(way, "lazy deepbind"))
		return loaded(dlopen(path, RTLD_LAZY | RTLD_DEEPBIND));
	/* The plug-in loads itself once more, by the name that its RUNPATH is needed for. */
	if (!strcmp(way, "by a plugin"))
		return loaded(FIND(loaded(dlopen(path, RTLD_NOW)), "load_beside", load_fn)(name, RTLD_NOW | RTLD_DEEPBIND));
	if (!strcmp(way, "namespace by a plugin"))
		return loaded(FIND(loaded(dlopen(path, RTLD_NOW)), "load_beside_apart", load_fn)(name, RTLD_NOW));
	first = loaded(dlmopen(LM_ID_NEWLM, path, RTLD_LAZY | RTLD_DEEPBIND));
	if (!strcmp(way, "namespace"))
		return first;
	if (!strcmp(way, "from a namespace"))
		return loaded(FIND(first, "load_beside", load_fn)(name, RTLD_NOW | RTLD_DEEPBIND));
	dlinfo(first, RTLD_DI_LMID, &id);
	return loaded(dlmopen(id, path, RTLD_NOW | RTLD_DEEPBIND));
}

int main(int count, char **words)
{
	int worked = 0;

	if (count == 3 && !strcmp(words[1], "again")) {
		for (int i = 0; i < 64; i++) {
			void *library = dlmopen(LM_ID_NEWLM, words[2], RTLD_NOW);

			worked += library && !dlclose(library);
		}
		printf("%d\n", worked);
	} else if (count == 3 && !strcmp(words[1], "load")) {
		loaded(dlopen(words[2], RTLD_NOW));
	} else if (count == 4) {
		void *library = load(words[1], words[2]);
		uint64_t bytes = strtoull(words[3], NULL, 10) << 20;

		FIND(library, "probe_open", open_fn)(words);
		printf("%s ", FIND(library, "probe_alloc", alloc_fn)(0, "malloc", bytes));
		printf("%s\n", FIND(library, "probe_queue", queue_fn)(0, NULL, 0));
	}
	return 0;
}
