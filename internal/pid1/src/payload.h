/* payload.h: what the launcher asks for, checked: of PID 1 once, of each job. */
#ifndef JAILER_PAYLOAD_H
#define JAILER_PAYLOAD_H

#include <stdint.h>
#include <stddef.h>

#define MAX_PROCS 16
#define MAX_RLIMITS 16
#define MAX_FILTERS 8
#define MAX_EXECUTABLES 96
#define MAX_LABEL 256 /* with its NUL */

struct bytes {
	const unsigned char *p;
	uint32_t n;
};

struct limit {
	uint32_t resource;
	uint64_t soft, hard;
};

/* All pointers lead into the body, which must stay. argv and envp are filled by
 * payload_vectors. */
struct payload {
	uint32_t flags;
	struct bytes uidmap, gidmap;
	uint32_t uid, gid;
	uint32_t nfiles; /* descriptors that belong to it */
	int cgroup_dir;  /* place among them; -1: none */
	uint32_t procs[MAX_PROCS];
	uint32_t nprocs;
	struct limit limits[MAX_RLIMITS];
	uint32_t nlimits;
	struct bytes affinity;
	uint32_t umask;
	uint32_t cols, rows; /* of the terminal; 0: none */
	const char *cwd; /* NULL for a seed */
	const char *stack, *job_label; /* of AppArmor; NULL: none */
	struct bytes filters[MAX_FILTERS];
	uint32_t nfilters;
	const char *executables[MAX_EXECUTABLES];
	uint32_t nexecutables;
	uint32_t nargs, nenv;
};

struct setup {
	uint32_t flags;
	const char *label; /* of AppArmor; NULL: none */
};

/* setup_parse reads and checks the body of SETUP, as payload_parse does. */
int setup_parse(struct setup *s, const unsigned char *body, uint32_t n, uint32_t *bad);

/* payload_parse reads and checks a whole body. 0, or -1 with *bad at the offset
 * of the record that is refused (n: something that is required is missing or two
 * things contradict each other). It allocates nothing and reads only body[0..n). */
int payload_parse(struct payload *p, const unsigned char *body, uint32_t n, uint32_t *bad);

/* payload_vectors fills argv[nargs+1] and envp[nenv+1] from a body that
 * payload_parse accepted. */
void payload_vectors(const unsigned char *body, uint32_t n, char **argv, char **envp);

#endif
