/* The system calls and the entry point of a program that does not use libc. */
#ifndef VGPU_BARE_H
#define VGPU_BARE_H

#include "vgpu_raw_call.h"

static inline long bare_call(long number, long first, long second, long third, long fourth)
{
	return raw_call(number, first, second, third, fourth, 0, 0);
}

#if defined(__x86_64__)
#define BARE_START "xor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall bare_begin\n"
#elif defined(__aarch64__)
#define BARE_START "mov x29, 0\n\tmov x30, 0\n\tmov x0, sp\n\tbl bare_begin\n"
#endif

/*
 * Defines the entry point, which calls `program` with the number of words on the command line and the words, and exits
 * with the status that it returns. The kernel puts on the stack: the number of words, the words, NULL, the environment,
 * NULL.
 */
#define BARE_PROGRAM(program)                                                                      \
	__attribute__((used, noreturn)) static void bare_begin(long *stack)                        \
	{                                                                                          \
		bare_call(SYS_exit_group, program((int)stack[0], (char **)(stack + 1)), 0, 0, 0);  \
		__builtin_unreachable();                                                           \
	}                                                                                          \
	__asm__(".globl _start\n_start:\n\t" BARE_START)

#endif
