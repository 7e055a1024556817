/* What a plug-in does that loads others by name: only its own RUNPATH leads to them. */
#include <dlfcn.h>

void *load_beside(const char *name, int flags)
{
	return dlopen(name, flags);
}

void *load_beside_apart(const char *name, int flags)
{
	return dlmopen(LM_ID_NEWLM, name, flags);
}
