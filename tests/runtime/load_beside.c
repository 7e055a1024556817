/* A plug-in that loads other libraries by name. They are found by its own RUNPATH alone. */
#include <dlfcn.h>

void *load_beside(const char *name, int flags)
{
	return dlopen(name, flags);
}

void *load_beside_apart(const char *name, int flags)
{
	return dlmopen(LM_ID_NEWLM, name, flags);
}
