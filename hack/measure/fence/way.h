/* The function that each way to the card exports, and that host.c calls. */
#ifndef FENCE_WAY_H
#define FENCE_WAY_H

/*
 * Takes `bytes` of card memory by the call that `call` names, or creates a queue with it, and keeps what it got until the
 * process ends. Returns a text: "taken", or why not.
 */
const char *take(const char *call, unsigned long bytes);

typedef const char *take_fn(const char *call, unsigned long bytes);

#endif
