/* SPDX-License-Identifier: Apache-2.0 */
/* The zone's serial console: drained always (a full one would stop the guest), kept in the record, written by those who attach. */
#include "zone_private.h"
#include "base/log.h"

#include <stdlib.h>
#include <unistd.h>

#define READ_MAX 16384

static void free_handle(uv_handle_t *h) { free(h); }

void zone_console_close(struct zone *z)
{
	if (z->console_poll) {
		uv_poll_stop(z->console_poll);
		uv_close((uv_handle_t *)z->console_poll, free_handle);
		z->console_poll = NULL;
	}
	if (z->console_fd >= 0)
		close(z->console_fd);
	z->console_fd = -1;
}

static void readable(uv_poll_t *p, int status, int events)
{
	struct zone *z = p->data;
	struct edera_error err = EDERA_ERROR_INIT;
	char data[READ_MAX];
	ssize_t n = status < 0 ? -1 : read(z->console_fd, data, sizeof data);

	(void)events;
	if (n < 0 && status == 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		zone_console_close(z);
		zone_reopen(z);
		return;
	}
	if (output_append(z->console, 0, z->console_offset, data, (size_t)n, &err))
		log_warning(err.msg, "zone", z->pb->id, NULL);
	z->console_offset += (uint64_t)n;
}

void zone_console_open(struct zone *z, int fd)
{
	zone_console_close(z);
	z->console_fd = fd;
	z->console_poll = pb_xcalloc(1, sizeof *z->console_poll);
	z->console_poll->data = z;
	if (uv_poll_init(z->d->loop, z->console_poll, fd) < 0) {
		free(z->console_poll);
		z->console_poll = NULL;
		zone_console_close(z);
		log_warning("cannot watch the zone's console", "zone", z->pb->id, NULL);
		return;
	}
	uv_poll_start(z->console_poll, UV_READABLE, readable);
}

int zone_console_write(struct zone *z, const void *data, size_t len)
{
	ssize_t n = z->console_fd < 0 ? -1 : write(z->console_fd, data, len);

	/* A console that does not take what people type loses it, as a serial line does. */
	return z->console_fd < 0 ? -ENOTCONN : n < 0 && errno != EAGAIN ? -errno : 0;
}
