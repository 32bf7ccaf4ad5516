/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"
#include "layers.h"
#include "base/cleanup.h"
#include "base/spawn.h"
#include "base/text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const formats[] = { [EDERA_IMAGE_SQUASHFS] = "squashfs", [EDERA_IMAGE_EROFS] = "erofs", [EDERA_IMAGE_TAR] = "tar", [EDERA_IMAGE_DIRECTORY] = "directory" };

const char *format_name(uint32_t format) { return format < ARRAY_SIZE(formats) ? formats[format] : NULL; }

int entry_path(const struct store *s, const char *digest, uint32_t format, char dst[PATH_CAP], struct edera_error *err)
{
	if (!text_valid_digest(digest))
		return err_set(err, -EINVAL, "'%.150s' is not a digest", digest);
	if (!format_name(format))
		return err_set(err, -EINVAL, "there is no image format %u", format);
	return path_format(dst, err, "%s/%.6s-%s.%s", s->images, digest, digest + 7, format_name(format));
}

bool entry_exists(const struct store *s, const char *digest, uint32_t format)
{
	char path[PATH_CAP];
	struct stat st;

	return !entry_path(s, digest, format, path, NULL) && lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* "sha256-<hex>.squashfs" */
static bool entry_parse(const char *name, char digest[EDERA_DIGEST_MAX], uint32_t *ret_format)
{
	const char *dot = strchr(name, '.');
	size_t n = dot ? (size_t)(dot - name) : 0;

	if (n < 8 || n >= EDERA_DIGEST_MAX || name[6] != '-')
		return false;
	memcpy(digest, name, n);
	digest[n] = 0;
	digest[6] = ':';
	if (!text_valid_digest(digest))
		return false;
	for (uint32_t f = 1; f < ARRAY_SIZE(formats); f++)
		if (!strcmp(dot + 1, formats[f])) {
			*ret_format = f;
			return true;
		}
	return false;
}

int entry_each(const struct store *s, int (*cb)(void *, const char *, uint32_t), void *user, struct edera_error *err)
{
	_closedir_ DIR *d = opendir(s->images);
	char digest[EDERA_DIGEST_MAX];
	struct dirent *e;
	uint32_t format;
	int r = 0;

	if (!d)
		return err_errno(err, -errno, "cannot list '%s'", s->images);
	while (!r && (e = readdir(d)))
		if (entry_parse(e->d_name, digest, &format))
			r = cb(user, digest, format);
	return r;
}

void entry_source(const struct store *s, const char *digest, uint32_t format, char dst[EDERA_DIGEST_MAX])
{
	_buf_ struct buf text = BUF_INIT;
	char path[PATH_CAP], file[PATH_CAP];

	dst[0] = 0;
	if (entry_path(s, digest, format, path, NULL) || path_format(file, NULL, "%s/source", path) || path_read_file(file, EDERA_DIGEST_MAX, &text, NULL))
		return;
	if (text_valid_digest((char *)text.data))
		snprintf(dst, EDERA_DIGEST_MAX, "%s", (char *)text.data);
}

int image_name(const char *reference, char dst[REFERENCE_CAP], struct edera_error *err)
{
	static const char *const places[] = { "oci:", "oci-archive:", "docker-archive:" };
	struct reference ref;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (text_starts(reference, places[i])) {
			if (strlen(reference) >= REFERENCE_CAP)
				return err_set(err, -ENAMETOOLONG, "'%.100s...' is too long", reference);
			strcpy(dst, reference);
			return 0;
		}
	r = reference_parse(reference, &ref, err);
	if (!r)
		reference_format(&ref, dst);
	return r;
}

struct listing {
	struct store *s;
	int (*cb)(void *user, const struct edera_image_info *);
	void *user;
};

static uint64_t file_size(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

static uint64_t entry_size(const char *entry, uint32_t format)
{
	char path[PATH_CAP], file[PATH_CAP];
	uint64_t sum = 0;
	struct dirent *e;

	if (format != EDERA_IMAGE_DIRECTORY)
		return path_format(path, NULL, "%s/image", entry) ? 0 : file_size(path);
	if (path_format(path, NULL, "%s/kernel", entry))
		return 0;
	_closedir_ DIR *d = opendir(path);

	while (d && (e = readdir(d)))
		if (!path_format(file, NULL, "%s/%s", path, e->d_name))
			sum += file_size(file);
	return sum;
}

static int list_one(void *user, const char *digest, uint32_t format)
{
	struct listing *l = user;
	struct edera_image_info info = { .size = sizeof info, .format = format };
	const struct names *names = &l->s->names;
	_free_ const char **list = NULL;
	char path[PATH_CAP];
	struct stat st;
	int r;

	if (entry_path(l->s, digest, format, path, NULL) || lstat(path, &st) < 0)
		return 0; /* just removed */
	snprintf(info.digest, sizeof info.digest, "%s", digest);
	entry_source(l->s, digest, format, info.source_digest);
	info.bytes = entry_size(path, format);
	info.layers_bytes = layers_bytes(path);
	info.created = st.st_mtime;
	/* The names are copied: cb runs without the lock. */
	pthread_mutex_lock(&l->s->lock);
	list = calloc(names->n + 1, sizeof *list);
	for (size_t i = 0; list && i < names->n; i++)
		if (names->list[i].format == format && !strcmp(names->list[i].digest, digest) && (list[info.n_names] = strdup(names->list[i].text)))
			info.n_names++;
	pthread_mutex_unlock(&l->s->lock);
	info.names = list;
	r = l->cb(l->user, &info);
	for (size_t i = 0; i < info.n_names; i++)
		free((char *)list[i]);
	return r;
}

static int store_list(void *inst, const struct edera_call *call, int (*cb)(void *, const struct edera_image_info *), void *user, struct edera_error *err)
{
	struct listing l = { .s = inst, .cb = cb, .user = user };

	return entry_each(inst, list_one, &l, err);
}

static int store_remove(void *inst, const struct edera_call *call, const char *digest, uint32_t format, int *ret_removed, struct edera_error *err)
{
	struct store *s = inst;
	char path[PATH_CAP], away[PATH_CAP];
	int r = entry_path(s, digest, format, path, err);

	if (!r)
		r = path_format(away, err, "%s/remove.XXXXXX", s->work);
	if (r)
		return r;
	if (!mkdtemp(away))
		return err_errno(err, -errno, "cannot remove the image %s", digest);
	pthread_mutex_lock(&s->lock);
	/* rename() takes an empty directory's place: from here on the image is gone, whatever happens. */
	*ret_removed = rename(path, away) == 0;
	if (!*ret_removed && errno != ENOENT)
		r = err_errno(err, -errno, "cannot remove the image %s", digest);
	if (!r)
		r = names_drop_digest(&s->names, digest, format, err);
	pthread_mutex_unlock(&s->lock);
	if (!r)
		r = path_remove_tree(away, err);
	layers_sweep(s);
	return r;
}

static int store_file(void *inst, const struct edera_call *call, const char *digest, uint32_t format, uint32_t which, char *ret_path, struct edera_error *err)
{
	static const char *const files[] = { [EDERA_IMAGE_FILE_ROOT] = "/image", [EDERA_IMAGE_FILE_MANIFEST] = "/manifest.json", [EDERA_IMAGE_FILE_CONFIG] = "/config.json" };
	struct store *s = inst;
	char path[PATH_CAP], file[PATH_CAP];
	bool whole = format == EDERA_IMAGE_DIRECTORY && which == EDERA_IMAGE_FILE_ROOT;
	int r = entry_path(s, digest, format, path, err);

	if (!r && (which < 1 || which >= ARRAY_SIZE(files)))
		r = err_set(err, -EINVAL, "an image has no file %u", which);
	if (!r)
		r = path_format(file, err, "%s%s", path, whole ? "" : files[which]);
	if (r)
		return r;
	if (access(file, F_OK) < 0)
		return err_set(err, -ENOENT, "the image %s is not in the cache as %s", digest, format_name(format));
	strcpy(ret_path, file);
	return 0;
}

const struct edera_image_store_ops store_ops = {
	.size = sizeof(struct edera_image_store_ops), .pull = store_pull, .list = store_list, .remove = store_remove, .file = store_file, .import = store_import,
};

void store_free(struct store *s)
{
	if (!s)
		return;
	names_free(&s->names);
	free(s);
}

int store_open(const struct edera_host *host, const struct edera_conf *conf, struct store **ret, struct edera_error *err)
{
	struct store *s = calloc(1, sizeof *s);
	char names[PATH_CAP];
	uint32_t uid, gid;
	int r;

	if (!s)
		return err_errno(err, -ENOMEM, "cannot open the image store");
	s->host = host;
	s->conf = conf;
	s->user = geteuid();
	s->group = getegid();
	if (s->user == 0 && spawn_user(PROTECT_OCI_USER, &uid, &gid, NULL) == 0) {
		s->user = uid;
		s->group = gid;
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &attr);
	pthread_condattr_destroy(&attr);
	r = path_format(s->images, err, "%s/images", host->path(host->core, EDERA_PATH_CACHE));
	if (!r)
		r = path_format(s->work, err, "%s/.work", s->images);
	/* Hypervisors open images by path under users of their own; nobody needs to list them. */
	if (!r)
		r = path_mkdirs(s->images, 0711, err);
	if (!r)
		r = path_remove_tree(s->work, err); /* what a crash left */
	if (!r)
		r = path_mkdirs(s->work, 0711, err);
	if (!r)
		r = layers_open(s, host->conf_bool(conf, "keep-layers"), err);
	if (!r)
		r = path_format(names, err, "%s/names.json", s->images);
	if (!r)
		r = names_load(&s->names, names, err);
	if (r) {
		store_free(s);
		return r;
	}
	*ret = s;
	return 0;
}
