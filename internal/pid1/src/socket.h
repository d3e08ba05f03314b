/* socket.h: the kernel's structures and numbers for sockets, which no header of its
 * own has. */
#ifndef JAILER_SOCKET_H
#define JAILER_SOCKET_H

#include <stddef.h>

#define AF_UNIX 1
#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define SOCK_SEQPACKET 5
#define SOCK_CLOEXEC 02000000
#define MSG_CTRUNC 0x8
#define MSG_DONTWAIT 0x40
#define MSG_NOSIGNAL 0x4000
#define MSG_CMSG_CLOEXEC 0x40000000

struct bytes_at { /* struct iovec */
	void *p;
	size_t n;
};

struct rights { /* struct cmsghdr; descriptors follow */
	size_t len;
	int level, type;
};

struct message { /* struct user_msghdr */
	void *name;
	int nname;
	struct bytes_at *data;
	size_t ndata;
	void *control;
	size_t ncontrol;
	unsigned flags;
};

#endif
