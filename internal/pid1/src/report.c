/* report.c: the way back to the launcher. A report that doesn't arrive would leave it
 * waiting for a job that has ended, so none is ever dropped. */
#include "report.h"
#include "socket.h"
#include "sys.h"

void report_send(struct report *r)
{
	r->magic = PROTOCOL_MAGIC;
	if (sys(__NR_sendto, FD_CONTROL, r, sizeof *r, MSG_NOSIGNAL, NULL, 0) != sizeof *r)
		die(1);
}

long report_send_with(struct report *r, int fd)
{
	struct bytes_at data = { r, sizeof *r };
	struct { struct rights head; int fd, pad; } rights = {
		{ sizeof rights - sizeof rights.pad, SOL_SOCKET, SCM_RIGHTS }, fd, 0
	};
	struct message m = { .data = &data, .ndata = 1, .control = &rights, .ncontrol = sizeof rights };
	long n;

	r->magic = PROTOCOL_MAGIC;
	n = sys(__NR_sendmsg, FD_CONTROL, &m, MSG_NOSIGNAL);
	return n < 0 ? n : 0;
}

void fail(uint16_t stage, long error, uint32_t detail)
{
	report_send(&(struct report){
		.type = REPORT_FAILED, .stage = stage, .error = (int32_t)-error, .detail = detail,
	});
	die(1);
}

long must(uint16_t stage, long r)
{
	if (r < 0)
		fail(stage, r, 0);
	return r;
}
