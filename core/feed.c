/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

bool feed_write(struct feed *f, struct agent_process *p, const void *data, size_t len, bool close_after)
{
	if (!p)
		return true;
	if (f->held.len > 0 || (len > 0 && agent_process_write(p, data, len) == -EAGAIN)) {
		buf_append(&f->held, data, len);
		f->close_after |= close_after;
		if (!f->paused)
			grpc_call_pause(f->call);
		f->paused = true;
		return false;
	}
	if (close_after)
		agent_process_close_stdin(p);
	return true;
}

bool feed_go_on(struct feed *f, struct agent_process *p)
{
	if (f->held.len > 0 && p && agent_process_write(p, f->held.data, f->held.len) == -EAGAIN)
		return false;
	buf_clear(&f->held);
	if (f->close_after && p)
		agent_process_close_stdin(p);
	f->close_after = false;
	if (f->paused) {
		f->paused = false;
		grpc_call_resume(f->call);
	}
	return true;
}

void feed_clear(struct feed *f) { buf_free(&f->held); }
