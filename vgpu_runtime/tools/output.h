/* Text on stdout, in few writes. */
#ifndef VGPU_OUTPUT_H
#define VGPU_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void output_text(const char *text);
void output_number(uint64_t number);

/* `length` bytes; what is not printable ASCII is written as a question mark: it may come from a hostile program. */
void output_printable(const char *text, size_t length);

/* Those bytes in quotation marks, as JSON has them. */
void output_json(const char *text, size_t length);

/* Spaces up to this column of the line, at least two. */
void output_column(unsigned column);

/* Writes what is still to be written. False where it could not all be written, now or before. */
bool output_flush(void);

#endif
