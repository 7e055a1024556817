/*
 * Keeps shared virtual memory, such as that of hipMallocManaged, on the host. It is ordinary memory of the process,
 * which the driver moves to a card and back: when a program asks for it (prefetch, preferred location), or when a card
 * faults on it (XNACK).
 *
 * The library cannot count the part that is on a card, because munmap ends ranges and the driver moves them by itself.
 * So the memory stays on the host, where cards can use it too: locations on a card are removed from requests, and
 * XNACK, with which faults move memory, cannot be switched on. Both functions call the driver. The returned int is that
 * of ioctl(2): 0, or -1 with errno set.
 */
#ifndef VGPU_SVM_H
#define VGPU_SVM_H

#include "request.h"

int svm_request(struct request *request);
int svm_set_xnack(struct request *request);

#endif
