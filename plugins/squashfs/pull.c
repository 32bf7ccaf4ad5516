/* SPDX-License-Identifier: Apache-2.0 */
#include "pull.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define HAVE_MAX 40

static const char *const kernel_files[] = { "image", "metadata", "addons.squashfs", "config.gz", "early.cpio" };

/* --- where an image is made ------------------------------------------------------------------------------------------ */

struct place {
	char dir[PATH_CAP];  /* becomes the entry */
	char spool[PATH_CAP];
	int out, spool_fd;
};

static void place_free(struct place *p)
{
	close_fd(&p->out);
	close_fd(&p->spool_fd);
	if (p->dir[0])
		path_remove_tree(p->dir, NULL);
	if (p->spool[0])
		path_remove_tree(p->spool, NULL);
}

/* A directory that the provider's user may write to while it runs, and nobody else may enter. */
static int lend_directory(const struct store *s, const char *path, struct edera_error *err)
{
	int fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || fchmod(fd, 0700) < 0 || fchown(fd, s->user, s->group) < 0) {
		int e = -errno;

		close_fd(&fd);
		return err_errno(err, e, "cannot make '%s'", path);
	}
	return fd;
}

static int place_make(const struct store *s, uint32_t format, struct place *p, struct edera_error *err)
{
	char path[PATH_CAP];
	int r = path_format(p->dir, err, "%s/image.XXXXXX", s->work);

	if (!r)
		r = path_format(p->spool, err, "%s/spool.XXXXXX", s->work);
	if (r) {
		p->dir[0] = p->spool[0] = 0;
		return r;
	}
	if (!mkdtemp(p->dir)) {
		p->dir[0] = p->spool[0] = 0;
		return err_errno(err, -errno, "cannot make a directory in '%s'", s->work);
	}
	if (!mkdtemp(p->spool)) {
		p->spool[0] = 0;
		return err_errno(err, -errno, "cannot make a directory in '%s'", s->work);
	}
	p->spool_fd = lend_directory(s, p->spool, err);
	if (p->spool_fd < 0)
		return p->spool_fd;
	if (format == EDERA_IMAGE_DIRECTORY) {
		p->out = lend_directory(s, p->dir, err);
		return p->out < 0 ? p->out : 0;
	}
	r = path_format(path, err, "%s/image", p->dir);
	if (r)
		return r;
	p->out = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	/* mkfs.erofs opens it itself, with the rights of the provider's user. */
	if (p->out < 0 || (format == EDERA_IMAGE_EROFS && fchown(p->out, s->user, s->group) < 0))
		return err_errno(err, -errno, "cannot create '%s'", path);
	return 0;
}

static bool known_file(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(kernel_files); i++)
		if (!strcmp(name, kernel_files[i]))
			return true;
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* One file the provider made becomes root's: it must be regular and have no other name. */
static int take_file(int dir, const char *name, struct edera_error *err)
{
	_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, -errno, "cannot take the file kernel/%s over", name);
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
		return err_set(err, -EBADMSG, "kernel/%s is not a file of its own", name);
	if (fchown(fd, geteuid(), getegid()) < 0 || fchmod(fd, 0644) < 0)
		return err_errno(err, -errno, "cannot take the file kernel/%s over", name);
	return 0;
}

static int take_files(int fd, struct edera_error *err)
{
	_closedir_ DIR *d = fdopendir(fd);
	struct dirent *e;
	int r = 0;

	if (!d) {
		close(fd);
		return err_errno(err, -ENOMEM, "cannot take a kernel image over");
	}
	if (fchown(fd, geteuid(), getegid()) < 0 || fchmod(fd, 0755) < 0)
		return err_errno(err, -errno, "cannot take a kernel image over");
	while (!r && (e = readdir(d))) {
		if (!known_file(e->d_name))
			r = err_set(err, -EBADMSG, "a kernel image holds no file of the name '%.100s'", e->d_name);
		else if (e->d_name[0] != '.')
			r = take_file(fd, e->d_name, err);
	}
	return r;
}

/* What the provider put into the directory it was lent moves to one it never saw. */
static int take_back(const struct store *s, struct place *p, struct edera_error *err)
{
	char fresh[PATH_CAP], to[PATH_CAP], from[PATH_CAP];
	int fd, r = path_format(fresh, err, "%s/image.XXXXXX", s->work);

	/* First out of its reach, then looked at. */
	if (!r && fchown(p->out, geteuid(), getegid()) < 0)
		r = err_errno(err, -errno, "cannot take a kernel image over");
	if (r)
		return r;
	fd = openat(p->out, "kernel", O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_errno(err, -errno, "cannot take a kernel image over");
	r = take_files(fd, err);
	if (!r && !mkdtemp(fresh))
		r = err_errno(err, -errno, "cannot make a directory in '%s'", s->work);
	if (!r)
		r = path_format(from, err, "%s/kernel", p->dir);
	if (!r)
		r = path_format(to, err, "%s/kernel", fresh);
	if (!r && rename(from, to) < 0)
		r = err_errno(err, -errno, "cannot take a kernel image over");
	if (r)
		return r;
	path_remove_tree(p->dir, NULL);
	strcpy(p->dir, fresh);
	return 0;
}

static int write_file(const struct place *p, const char *name, const void *data, size_t n, struct edera_error *err)
{
	char path[PATH_CAP];
	int r = path_format(path, err, "%s/%s", p->dir, name);

	return r ? r : path_write_file(path, data, n, 0644, err);
}

/* The entry gets its name. If one is there (another pull was faster, or this one overwrites) they change places. */
static int publish(struct store *s, struct place *p, uint32_t format, const struct outcome *o, bool overwrite, struct edera_error *err)
{
	char path[PATH_CAP];
	int r = entry_path(s, o->digest, format, path, err);

	if (!r)
		r = write_file(p, "manifest.json", o->manifest.data ? (void *)o->manifest.data : "", o->manifest.len, err);
	if (!r)
		r = write_file(p, "config.json", o->config.data ? (void *)o->config.data : "", o->config.len, err);
	if (!r && o->source_digest[0])
		r = write_file(p, "source", o->source_digest, strlen(o->source_digest), err);
	if (!r && fsync(p->out) < 0)
		r = err_errno(err, -errno, "cannot write '%s'", p->dir);
	if (r)
		return r;
	_close_ int dir = open(p->dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC), images = open(s->images, O_DIRECTORY | O_RDONLY | O_CLOEXEC);

	if (dir < 0 || images < 0 || fchmod(dir, 0755) < 0 || fsync(dir) < 0)
		return err_errno(err, -errno, "cannot write '%s'", p->dir);
	if (renameat2(AT_FDCWD, p->dir, AT_FDCWD, path, RENAME_NOREPLACE) == 0) {
		p->dir[0] = 0;
	} else if (errno != EEXIST && errno != EINVAL) {
		return err_errno(err, -errno, "cannot name the image '%s'", path);
	} else if (overwrite && renameat2(AT_FDCWD, p->dir, AT_FDCWD, path, RENAME_EXCHANGE) < 0) {
		return err_errno(err, -errno, "cannot replace the image '%s'", path);
	} else if (!entry_exists(s, o->digest, format)) {
		/* A file system without these flags: a plain rename, which fails if something is in the way. */
		if (rename(p->dir, path) < 0)
			return err_errno(err, -errno, "cannot name the image '%s'", path);
		p->dir[0] = 0;
	}
	fsync(images);
	return 0;
}

/* --- one run --------------------------------------------------------------------------------------------------------- */

struct have {
	uint32_t format, n;
	char digests[HAVE_MAX][EDERA_DIGEST_MAX];
};

static int collect_have(void *user, const char *digest, uint32_t format)
{
	struct have *h = user;

	if (format == h->format && h->n < HAVE_MAX)
		snprintf(h->digests[h->n++], EDERA_DIGEST_MAX, "%s", digest);
	return 0;
}

static int on_blob_open(void *user, const char *digest, uint64_t size, int *ret_fd)
{
	return keeping_open(&((struct edera_pull_line *)user)->keeping, digest, ret_fd);
}

static int on_blob_new(void *user, const char *digest, uint64_t size, int *ret_fd)
{
	return keeping_new(&((struct edera_pull_line *)user)->keeping, digest, size, ret_fd);
}

static void on_blob_kept(void *user, const char *digest) { keeping_kept(&((struct edera_pull_line *)user)->keeping, digest); }
static void on_blob_bad(void *user, const char *digest) { keeping_bad(&((struct edera_pull_line *)user)->keeping, digest); }

static int run_provider(struct store *s, const struct edera_call *call, struct edera_pull_line *l, struct place *place, struct edera_error *err)
{
	const struct edera_pull *asked = l->asked;
	struct have have = { .format = asked->format };
	const char *mkfs = s->host->conf_str(s->conf, "mkfs-erofs"), *args[10 + 2 * HAVE_MAX];
	char level[16];
	size_t n = 0;
	struct edera_oci_run run = { .size = sizeof run, .args = args, .auth_json = asked->auth_json, .output_fd = place->out,
				     .spool_fd = place->spool_fd, .line = pull_line, .user = l, .blob_open = on_blob_open, .blob_new = on_blob_new,
				     .blob_kept = on_blob_kept, .blob_bad = on_blob_bad,
				     .flags = l->import ? EDERA_OCI_ARCHIVE : 0, .archive_fd = l->archive_fd };

	if (!(asked->flags & EDERA_PULL_OVERWRITE))
		entry_each(s, collect_have, &have, NULL);
	snprintf(level, sizeof level, "%lld", (long long)s->host->conf_int(s->conf, "compression-level"));
	args[n++] = "--format";
	args[n++] = format_name(asked->format);
	args[n++] = "--compression-level";
	args[n++] = level;
	if (*mkfs) {
		args[n++] = "--mkfs-erofs";
		args[n++] = mkfs;
	}
	for (uint32_t i = 0; i < have.n; i++) {
		args[n++] = "--have";
		args[n++] = have.digests[i];
	}
	args[n++] = "pull";
	args[n++] = l->import ? asked->reference : l->shared->name;
	args[n] = NULL;
	return s->host->oci_run(s->host->core, call, &run, err);
}

/* *keep: whether to keep layers, and then whether there were any to keep. A kernel image's directory is lent to the provider: nothing is
 * kept in it. */
static int attempt(struct edera_pull_line *l, const struct edera_call *call, bool *keep, struct edera_error *err)
{
	const struct edera_pull *asked = l->asked;
	struct store *s = l->store;
	_cleanup_(place_free) struct place place = { .out = -1, .spool_fd = -1 };
	struct outcome *o = &l->outcome;
	int r = place_make(s, asked->format, &place, err);

	if (!r && *keep && asked->format != EDERA_IMAGE_DIRECTORY)
		r = keeping_begin(&l->keeping, s, place.dir, err);
	if (!r)
		r = run_provider(s, call, l, &place, err);
	if (!r && !o->there)
		r = err_set(err, -EPROTO, "protect-oci-provider ended without saying what it fetched");
	if (!r && l->import && *l->expected && strcmp(l->expected, o->digest) && strcmp(l->expected, o->source_digest))
		r = err_set(err, -EBADMSG, "the image has the digest %s, not %s", o->digest, l->expected);
	if (!r && !o->cached) {
		if (asked->format == EDERA_IMAGE_DIRECTORY)
			r = take_back(s, &place, err);
		else if (fchown(place.out, geteuid(), getegid()) < 0 || fchmod(place.out, 0644) < 0)
			r = err_errno(err, -errno, "cannot take the image over");
		keeping_publish(&l->keeping);
		if (!r)
			r = publish(s, &place, asked->format, o, asked->flags & EDERA_PULL_OVERWRITE, err);
	}
	if (!r)
		snprintf(l->shared->digest, sizeof l->shared->digest, "%s", o->digest);
	*keep = l->keeping.files > 0;
	return r;
}

static bool no_space(int r) { return r == -ENOSPC || r == -EDQUOT; }

int pull_run(struct edera_pull_line *l, const struct edera_call *call, struct edera_error *err)
{
	struct edera_error first = EDERA_ERROR_INIT;
	struct store *s = l->store;
	bool keep = s->keep && !l->import;
	int r = attempt(l, call, &keep, &first);

	layers_sweep(s); /* of what failed, or was replaced */
	/* Layers are kept where there is room for them. An image that is wanted now comes first. */
	if (no_space(r) && (layers_drop(s) || keep)) {
		s->host->log(s->host->core, EDERA_LOG_WARNING, "no space for an image: the layers that were kept are given up, and it is tried again");
		keep = false;
		first = (struct edera_error)EDERA_ERROR_INIT;
		outcome_free(&l->outcome);
		l->outcome = (struct outcome){ 0 };
		l->keeping = (struct keeping){ 0 };
		r = attempt(l, call, &keep, &first);
	}
	if (no_space(r))
		return err_set(err, r, "%s ('%.300s')", first.msg, s->images);
	if (r && err)
		*err = first;
	return r;
}

static int fetch(struct store *s, const struct edera_call *call, const struct edera_pull *asked, struct pull *shared, struct edera_error *err)
{
	struct edera_pull_line l = { .asked = asked, .store = s, .shared = shared };
	int r = pull_run(&l, call, err);

	outcome_free(&l.outcome);
	return r;
}

/* --- sharing --------------------------------------------------------------------------------------------------------- */

static void release(struct store *s, struct pull *p)
{
	bool last;

	pthread_mutex_lock(&s->lock);
	last = --p->users == 0;
	pthread_mutex_unlock(&s->lock);
	if (last) {
		free(p->layers);
		free(p);
	}
}

/* The pull of the same thing that is in flight, or a new one (*ret_lead). `name` is exact: with the digest where that is given. */
static struct pull *join(struct store *s, const struct edera_pull *asked, const char *name, bool *ret_lead)
{
	struct pull *p;

	pthread_mutex_lock(&s->lock);
	for (p = s->pulls; p; p = p->next)
		if (p->format == asked->format && p->flags == asked->flags && !strcmp(p->name, name))
			break;
	*ret_lead = !p;
	if (!p && (p = calloc(1, sizeof *p))) {
		snprintf(p->name, sizeof p->name, "%s", name);
		p->format = asked->format;
		p->flags = asked->flags;
		p->next = s->pulls;
		s->pulls = p;
	}
	if (p)
		p->users++;
	pthread_mutex_unlock(&s->lock);
	return p;
}

static void finish(struct store *s, struct pull *p, int result, const struct edera_error *err)
{
	pthread_mutex_lock(&s->lock);
	p->done = true;
	p->result = result;
	p->error = *err;
	for (struct pull **at = &s->pulls; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			break;
		}
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static int given_up(const struct edera_call *call, struct edera_error *err)
{
	struct pollfd f = { .fd = call ? call->cancel_fd : -1, .events = POLLIN };

	if (f.fd >= 0 && poll(&f, 1, 0) > 0)
		return err_set(err, -ECANCELED, "the pull was given up");
	if (call && call->deadline_ns && now_ns() >= call->deadline_ns)
		return err_set(err, -ETIMEDOUT, "the pull took longer than allowed");
	return 0;
}

/* Hands the progress of another caller's pull on until it is done. */
static int follow(struct store *s, const struct edera_call *call, const struct edera_pull *asked, struct pull *p, struct edera_error *err)
{
	unsigned seen = 0;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	while (!p->done && !r) {
		if (p->version != seen) {
			struct edera_pull_progress now = p->progress;
			struct edera_pull_layer *copy = now.n_layers ? malloc(now.n_layers * sizeof *copy) : NULL;

			seen = p->version;
			if (copy)
				memcpy(copy, now.layers, now.n_layers * sizeof *copy);
			now.layers = copy;
			now.n_layers = copy ? now.n_layers : 0;
			pthread_mutex_unlock(&s->lock);
			pull_report(asked, &now);
			free(copy);
			pthread_mutex_lock(&s->lock);
			continue;
		}
		int64_t until = now_ns() + 200000000;
		struct timespec ts = { until / 1000000000, until % 1000000000 };

		pthread_cond_timedwait(&s->changed, &s->lock, &ts);
		r = p->done ? 0 : given_up(call, err);
	}
	if (!r) {
		r = p->result;
		if (r && err)
			*err = p->error;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* --- the op ---------------------------------------------------------------------------------------------------------- */

struct by_source {
	const struct store *s;
	const char *digest;
	uint32_t format;
	char found[EDERA_DIGEST_MAX];
};

static int match_source(void *user, const char *digest, uint32_t format)
{
	struct by_source *b = user;
	char source[EDERA_DIGEST_MAX];

	if (format != b->format)
		return 0;
	entry_source(b->s, digest, format, source);
	if (strcmp(digest, b->digest) && strcmp(source, b->digest))
		return 0;
	snprintf(b->found, sizeof b->found, "%s", digest);
	return 1;
}

bool pull_find(const struct store *s, const char *digest, uint32_t format, char ret[EDERA_DIGEST_MAX])
{
	struct by_source b = { .s = s, .format = format, .digest = digest };

	if (entry_each(s, match_source, &b, NULL) != 1)
		return false;
	strcpy(ret, b.found);
	return true;
}

int pull_check_format(uint32_t format, struct edera_error *err)
{
	return format_name(format) ? 0 : err_set(err, -EINVAL, "there is no image format %u", format);
}

/* What is known without asking anybody: a pinned digest, or a name that was pulled before. The tag "latest" is there to move, so
 * its name is not taken for an answer, unless it was given to an image by hand; nor is a place on this machine. */
static bool known(struct store *s, const struct edera_pull *asked, const char *name, char ret[EDERA_DIGEST_MAX])
{
	struct reference ref;
	const char *digest;
	bool found;

	if ((asked->flags & EDERA_PULL_OVERWRITE) || reference_parse(name, &ref, NULL))
		return false;
	if (ref.digest[0])
		return pull_find(s, ref.digest, asked->format, ret);
	if (asked->flags & EDERA_PULL_UPDATE)
		return false;
	pthread_mutex_lock(&s->lock);
	digest = strcmp(ref.tag, "latest") || names_imported(&s->names, name, asked->format) ? names_find(&s->names, name, asked->format) : NULL;
	found = digest && entry_exists(s, digest, asked->format);
	if (found)
		snprintf(ret, EDERA_DIGEST_MAX, "%s", digest);
	pthread_mutex_unlock(&s->lock);
	return found;
}

static bool pinned(const struct edera_pull *asked)
{
	return asked->size >= offsetof(struct edera_pull, digest) + sizeof asked->digest && asked->digest;
}

/* The name, and the name with the digest it stands for where that is given. */
static int both_names(const struct edera_pull *asked, char name[REFERENCE_CAP], char exact[REFERENCE_CAP], struct edera_error *err)
{
	struct reference ref;
	int r = image_name(asked->reference, name, err);

	if (r)
		return r;
	strcpy(exact, name);
	if (!pinned(asked))
		return 0;
	r = reference_parse(name, &ref, err);
	if (!r && !text_valid_digest(asked->digest))
		r = err_set(err, -EINVAL, "'%.150s' is not a digest", asked->digest);
	if (r)
		return r;
	strcpy(ref.digest, asked->digest);
	reference_format(&ref, exact);
	return 0;
}

/* What the image is known by from now on, to each caller of a pull that is shared. */
static int keep_name(struct store *s, const struct edera_pull *asked, const char *name, const char *digest, struct edera_error *err)
{
	int r;

	pthread_mutex_lock(&s->lock);
	r = names_set(&s->names, name, asked->format, digest, err);
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Nobody answers, but the name was pulled before: better that image than none, and the log says so. */
static bool fall_back(struct store *s, const struct edera_pull *asked, const char *name, const struct edera_error *why, char *ret)
{
	char message[EDERA_DIGEST_MAX + REFERENCE_CAP + 600];
	const char *digest;

	if (asked->flags || pinned(asked) || (why->code != -ECONNREFUSED && why->code != -EHOSTUNREACH && why->code != -ENETUNREACH))
		return false;
	pthread_mutex_lock(&s->lock);
	digest = names_find(&s->names, name, asked->format);
	if (digest && !entry_exists(s, digest, asked->format))
		digest = NULL;
	if (digest)
		snprintf(ret, EDERA_DIGEST_MAX, "%s", digest);
	pthread_mutex_unlock(&s->lock);
	if (!digest)
		return false;
	snprintf(message, sizeof message, "%s: taking the cached image %s, because the registry cannot be reached: %s", name, ret, why->msg);
	s->host->log(s->host->core, EDERA_LOG_WARNING, message);
	return true;
}

int store_pull(void *inst, const struct edera_call *call, const struct edera_pull *asked, char *ret_digest, struct edera_error *err)
{
	struct edera_error why = EDERA_ERROR_INIT;
	struct edera_pull_progress complete = { .size = sizeof complete, .phase = 8, .layer_size = sizeof(struct edera_pull_layer) };
	struct store *s = inst;
	char name[REFERENCE_CAP], exact[REFERENCE_CAP];
	int r;

	r = pull_check_format(asked->format, err);
	if (!r)
		r = both_names(asked, name, exact, err);
	if (r)
		return r;
	if (known(s, asked, exact, ret_digest)) {
		pull_report(asked, &complete);
		return strcmp(name, exact) ? keep_name(s, asked, name, ret_digest, err) : 0;
	}
	for (;;) {
		bool lead;
		struct pull *p = join(s, asked, exact, &lead);

		if (!p)
			return err_errno(err, -ENOMEM, "cannot pull '%.300s'", asked->reference);
		why = (struct edera_error)EDERA_ERROR_INIT;
		r = lead ? fetch(s, call, asked, p, &why) : follow(s, call, asked, p, &why);
		if (lead)
			finish(s, p, r, &why);
		if (!r)
			snprintf(ret_digest, EDERA_DIGEST_MAX, "%s", p->digest);
		release(s, p);
		/* Whoever did the work gave up, but we did not. */
		if (lead || (r != -ECANCELED && r != -ETIMEDOUT) || given_up(call, NULL))
			break;
	}
	if (!r)
		r = keep_name(s, asked, name, ret_digest, &why);
	else if (fall_back(s, asked, name, &why, ret_digest))
		r = 0;
	if (r)
		err_set(err, r, "%s", why.msg);
	return r;
}
