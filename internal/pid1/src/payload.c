/* payload.c: the parser of the launcher's messages. The launcher is trusted, but a
 * payload that is cut short or damaged must never start a job with fewer limits
 * than were asked for: everything unknown, doubled, missing, contradictory or
 * followed by rubbish is refused. No system call, no libc: the fuzz harness of the
 * tests compiles this file as it is. */
#include "payload.h"
#include "protocol.h"

static uint32_t u32(const unsigned char *b)
{
	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint64_t u64(const unsigned char *b)
{
	return u32(b) | (uint64_t)u32(b + 4) << 32;
}

struct record {
	uint32_t type, len, next; /* next: offset of the following one */
	const unsigned char *data;
};

/* 0, or -1 if no whole, zero-padded record starts at off. */
static int record_at(const unsigned char *body, uint32_t n, uint32_t off, struct record *r)
{
	uint32_t padded;

	if (n - off < 8)
		return -1;
	r->type = body[off] | (uint32_t)body[off + 1] << 8;
	if (body[off + 2] || body[off + 3])
		return -1;
	r->len = u32(body + off + 4);
	off += 8;
	if (r->len > n - off)
		return -1;
	padded = (r->len + 3) & ~3u; /* len <= 8 MiB: no overflow */
	if (padded > n - off)
		return -1;
	for (uint32_t i = r->len; i < padded; i++)
		if (body[off + i])
			return -1;
	r->data = body + off;
	r->next = off + padded;
	return 0;
}

/* One NUL, at the end. */
static int is_string(const struct record *r)
{
	if (r->len == 0 || r->data[r->len - 1])
		return 0;
	for (uint32_t i = 0; i < r->len - 1; i++)
		if (!r->data[i])
			return 0;
	return 1;
}

/* The text that /proc/PID/uid_map takes; the kernel checks what it says. */
static int is_map(const struct record *r)
{
	if (r->len == 0 || r->len > 4095)
		return 0;
	for (uint32_t i = 0; i < r->len; i++) {
		unsigned char c = r->data[i];
		if ((c < '0' || c > '9') && c != ' ' && c != '\n')
			return 0;
	}
	return 1;
}

/* A name of AppArmor's: what could end the word, or begin another, in a write to
 * attr/current has no place in it. */
static int is_label(const struct record *r)
{
	if (!is_string(r) || r->len < 2 || r->len > MAX_LABEL)
		return 0;
	for (uint32_t i = 0; i < r->len - 1; i++)
		if (r->data[i] < ' ' || r->data[i] > '~')
			return 0;
	return 1;
}

/* The place of a descriptor; whether it is the right one is consistent's matter. */
static int is_place(const struct record *r)
{
	return r->len == 4 && u32(r->data) < 65536;
}

static int is_env(const struct record *r)
{
	if (!is_string(r) || r->data[0] == '=')
		return 0;
	for (uint32_t i = 0; i < r->len; i++)
		if (r->data[i] == '=')
			return 1;
	return 0;
}

static int take_limit(struct payload *p, const struct record *r)
{
	struct limit *l = &p->limits[p->nlimits];

	if (r->len != 24 || p->nlimits == MAX_RLIMITS || u32(r->data + 4))
		return -1;
	l->resource = u32(r->data);
	l->soft = u64(r->data + 8);
	l->hard = u64(r->data + 16);
	if (l->resource >= MAX_RLIMITS || l->soft > l->hard)
		return -1;
	for (uint32_t i = 0; i < p->nlimits; i++)
		if (p->limits[i].resource == l->resource)
			return -1;
	p->nlimits++;
	return 0;
}

static int take(struct payload *p, const struct record *r)
{
	switch (r->type) {
	case TLV_FLAGS:
		if (r->len != 4 || u32(r->data) & ~(uint32_t)FLAG_PAYLOAD)
			return -1;
		p->flags = u32(r->data);
		return 0;
	case TLV_UIDMAP:
	case TLV_GIDMAP:
		if (!is_map(r))
			return -1;
		*(r->type == TLV_UIDMAP ? &p->uidmap : &p->gidmap) = (struct bytes){ r->data, r->len };
		return 0;
	case TLV_UID:
	case TLV_GID:
		if (r->len != 4 || u32(r->data) == UINT32_MAX)
			return -1;
		*(r->type == TLV_UID ? &p->uid : &p->gid) = u32(r->data);
		return 0;
	case TLV_CGROUP_DIR:
		if (!is_place(r))
			return -1;
		p->cgroup_dir = (int)u32(r->data);
		return 0;
	case TLV_CGROUP_PROCS:
		if (!is_place(r) || p->nprocs == MAX_PROCS)
			return -1;
		p->procs[p->nprocs++] = u32(r->data);
		return 0;
	case TLV_RLIMIT:
		return take_limit(p, r);
	case TLV_AFFINITY:
		if (r->len == 0 || r->len > 1024 || r->len % 8)
			return -1;
		p->affinity = (struct bytes){ r->data, r->len };
		return 0;
	case TLV_UMASK:
		if (r->len != 4 || u32(r->data) > 0777)
			return -1;
		p->umask = u32(r->data);
		return 0;
	case TLV_TERMINAL:
		if (r->len != 4)
			return -1;
		p->cols = u32(r->data) & 0xffff;
		p->rows = u32(r->data) >> 16;
		return p->cols && p->rows ? 0 : -1;
	case TLV_STACK:
	case TLV_JOB_LABEL:
		if (!is_label(r))
			return -1;
		*(r->type == TLV_STACK ? &p->stack : &p->job_label) = (const char *)r->data;
		return 0;
	case TLV_CWD:
		if (!is_string(r) || r->data[0] != '/' || r->len > 4096)
			return -1;
		p->cwd = (const char *)r->data;
		return 0;
	case TLV_EXECUTABLE:
		if (!is_string(r) || r->data[0] != '/' || r->len > 4096 || p->nexecutables == MAX_EXECUTABLES)
			return -1;
		p->executables[p->nexecutables++] = (const char *)r->data;
		return 0;
	case TLV_FILTER:
		/* BPF_MAXINSNS is 4096, an instruction 8 bytes. */
		if (r->len == 0 || r->len % 8 || r->len > 4096 * 8 || p->nfilters == MAX_FILTERS)
			return -1;
		p->filters[p->nfilters++] = (struct bytes){ r->data, r->len };
		return 0;
	case TLV_ARG:
		if (!is_string(r))
			return -1;
		p->nargs++;
		return 0;
	case TLV_ENV:
		if (!is_env(r))
			return -1;
		p->nenv++;
		return 0;
	}
	return -1;
}

static int repeatable(uint32_t type)
{
	return type == TLV_CGROUP_PROCS || type == TLV_RLIMIT || type == TLV_FILTER ||
	       type == TLV_ARG || type == TLV_ENV || type == TLV_EXECUTABLE;
}

/* A descriptor that nothing claims, or that two things claim, is no job's: each
 * comes at its place, and all places are taken. */
static int count_files(struct payload *p)
{
	p->nfiles = p->flags & FLAG_STDIO ? 3 : 0;
	if (p->cgroup_dir >= 0 && (uint32_t)p->cgroup_dir != p->nfiles++)
		return 0;
	for (uint32_t i = 0; i < p->nprocs; i++)
		if (p->procs[i] != p->nfiles++)
			return 0;
	return 1;
}

/* What a job needs to run at all, and a seed to read its frames. */
static int has_program(const struct payload *p, uint32_t seen)
{
	const uint32_t command = 1u << TLV_CWD | 1u << TLV_ARG;

	if (p->flags & FLAG_SEED)
		return p->flags & FLAG_STDIO && !(seen & (command | 1u << TLV_ENV | 1u << TLV_TERMINAL | 1u << TLV_EXECUTABLE));
	return (seen & command) == command && (p->flags & FLAG_STDIO || p->cols);
}

static int consistent(struct payload *p, uint32_t seen)
{
	const uint32_t required = 1u << TLV_FLAGS | 1u << TLV_UIDMAP | 1u << TLV_GIDMAP |
		1u << TLV_UID | 1u << TLV_GID | 1u << TLV_UMASK;

	if ((seen & required) != required || !has_program(p, seen) || !count_files(p))
		return 0;
	/* No filter by accident: absent only if that is said. */
	if (!(p->flags & FLAG_NO_FILTER) != (p->nfilters > 0))
		return 0;
	if (!(p->flags & FLAG_INTO_CGROUP) != (p->cgroup_dir < 0))
		return 0;
	/* The cgroup namespace is made by the clone (v2) or after the move (v1). */
	if (p->flags & FLAG_NEWCGROUP && p->flags & FLAG_UNSHARE_CGROUPNS)
		return 0;
	if (!p->stack != !p->job_label)
		return 0;
	/* With setgroups denied, range mode could not empty the groups. */
	if (p->flags & FLAG_SETIDS && p->flags & FLAG_SETGROUPS_DENY)
		return 0;
	return 1;
}

static int take_setup(struct setup *s, const struct record *r)
{
	switch (r->type) {
	case TLV_FLAGS:
		if (r->len != 4 || u32(r->data) & ~(uint32_t)FLAG_SETUP)
			return -1;
		s->flags = u32(r->data);
		return 0;
	case TLV_LABEL:
		if (!is_label(r))
			return -1;
		s->label = (const char *)r->data;
		return 0;
	}
	return -1;
}

/* The next record of a known type, not seen before unless it may come again. */
static int next_record(const unsigned char *body, uint32_t n, uint32_t off, uint32_t *seen, struct record *r)
{
	if (record_at(body, n, off, r) || r->type == 0 || r->type > TLV_EXECUTABLE)
		return -1;
	if (*seen & 1u << r->type && !repeatable(r->type))
		return -1;
	*seen |= 1u << r->type;
	return 0;
}

int setup_parse(struct setup *s, const unsigned char *body, uint32_t n, uint32_t *bad)
{
	uint32_t seen = 0, off = 0;
	struct record r;

	*s = (struct setup){ 0 };
	for (; off < n; off = r.next) {
		*bad = off;
		if (next_record(body, n, off, &seen, &r) || take_setup(s, &r))
			return -1;
	}
	*bad = n;
	return seen & 1u << TLV_FLAGS ? 0 : -1;
}

int payload_parse(struct payload *p, const unsigned char *body, uint32_t n, uint32_t *bad)
{
	uint32_t seen = 0, off = 0;
	struct record r;

	*p = (struct payload){ .cgroup_dir = -1 };
	for (; off < n; off = r.next) {
		*bad = off;
		if (next_record(body, n, off, &seen, &r) || take(p, &r))
			return -1;
	}
	*bad = n;
	return consistent(p, seen) ? 0 : -1;
}

void payload_vectors(const unsigned char *body, uint32_t n, char **argv, char **envp)
{
	uint32_t off = 0;
	struct record r;

	while (off < n && !record_at(body, n, off, &r)) {
		if (r.type == TLV_ARG)
			*argv++ = (char *)(uintptr_t)r.data;
		else if (r.type == TLV_ENV)
			*envp++ = (char *)(uintptr_t)r.data;
		off = r.next;
	}
	*argv = NULL;
	*envp = NULL;
}
