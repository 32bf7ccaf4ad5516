/* SPDX-License-Identifier: Apache-2.0 */
/* An archive that is imported: its compression, its index, what it says its images are. */
#include "json.h"
#include "source.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int memory(const uint8_t *data, size_t size)
{
	int fd = memfd_create("archive", MFD_CLOEXEC);

	return fd >= 0 && write(fd, data, size) == (ssize_t)size ? fd : -1;
}

static void look(const char *reference, const struct options *o)
{
	struct edera_error err = EDERA_ERROR_INIT;
	_buf_ struct buf manifest = BUF_INIT;
	char digest[DIGEST_MAX];
	struct source *s;
	struct origin origin;

	if (origin_parse(reference, &origin, &err) || source_new(&origin, o, &s, &err))
		return;
	if (!s->ops->manifest(s, NULL, &manifest, digest, &err))
		json_object_to_json_string(s->ops->names(s));
	s->ops->free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct options o = { .archive_fd = memory(data, size), .unpack_fd = memory(NULL, 0), .max_size = 1 << 20 };

	if (o.archive_fd >= 0 && o.unpack_fd >= 0) {
		look("archive:-", &o);
		if (!ftruncate(o.unpack_fd, 0) && lseek(o.unpack_fd, 0, SEEK_SET) == 0)
			look("archive:-:one:1", &o);
	}
	close(o.archive_fd);
	close(o.unpack_fd);
	return 0;
}
