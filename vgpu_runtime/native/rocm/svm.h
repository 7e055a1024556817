/*
 * Shared virtual memory, of which hipMallocManaged is made: ordinary memory of the process that the driver moves to a
 * card and back, where a program asks for it (prefetch, preferred location) or where a card faults on it (XNACK).
 *
 * What is on the card cannot be counted here: ranges go with munmap, and the driver moves them by itself. So the memory
 * stays with the host, from where cards use it all the same: locations on a card are taken out of requests, and a mode
 * in which faults move memory is not switched on. Called in place of the driver, and calling it; results as of ioctl(2).
 */
#ifndef VGPU_SVM_H
#define VGPU_SVM_H

#include "request.h"

int svm_request(struct request *request);
int svm_set_xnack(struct request *request);

#endif
