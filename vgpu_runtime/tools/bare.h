/* What a program has here in place of libc: system calls, whose numbers never change, and where it begins. */
#ifndef VGPU_BARE_H
#define VGPU_BARE_H

#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long bare_call(long number, long first, long second, long third, long fourth)
{
	long result;
	register long r10 __asm__("r10") = fourth;

	__asm__ volatile("syscall"
	                 : "=a"(result)
	                 : "0"(number), "D"(first), "S"(second), "d"(third), "r"(r10)
	                 : "rcx", "r11", "memory");
	return result;
}

#define BARE_START "xor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall bare_begin\n"
#elif defined(__aarch64__)
static inline long bare_call(long number, long first, long second, long third, long fourth)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = first;
	register long x1 __asm__("x1") = second;
	register long x2 __asm__("x2") = third;
	register long x3 __asm__("x3") = fourth;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

#define BARE_START "mov x29, 0\n\tmov x30, 0\n\tmov x0, sp\n\tbl bare_begin\n"
#else
#error "system calls of this machine are not known"
#endif

/*
 * Makes `program(words, count)` the program; it returns the exit status. The kernel leaves on the stack: the number of
 * words, the words, NULL, the environment, NULL.
 */
#define BARE_PROGRAM(program)                                                                      \
	__attribute__((used, noreturn)) static void bare_begin(long *stack)                        \
	{                                                                                          \
		bare_call(SYS_exit_group, program((int)stack[0], (char **)(stack + 1)), 0, 0, 0);  \
		__builtin_unreachable();                                                           \
	}                                                                                          \
	__asm__(".globl _start\n_start:\n\t" BARE_START)

#endif
