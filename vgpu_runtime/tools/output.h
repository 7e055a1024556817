/* Collects text for stdout, and writes it in few system calls. */
#ifndef VGPU_OUTPUT_H
#define VGPU_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void output_text(const char *text);
void output_number(uint64_t number);

/*
 * Adds `length` bytes, with a question mark for each that is not printable ASCII: a hostile program may have made them.
 */
void output_printable(const char *text, size_t length);

/* Adds `length` bytes as a JSON string in quotation marks. */
void output_json(const char *text, size_t length);

/* Adds spaces up to this column of the line, at least two. */
void output_column(unsigned column);

/* Writes the collected text; returns false if some text could not be written, now or earlier. */
bool output_flush(void);

#endif
