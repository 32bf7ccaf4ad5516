/* SPDX-License-Identifier: Apache-2.0 */
#include "archive_file.h"
#include "inflate.h"
#include "io.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (256u << 10)

struct unpacking {
	int from, to;
	uint64_t at, size, made, max;
	uint8_t *in, *out;
};

void archive_file_name(const struct origin *o, char dst[4100])
{
	if (origin_is_stream(o))
		strcpy(dst, "the archive");
	else
		snprintf(dst, 4100, "'%s'", o->file);
}

static int take(void *user, const uint8_t **ret, size_t *ret_len, struct edera_error *err)
{
	struct unpacking *u = user;
	ssize_t n;

	do
		n = pread(u->from, u->in, PIECE, (off_t)u->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_errno(err, -errno, "cannot read it");
	u->at += (uint64_t)n;
	*ret = u->in;
	*ret_len = (size_t)n;
	return n > 0;
}

static int room(void *user, uint8_t **ret, size_t *ret_len, struct edera_error *err)
{
	*ret = ((struct unpacking *)user)->out;
	*ret_len = PIECE;
	return 0;
}

static int made(void *user, size_t n, struct edera_error *err)
{
	struct unpacking *u = user;
	int r;

	u->made += n;
	if (u->made > u->max)
		return err_set(err, -EFBIG, "it takes more than the %llu bytes allowed when unpacked (--max-size)", (unsigned long long)u->max);
	r = inflate_check_ratio(u->made, u->size, err);
	if (r)
		return r;
	r = io_write_all(u->to, u->out, n);
	return r ? err_errno(err, r, "cannot unpack it") : 0;
}

static int unpack(const struct options *o, int fd, uint64_t size, struct edera_error *err)
{
	_free_ uint8_t *in = malloc(PIECE), *out = malloc(PIECE);
	struct unpacking u = { .from = fd, .to = o->unpack_fd, .size = size, .max = o->max_size, .in = in, .out = out };
	struct inflate_io io = { .take = take, .room = room, .made = made, .user = &u };

	if (o->unpack_fd < 0)
		return err_set(err, -ENOTSUP, "it is compressed, and there is no place here to unpack it; unpack it first");
	return in && out ? inflate_run(&io, err) : err_errno(err, -ENOMEM, "cannot unpack it");
}

int archive_file_open(const struct origin *origin, const struct options *o, int *ret, struct edera_error *err)
{
	char name[4100];
	uint8_t start[16];
	struct stat st;
	ssize_t n;
	int r;

	archive_file_name(origin, name);
	if (origin_is_stream(origin) && o->archive_fd < 0)
		return err_set(err, -EINVAL, "no archive is given (--archive-fd)");
	_close_ int fd = origin_is_stream(origin) ? fcntl(o->archive_fd, F_DUPFD_CLOEXEC, 3) : open(origin->file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, -errno, "cannot open the image archive %.302s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "the image archive %.302s is not a regular file", name);
	n = pread(fd, start, sizeof start, 0);
	if (n < 0)
		return err_errno(err, -errno, "cannot read %.302s", name);
	if (inflate_needed(start, (size_t)n)) {
		r = unpack(o, fd, (uint64_t)st.st_size, err);
		if (r)
			return err_wrap(err, "cannot read %.302s", name);
		close_fd(&fd);
		fd = fcntl(o->unpack_fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			return err_errno(err, -errno, "cannot read %.302s", name);
	}
	*ret = steal_fd(&fd);
	return 0;
}
