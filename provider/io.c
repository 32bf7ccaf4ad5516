/* SPDX-License-Identifier: Apache-2.0 */
#include "io.h"

#include <stdlib.h>
#include <unistd.h>

int io_read_all(int fd, size_t max, struct buf *ret, const char *what, struct edera_error *err)
{
	struct buf b = BUF_INIT;

	for (;;) {
		size_t room = max - b.len + 1 < 65536 ? max - b.len + 1 : 65536;
		ssize_t n;

		if (buf_reserve(&b, room))
			return err_errno(err, -ENOMEM, "cannot read %s", what);
		n = read(fd, b.data + b.len, room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || b.len + (size_t)n > max) {
			int e = n < 0 ? -errno : n == 0 ? 0 : -EFBIG;

			b.data[b.len] = 0;
			if (e == 0) {
				*ret = b;
				return 0;
			}
			buf_free(&b);
			return e == -EFBIG ? err_set(err, e, "%s is larger than the %zu bytes allowed", what, max) : err_errno(err, e, "cannot read %s", what);
		}
		b.len += (size_t)n;
	}
}

int io_write_all(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n > 0) {
		ssize_t m = write(fd, p, n);

		if (m < 0 && errno == EINTR)
			continue;
		if (m < 0)
			return -errno;
		p += m;
		n -= (size_t)m;
	}
	return 0;
}

const char *io_temporary_directory(void)
{
	const char *tmp = getenv("TMPDIR");

	return tmp && *tmp ? tmp : "/var/tmp";
}
