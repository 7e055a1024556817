"""hack/release: the files of a release, and a way to a registry and to sites without one."""
