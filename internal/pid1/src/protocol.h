/* protocol.h: the words that PID 1 and the launcher share. The Go side
 * (../stage.go, ../setup.go, ../payload.go, ../report.go, ../conn.go) repeats them; a Go test parses this
 * file and compares every number. Little-endian, as both architectures are. */
#ifndef JAILER_PROTOCOL_H
#define JAILER_PROTOCOL_H

#define PROTOCOL_MAGIC 0x314c524a /* "JRL1" */
#define PROTOCOL_VERSION 2
#define PROTOCOL_HEADER 12        /* of SETUP: magic, version, bytes of the body */
#define PROTOCOL_SETUP_MAX 1024   /* body of SETUP */
#define PROTOCOL_BODY_MAX 8388608 /* body of EXEC: a payload */
#define PROTOCOL_REPORT 128
#define PROTOCOL_CONTROL 12       /* kind, job, argument */
#define PROTOCOL_JOBS 64          /* that live at one time */

/* Descriptors that PID 1 is started with, beside stdio. */
#define FD_CONTROL 3
#define FD_SELF 4

/* Types of the type-length-value records. SETUP has FLAGS and LABEL, a payload all
 * but LABEL. Strings carry their closing NUL in the length. CGROUP_DIR and
 * CGROUP_PROCS hold the place, from 0, among the descriptors that came with EXEC:
 * with FLAG_STDIO the job's three are first, then the directory, then the files. */
#define TLV_FLAGS 1
#define TLV_UIDMAP 2
#define TLV_GIDMAP 3
#define TLV_UID 4
#define TLV_GID 5
#define TLV_CGROUP_DIR 6
#define TLV_CGROUP_PROCS 7
#define TLV_RLIMIT 8
#define TLV_AFFINITY 9
#define TLV_UMASK 10
#define TLV_CWD 11
#define TLV_FILTER 12
#define TLV_ARG 13
#define TLV_ENV 14
#define TLV_TERMINAL 15 /* columns and rows, 16 bits each, neither 0 */
/* AppArmor; all three or none. Labels as attr/current shows them, "NAME (MODE)". */
#define TLV_LABEL 16     /* PID 1's */
#define TLV_STACK 17     /* profile that the job's process adds to it */
#define TLV_JOB_LABEL 18 /* what then must be the job's */

#define TLV_EXECUTABLE 19 /* absolute path in the jail; with one or more, nothing else is executed */

#define FLAG_NEWCGROUP 1
#define FLAG_INTO_CGROUP 2
#define FLAG_UNSHARE_CGROUPNS 4
#define FLAG_SETGROUPS_DENY 8
#define FLAG_NO_FILTER 16
#define FLAG_REQUIRE_PDEATHSIG 32
#define FLAG_SETIDS 64
#define FLAG_STDIO 128 /* the first three descriptors are the job's 0-2 */
#define FLAG_SEED 256  /* no program: makes the files that its stdin describes */
#define FLAG_ONCE 512  /* PID 1 ends with its first job that is no seed */
#define FLAG_SETUP (FLAG_REQUIRE_PDEATHSIG | FLAG_ONCE)
#define FLAG_PAYLOAD (FLAG_NEWCGROUP | FLAG_INTO_CGROUP | FLAG_UNSHARE_CGROUPNS | FLAG_SETGROUPS_DENY | \
	FLAG_NO_FILTER | FLAG_SETIDS | FLAG_STDIO | FLAG_SEED)

#define CONTROL_SIGNAL 1       /* argument: the signal */
#define CONTROL_SIGNAL_GROUP 2
#define CONTROL_KILL 3         /* job 0: everything but PID 1 */
#define CONTROL_EXEC 4         /* argument: bytes of the payload that follows */

#define REPORT_STARTED 1
#define REPORT_FAILED 2
#define REPORT_EXITED 3
#define REPORT_TERMINAL 4 /* with the master, by SCM_RIGHTS; before STARTED */
#define REPORT_READY 5    /* SETUP is done; with the workspace, if there is one, by SCM_RIGHTS */

/* A seed's stdin: frames of header, path with its NUL, and a file's bytes. Header:
 * type, mode, bytes of the path, 0, and the file's size in 64 bits. */
#define SEED_HEADER 24
#define SEED_PATH_MAX 4096
#define SEED_DIR 1
#define SEED_FILE 2
#define SEED_END 3

/* REPORT detail of STAGE_EXEC: the file exists, the interpreter named by its
 * first line or by its ELF header doesn't. */
#define DETAIL_INTERPRETER 1

#define LEFTOVER_UNKNOWN 0xffffffff

/* REPORT space: what the workspace's file system said at the end. Without
 * SPACE_KNOWN it said nothing. */
#define SPACE_KNOWN 1
#define SPACE_FULL 2     /* no free block, or no free inode */
#define WORKSPACE "/workspace"

/* The step that failed. Below 32 it is PID 1's, from 32 on the job's own process
 * before its exec. */
enum stage {
	STAGE_NONE = 0,
	STAGE_SETUP = 1,       /* own descriptors, signals, dumpable */
	STAGE_PAYLOAD = 2,     /* detail: offset of the refused record */
	STAGE_PID = 3,         /* not pid 1 of its namespace */
	STAGE_PDEATHSIG = 4,   /* would outlive the launcher */
	STAGE_PAIR = 5,        /* socketpair with the job's process */
	STAGE_CLONE = 6,
	STAGE_UIDMAP = 7,
	STAGE_SETGROUPS = 8,
	STAGE_GIDMAP = 9,
	STAGE_CGROUP = 10,     /* cgroup.procs write; detail: which, from 0 */
	STAGE_RELEASE = 11,
	STAGE_CONTROL = 12,    /* message of the launcher that is none */
	STAGE_DIED = 13,       /* the job's process died before its exec: wait status */
	STAGE_WAIT = 14,
	STAGE_TERMINAL = 15,   /* a terminal of the jail's own */
	STAGE_APPARMOR = 16,   /* PID 1 is not under the profile that it was started with */
	STAGE_FILES = 17,      /* not the descriptors that were declared; detail: how many came */
	STAGE_JOBS = 18,       /* as many jobs live as can */

	STAGE_CGROUPNS = 32,
	STAGE_SETIDS = 33,
	STAGE_IDS = 34,        /* not the ids that were asked for */
	STAGE_SETSID = 35,
	STAGE_SIGNALS = 36,
	STAGE_RLIMIT = 37,     /* detail: the resource */
	STAGE_AFFINITY = 38,
	STAGE_BOUNDING = 39,
	STAGE_AMBIENT = 40,
	STAGE_CAPSET = 41,
	STAGE_NO_NEW_PRIVS = 42,
	STAGE_DESCRIPTORS = 43,
	STAGE_CWD = 44,
	STAGE_FILTER = 45,     /* detail: which, from 0 */
	STAGE_EXEC = 46,
	STAGE_CTTY = 47,       /* the terminal as the job's own */
	STAGE_STACK = 48,      /* the job's AppArmor profile was refused, or isn't there */
	STAGE_SEED = 49,       /* detail: the frame, from 0 */
	STAGE_LANDLOCK = 50    /* detail: the executable, from 0 */
};

#endif
