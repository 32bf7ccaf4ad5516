/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"
#include "interrupt.h"
#include "packer.h"
#include "pull.h"
#include "sandbox.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *error_name(int code)
{
	const char *name = strerrorname_np(-code);

	return name ? name : "EIO";
}

int report_error(const struct options *o, const struct edera_error *err)
{
	_buf_ struct buf shown = BUF_INIT;
	char text[sizeof err->msg];

	snprintf(text, sizeof text, "%s", err->msg);
	text_force_utf8(text);
	text_escape(&shown, text);
	fprintf(stderr, "protect-oci-provider: %s\n", shown.data ? (const char *)shown.data : "");
	if (o->progress == PROGRESS_JSON) {
		json_object *line = json_object_new_object();

		json_object_object_add(line, "type", json_object_new_string("error"));
		json_object_object_add(line, "message", json_object_new_string(text));
		json_object_object_add(line, "errno", json_object_new_string(error_name(err->code)));
		progress_line(line);
	}
	return 1;
}

static json_object *base64(const struct buf *b)
{
	_free_ uint8_t *text = malloc(b->len / 3 * 4 + 5);

	if (!text)
		return NULL;
	EVP_EncodeBlock(text, b->data, (int)b->len);
	return json_object_new_string((char *)text);
}

static json_object *image_line(const char *type, const struct image *i)
{
	json_object *line = json_object_new_object();
	char name[ORIGIN_CAP];

	origin_text(&i->ref, name);
	json_object_object_add(line, "type", json_object_new_string(type));
	json_object_object_add(line, "digest", json_object_new_string(i->digest));
	json_object_object_add(line, "source_digest", json_object_new_string(i->source_digest));
	json_object_object_add(line, "reference", json_object_new_string(name));
	return line;
}

static int check_printed(int e, struct edera_error *err)
{
	errno = 0;
	if (!e && (fflush(stdout) || ferror(stdout)))
		e = errno ? -errno : -EIO;
	return e ? err_errno(err, e, "cannot write to the standard output") : 0;
}

static uint64_t directory_size(int fd)
{
	static const char *const names[] = { "image", "metadata", "addons.squashfs", "config.gz", "early.cpio" };
	uint64_t sum = 0;
	struct stat st;
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof path, "kernel/%s", names[i]);
		if (fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			sum += (uint64_t)st.st_size;
	}
	return sum;
}

static int do_pull(const struct options *o)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct pull p;
	struct stat st;
	int r = pull_run(&p, o, &err);

	if (!r && o->progress == PROGRESS_JSON) {
		json_object *line = image_line("result", &p.image);
		uint64_t bytes = o->format == FORMAT_DIRECTORY ? directory_size(o->output_fd) : fstat(o->output_fd, &st) == 0 ? (uint64_t)st.st_size : 0;

		if (p.image.source->ops->names)
			json_object_object_add(line, "names", json_object_get(p.image.source->ops->names(p.image.source)));
		json_object_object_add(line, "sandbox", json_object_new_string(o->sandbox));
		if (p.cached)
			json_object_object_add(line, "cached", json_object_new_boolean(true));
		json_object_object_add(line, "bytes", json_object_new_int64((int64_t)bytes));
		json_object_object_add(line, "manifest", base64(&p.image.manifest_text));
		json_object_object_add(line, "config", base64(&p.image.config_text));
		r = progress_line(line);
		r = check_printed(p.progress.broken ? p.progress.broken : r, &err);
	}
	pull_free(&p);
	if (interrupt_caught())
		return 128 + interrupt_caught();
	return r ? report_error(o, &err) : p.cached && o->worker ? STATUS_CACHED : 0;
}

static json_object *strings_of(json_object *from)
{
	json_object *to = json_object_new_object();

	if (from) {
		json_object_object_foreach(from, key, value)
			if (json_object_is_type(value, json_type_string))
				json_object_object_add(to, key, json_object_get(value));
	}
	return to;
}

/* For people: one line each, and nothing in it that a terminal would obey. */
static void print_strings(const char *title, json_object *o)
{
	json_object_object_foreach(o, key, value)
	{
		_free_ char *line = NULL;

		if (asprintf(&line, "%s %s=%s", title, key, json_object_get_string(value)) < 0)
			continue;
		text_flatten(line);
		puts(line);
	}
}

static int do_inspect(const struct options *o)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct options quiet = *o;
	struct progress none = { 0 };
	struct image image = { 0 };
	uint64_t size = 0;
	int r;

	quiet.progress = PROGRESS_NONE;
	r = progress_start(&none, &quiet, &err);
	if (!r)
		r = image_resolve(&image, o, &none, &err);
	progress_stop(&none);
	if (!r) {
		json_object *line = image_line("inspect", &image);
		json_object *config = json_member(image.config.root, "config", json_type_object);
		json_object *annotations = strings_of(json_member(image.manifest.root, "annotations", json_type_object));
		json_object *labels = strings_of(config ? json_member(config, "Labels", json_type_object) : NULL);

		for (uint32_t i = 0; i < image.manifest.n_layers; i++)
			size += image.manifest.layers[i].size;
		json_object_object_add(line, "annotations", annotations);
		json_object_object_add(line, "labels", labels);
		json_object_object_add(line, "size", json_object_new_int64((int64_t)size));
		if (o->progress == PROGRESS_JSON) {
			r = progress_line(line);
		} else {
			printf("reference %s\ndigest %s\n", json_text(line, "reference"), image.digest);
			if (image.source_digest[0])
				printf("source-digest %s\n", image.source_digest);
			printf("layers %u\nsize %llu\n", image.manifest.n_layers, (unsigned long long)size);
			print_strings("annotation", annotations);
			print_strings("label", labels);
			json_object_put(line);
		}
		r = check_printed(r, &err);
	}
	image_free(&image);
	return r ? report_error(o, &err) : 0;
}

static int add_tag(void *user, const char *tag)
{
	json_object_array_add(user, json_object_new_string(tag));
	return 0;
}

static int do_tags(const struct options *o)
{
	struct edera_error err = EDERA_ERROR_INIT;
	json_object *tags = json_object_new_array();
	struct source *source = NULL;
	struct origin ref;
	int r = origin_parse_repository(o->reference, &ref, &err);

	if (!r)
		r = source_new(&ref, o, &source, &err);
	if (!r && !source->ops->tags)
		r = err_set(&err, -ENOTSUP, "'%.200s' is not a repository in a registry", o->reference);
	if (!r)
		r = source->ops->tags(source, add_tag, tags, &err);
	if (source)
		source->ops->free(source);
	if (!r && o->progress == PROGRESS_JSON) {
		json_object *line = json_object_new_object();

		json_object_object_add(line, "type", json_object_new_string("tags"));
		json_object_object_add(line, "tags", json_object_get(tags));
		r = check_printed(progress_line(line), &err);
	} else if (!r) {
		for (size_t i = 0; i < json_object_array_length(tags); i++)
			puts(json_object_get_string(json_object_array_get_idx(tags, i)));
		r = check_printed(0, &err);
	}
	json_object_put(tags);
	return r ? report_error(o, &err) : 0;
}

/* Memory for the tree at its largest, and what the rest takes. */
static uint64_t memory_for(const struct options *o) { return (1536ull << 20) + (uint64_t)o->max_entries * 400; }

static int enter_sandbox(struct options *o, char ret[64], struct edera_error *err)
{
	struct sandbox s = { .write_dir = o->verb == VERB_PULL && o->format == FORMAT_DIRECTORY ? o->output_fd : -1, .file_size = o->max_size + (64ull << 30),
			     .memory = memory_for(o), .network = true, .scoped = o->packer };
	const char **next = s.read;
	struct origin origin;
	struct stat st;
	int r = o->verb == VERB_TAGS ? origin_parse_repository(o->reference, &origin, err) : origin_parse(o->reference, &origin, err);

	if (r)
		return r;
	if (o->ca)
		*next++ = o->ca;
	if (o->cert)
		*next++ = o->cert;
	if (o->key)
		*next++ = o->key;
	if (origin.kind != ORIGIN_REGISTRY) {
		if (!origin_is_stream(&origin))
			*next++ = origin.file;
		s.network = false;
	}
	/* The spool file is made now: a file without a name, so that the directory need not be writable later. */
	if (o->spool_fd >= 0 && o->verb == VERB_PULL && (o->format == FORMAT_TAR || o->format == FORMAT_EROFS))
		o->store_fd = openat(o->spool_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (o->spool_fd >= 0 && o->verb == VERB_PULL && origin.kind >= ORIGIN_OCI_ARCHIVE)
		o->unpack_fd = openat(o->spool_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (o->spool_fd >= 0 && fstat(o->spool_fd, &st) == 0 && S_ISDIR(st.st_mode))
		o->spool_fd = openat(o->spool_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return sandbox_enter(&s, ret, err);
}

int worker_main(struct options *o)
{
	struct edera_error err = EDERA_ERROR_INIT;
	char sandbox[64];
	int r = 0;

	if (o->verb == VERB_PULL && o->format == FORMAT_EROFS) {
		r = sandbox_scope(&err);
		if (!r)
			r = packer_start(o, &o->packer, &err);
	}
	if (!r)
		r = enter_sandbox(o, sandbox, &err);
	o->sandbox = sandbox;
	if (r)
		r = report_error(o, &err);
	else
		r = o->verb == VERB_PULL ? do_pull(o) : o->verb == VERB_INSPECT ? do_inspect(o) : do_tags(o);
	packer_free(o->packer);
	return r;
}
