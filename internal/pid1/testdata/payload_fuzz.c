/* payload_fuzz.c: feeds bodies to payload.c under the sanitizers. Reads u32 length
 * and body from stdin, again and again; answers one byte: 0 refused, 1 accepted, as a
 * payload or as a setup.
 * What is accepted must keep the promises that pid1.c builds on, else it aborts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/payload.h"
#include "../src/protocol.h"

static void check(int ok)
{
	if (!ok)
		abort();
}

static void promises(const struct payload *p, const unsigned char *body, uint32_t n)
{
	char **argv = malloc((p->nargs + p->nenv + 2) * sizeof *argv), **envp;

	check(argv != NULL);
	envp = argv + p->nargs + 1;
	payload_vectors(body, n, argv, envp);
	for (uint32_t i = 0; i < p->nargs; i++)
		check(argv[i] && strlen(argv[i]) < n);
	for (uint32_t i = 0; i < p->nenv; i++)
		check(envp[i] && strchr(envp[i], '='));
	check(!argv[p->nargs] && !envp[p->nenv]);
	free(argv);

	if (p->flags & FLAG_SEED)
		check(!p->nargs && !p->nenv && !p->cwd && !p->cols && p->flags & FLAG_STDIO);
	else
		check(p->nargs > 0 && p->cwd[0] == '/' && strlen(p->cwd) < 4096);
	check(p->flags & FLAG_STDIO || p->cols);
	check(!(p->flags & FLAG_SETUP));
	check((p->nfilters > 0) == !(p->flags & FLAG_NO_FILTER));
	check(!p->cols == !p->rows && p->cols <= 65535 && p->rows <= 65535);
	check((p->cgroup_dir >= 0) == !!(p->flags & FLAG_INTO_CGROUP));
	check(p->nprocs <= MAX_PROCS && p->nlimits <= MAX_RLIMITS && p->nfilters <= MAX_FILTERS);
	check(p->nfiles <= 3 + 1 + MAX_PROCS && p->cgroup_dir < (int)p->nfiles);
	for (uint32_t i = 0; i < p->nprocs; i++)
		check(p->procs[i] < p->nfiles && (int)p->procs[i] > p->cgroup_dir);
	for (uint32_t i = 0; i < p->nlimits; i++)
		check(p->limits[i].soft <= p->limits[i].hard);
	for (uint32_t i = 0; i < p->nfilters; i++)
		check(p->filters[i].n % 8 == 0 && p->filters[i].p + p->filters[i].n <= body + n);
}

int main(void)
{
	uint32_t n;

	while (fread(&n, sizeof n, 1, stdin) == 1 && n <= PROTOCOL_BODY_MAX) {
		/* Exactly n bytes: the sanitizer sees the first one behind. */
		unsigned char *body = malloc(n ? n : 1);
		struct payload p;
		struct setup s;
		uint32_t bad = 0;
		int ok;

		check(body != NULL && fread(body, 1, n, stdin) == n);
		ok = payload_parse(&p, body, n, &bad) == 0;
		check(bad <= n);
		if (ok)
			promises(&p, body, n);
		if (!setup_parse(&s, body, n, &bad)) {
			check(!(s.flags & ~(uint32_t)FLAG_SETUP));
			check(!s.label || (strlen(s.label) > 0 && strlen(s.label) < MAX_LABEL));
			ok = 1;
		}
		check(bad <= n);
		free(body);
		putchar(ok);
		fflush(stdout);
	}
	return 0;
}
