/* sys.h: system calls without a C library. PID 1 makes some sixty calls for a
 * job; libc would add 700 KB to copy into a memfd for each jail, and caches (of
 * the pid, of ids per thread) that a raw clone3 leaves wrong. */
#ifndef JAILER_SYS_H
#define JAILER_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <asm/unistd.h>

/* As both architectures number them; <asm/signal.h> has structures of libc's. */
#define SIGKILL 9
#define SIGCHLD 17
#define SIGSTOP 19
#define SIGXFSZ 25

#if defined(__x86_64__)
static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	long r;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(r)
		: "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		: "rcx", "r11", "memory");
	return r;
}
#elif defined(__aarch64__)
static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0)
		: "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
		: "memory", "cc");
	return x0;
}
#else
#error "pid1: only x86-64 and aarch64"
#endif

/* sys calls the kernel and gives its result: >= 0, or a negative errno. */
#define SYS_(n, a, b, c, d, e, f, ...) \
	sys6((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define sys(...) SYS_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/* die ends the process, also under a filter that refuses that: it then traps, and the
 * kernel kills it by SIGILL or SIGTRAP. */
static inline __attribute__((noreturn)) void die(int code)
{
	for (;;) {
		sys(__NR_exit_group, code);
#if defined(__x86_64__)
		__asm__ volatile("ud2");
#else
		__asm__ volatile("brk #0");
#endif
	}
}

#endif
