/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel image as plain files, which hypervisors open by path: the files of /kernel whose names are known, and nothing else. */
#include "sink.h"
#include "io.h"
#include "base/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const known[] = { "image", "metadata", "addons.squashfs", "config.gz", "early.cpio" };

struct sink_directory {
	struct sink sink;
	int dir, file;
	uint64_t size, max;
	uint32_t n;
};

static void data_name(uint32_t number, char dst[32]) { snprintf(dst, 32, ".data-%u", number); }

static bool directory_wants(struct sink *sink, const struct tree *t, const struct entry *e)
{
	const struct node *n = tree_node(t, e->node), *dir = tree_node(t, n->parent);

	if (dir->parent != TREE_ROOT || strcmp(tree_text(t, dir->name), "kernel"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(tree_text(t, n->name), known[i]))
			return true;
	return false;
}

static int directory_begin(struct sink *sink, uint64_t size, uint32_t *ret, struct edera_error *err)
{
	struct sink_directory *s = (struct sink_directory *)sink;
	char name[32];

	if (size > s->max)
		return err_set(err, -EFBIG, "a file of the kernel image is larger than the %llu bytes allowed (--max-file)", (unsigned long long)s->max);
	data_name(s->n, name);
	s->file = openat(s->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (s->file < 0)
		return err_errno(err, -errno, "cannot create a file of the kernel image");
	s->size = 0;
	*ret = s->n++;
	return 0;
}

static int directory_data(struct sink *sink, const void *data, uint64_t n, struct edera_error *err)
{
	struct sink_directory *s = (struct sink_directory *)sink;
	int r = 0;

	s->size += n;
	if (s->size > s->max)
		return err_set(err, -EFBIG, "a file of the kernel image is larger than the %llu bytes allowed (--max-file)", (unsigned long long)s->max);
	if (data)
		r = io_write_all(s->file, data, n);
	else if (lseek(s->file, (off_t)n, SEEK_CUR) < 0)
		r = -errno;
	return r ? err_errno(err, r, "cannot write a file of the kernel image") : 0;
}

static int directory_end(struct sink *sink, struct edera_error *err)
{
	struct sink_directory *s = (struct sink_directory *)sink;
	int fd = steal_fd(&s->file), r = 0;

	if (ftruncate(fd, (off_t)s->size) < 0 || fchmod(fd, 0644) < 0 || fsync(fd) < 0)
		r = -errno;
	close(fd);
	return r ? err_errno(err, r, "cannot write a file of the kernel image") : 0;
}

static int place(struct sink_directory *s, const struct tree *t, uint32_t kernel, int to, const char *name, struct edera_error *err)
{
	uint32_t at;
	struct entry *e;
	char data[32];

	if (tree_child((struct tree *)t, kernel, name, strlen(name), false, &at, NULL) || tree_node(t, at)->ino == INO_NONE)
		return 0;
	e = tree_inode(t, tree_node(t, at));
	if (!e || e->type != ENTRY_FILE || e->data >= s->n)
		return err_set(err, -EBADMSG, "/kernel/%s in the image is not a regular file", name);
	data_name(e->data, data);
	if (linkat(s->dir, data, to, name, 0) < 0)
		return err_errno(err, -errno, "cannot place /kernel/%s", name);
	return 0;
}

static int directory_finish(struct sink *sink, struct tree *t, struct edera_error *err)
{
	struct sink_directory *s = (struct sink_directory *)sink;
	uint32_t kernel, image;
	char data[32];
	int r = 0;

	if (tree_child(t, TREE_ROOT, "kernel", 6, false, &kernel, NULL) || tree_child(t, kernel, "image", 5, false, &image, NULL) ||
	    tree_node(t, image)->ino == INO_NONE)
		return err_set(err, -ENOENT, "it is not a kernel image: it holds no /kernel/image");
	if (mkdirat(s->dir, "kernel", 0755) < 0)
		return err_errno(err, -errno, "cannot make a directory for the kernel image");
	_close_ int to = openat(s->dir, "kernel", O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (to < 0)
		return err_errno(err, -errno, "cannot make a directory for the kernel image");
	for (size_t i = 0; i < ARRAY_SIZE(known) && !r; i++)
		r = place(s, t, kernel, to, known[i], err);
	for (uint32_t i = 0; i < s->n; i++) {
		data_name(i, data);
		unlinkat(s->dir, data, 0);
	}
	if (!r && fsync(to) < 0)
		r = err_errno(err, -errno, "cannot write the kernel image");
	return r;
}

static void directory_free(struct sink *sink)
{
	struct sink_directory *s = (struct sink_directory *)sink;
	char data[32];

	if (s->file >= 0)
		close(s->file);
	for (uint32_t i = 0; i < s->n; i++) {
		data_name(i, data);
		unlinkat(s->dir, data, 0);
	}
	free(s);
}

static const struct sink_ops directory_ops = {
	.wants = directory_wants, .begin = directory_begin, .data = directory_data, .end = directory_end, .finish = directory_finish, .free = directory_free,
};

int sink_directory_new(const struct sink_options *o, struct sink **ret, struct edera_error *err)
{
	struct sink_directory *s = calloc(1, sizeof *s);

	if (!s)
		return err_errno(err, -ENOMEM, "cannot make a directory");
	*s = (struct sink_directory){ .sink.ops = &directory_ops, .dir = o->output_fd, .file = -1, .max = o->max_file };
	*ret = &s->sink;
	return 0;
}
