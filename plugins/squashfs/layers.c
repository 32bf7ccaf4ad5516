/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define FILES_MAX 4096 /* of one pull: as many as an image may have layers */
#define RESERVE 10     /* this part of the file system, a tenth, stays free */
#define UNFINISHED "." /* what the name of a layer begins with that is not complete yet */

static int layer_path(const char *dir, const char *prefix, const char *digest, char dst[PATH_CAP])
{
	return text_valid_digest(digest) ? path_format(dst, NULL, "%s/%s%.6s-%s", dir, prefix, digest, digest + 7) : -EINVAL;
}

/* Calls cb for each file of a directory; it may remove it. */
static void each(const char *dir, void (*cb)(void *user, const char *path, const char *name), void *user)
{
	_closedir_ DIR *d = opendir(dir);
	char path[PATH_CAP];
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !path_format(path, NULL, "%s/%s", dir, e->d_name))
			cb(user, path, e->d_name);
}

/* --- what all images share ------------------------------------------------------------------------------------------- */

static void remove_lonely(void *user, const char *path, const char *name)
{
	struct stat st;

	if (lstat(path, &st) == 0 && (!S_ISREG(st.st_mode) || st.st_nlink == 1))
		unlink(path);
}

void layers_sweep(struct store *s)
{
	pthread_mutex_lock(&s->lock);
	each(s->layers, remove_lonely, NULL);
	pthread_mutex_unlock(&s->lock);
}

static void remove_it(void *user, const char *path, const char *name)
{
	if (unlink(path) == 0)
		*(bool *)user = true;
}

struct of_entries {
	const struct store *s;
	const char *digest; /* NULL: all */
	bool found;
};

static int remove_of_entry(void *user, const char *image, uint32_t format)
{
	struct of_entries *o = user;
	char entry[PATH_CAP], dir[PATH_CAP], path[PATH_CAP];

	if (entry_path(o->s, image, format, entry, NULL) || path_format(dir, NULL, "%s/layers", entry))
		return 0;
	if (!o->digest)
		each(dir, remove_it, &o->found);
	else if (!layer_path(dir, "", o->digest, path))
		unlink(path);
	return 0;
}

bool layers_drop(struct store *s)
{
	struct of_entries o = { .s = s };

	pthread_mutex_lock(&s->lock);
	entry_each(s, remove_of_entry, &o, NULL);
	each(s->layers, remove_it, &o.found);
	pthread_mutex_unlock(&s->lock);
	return o.found;
}

static void add_part(void *user, const char *path, const char *name)
{
	struct stat st;

	/* One of the names is that below layers/, unless it is being taken away. */
	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
		*(uint64_t *)user += (uint64_t)st.st_size / (st.st_nlink > 1 ? st.st_nlink - 1 : 1);
}

uint64_t layers_bytes(const char *entry)
{
	char dir[PATH_CAP];
	uint64_t sum = 0;

	if (!path_format(dir, NULL, "%s/layers", entry))
		each(dir, add_part, &sum);
	return sum;
}

/* Whether a file below layers/ can have a second name where images are made. */
static int try_link(const struct store *s)
{
	char from[PATH_CAP], to[PATH_CAP];
	int r = path_format(from, NULL, "%s/" UNFINISHED "try", s->layers);

	if (!r)
		r = path_format(to, NULL, "%s/try", s->work);
	if (!r)
		r = path_write_file(from, "", 0, 0600, NULL);
	if (!r && link(from, to) < 0)
		r = -errno;
	unlink(to);
	unlink(from);
	return r;
}

int layers_open(struct store *s, bool keep, struct edera_error *err)
{
	char message[2 * PATH_CAP + 200];
	int r = path_format(s->layers, err, "%s/layers", s->host->path(s->host->core, EDERA_PATH_CACHE));

	if (!r)
		r = path_mkdirs(s->layers, 0700, err);
	if (r)
		return r;
	layers_sweep(s);
	if (!keep) {
		layers_drop(s);
		return 0;
	}
	r = try_link(s);
	s->keep = !r;
	if (r) {
		snprintf(message, sizeof message, "layers are not kept for other images: no hard links between %s and %s: %s", s->layers, s->work, strerror(-r));
		s->host->log(s->host->core, EDERA_LOG_INFO, message);
	}
	return 0;
}

/* --- one pull -------------------------------------------------------------------------------------------------------- */

int keeping_begin(struct keeping *k, struct store *s, const char *entry, struct edera_error *err)
{
	int r = path_format(k->dir, err, "%s/layers", entry);

	k->store = s;
	if (!r && mkdir(k->dir, 0700) < 0)
		r = err_errno(err, -errno, "cannot make '%s'", k->dir);
	if (r)
		k->dir[0] = 0;
	return r;
}

int keeping_open(struct keeping *k, const char *digest, int *ret_fd)
{
	char mine[PATH_CAP], shared[PATH_CAP];
	int fd;

	if (!k->dir[0] || layer_path(k->dir, "", digest, mine) || layer_path(k->store->layers, "", digest, shared))
		return -ENOENT;
	/* First it becomes ours too, so that it stays for this image whatever happens to those it came from. */
	pthread_mutex_lock(&k->store->lock);
	(void)!link(shared, mine);
	pthread_mutex_unlock(&k->store->lock);
	fd = open(mine, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -ENOENT;
	*ret_fd = fd;
	return 0;
}

/* What may be wanted once leaves a part of the file system to what is wanted now. A node whose disk is fuller than that starts to evict pods. */
static bool has_room(const char *dir, uint64_t size)
{
	struct statvfs v;
	uint64_t reserve;

	if (statvfs(dir, &v) < 0)
		return false;
	reserve = v.f_blocks / RESERVE;
	return v.f_bavail > reserve && (v.f_bavail - reserve) * v.f_frsize > size;
}

int keeping_new(struct keeping *k, const char *digest, uint64_t size, int *ret_fd)
{
	char path[PATH_CAP];
	int fd;

	if (!k->dir[0] || layer_path(k->dir, UNFINISHED, digest, path) || k->files >= FILES_MAX || !has_room(k->dir, size))
		return -ENOENT;
	k->files++;
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -ENOENT; /* no space, say: the image can be made without */
	*ret_fd = fd;
	return 0;
}

void keeping_kept(struct keeping *k, const char *digest)
{
	char from[PATH_CAP], to[PATH_CAP];

	if (k->dir[0] && !layer_path(k->dir, UNFINISHED, digest, from) && !layer_path(k->dir, "", digest, to))
		(void)!rename(from, to);
}

/* Wrong for one image is wrong for all that share it. They lose nothing: their layers are there for others. */
void keeping_bad(struct keeping *k, const char *digest)
{
	struct of_entries o = { .s = k->store, .digest = digest };
	char mine[PATH_CAP], shared[PATH_CAP];

	if (!k->dir[0] || layer_path(k->dir, "", digest, mine) || layer_path(k->store->layers, "", digest, shared))
		return;
	pthread_mutex_lock(&k->store->lock);
	if (unlink(mine) == 0) {
		unlink(shared);
		entry_each(k->store, remove_of_entry, &o, NULL);
	}
	pthread_mutex_unlock(&k->store->lock);
}

static void publish(void *user, const char *path, const char *name)
{
	const struct store *s = user;
	char shared[PATH_CAP];

	if (text_starts(name, UNFINISHED) || path_format(shared, NULL, "%s/%s", s->layers, name)) {
		unlink(path);
	} else if (link(path, shared) < 0) {
		/* Another pull was faster: one file is enough. Or there can be no more links: then it is of no use. */
		bool there = errno == EEXIST;

		unlink(path);
		if (there)
			(void)!link(shared, path);
	}
}

void keeping_publish(struct keeping *k)
{
	if (!k->dir[0])
		return;
	pthread_mutex_lock(&k->store->lock);
	each(k->dir, publish, k->store);
	pthread_mutex_unlock(&k->store->lock);
	rmdir(k->dir); /* if it is empty */
}
