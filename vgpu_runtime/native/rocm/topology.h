/*
 * The KFD topology as this container should see it: of its cards, the slice's memory and units.
 *
 * Runtimes learn a card's total memory and unit count from files below TOPOLOGY (libhsakmt with fopen and fscanf,
 * other tools with open), so serving rewritten files makes what they report honest.
 */
#ifndef VGPU_TOPOLOGY_H
#define VGPU_TOPOLOGY_H

/*
 * A descriptor of the rewritten content of `path`, or -1 for a path that is to be opened as it is. Cheap for
 * paths elsewhere. Keeps errno.
 */
int topology_open(const char *path);

#endif
