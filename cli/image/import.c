/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/alloc.h"
#include "cli/fdwatch.h"
#include "cli/image/fetch.h"
#include "cli/image/image.h"
#include "cli/interrupt.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#define PIECE (256u << 10)
#define SAY_NS 100000000u

struct args {
	const char *format, *progress, *digest, *name;
	bool overwrite;
};

typedef Protect__Control__V1__ImportImageRequest Request;
typedef Protect__Control__V1__ImportImageReply Reply;

struct import {
	struct cli *cli;
	struct grpc_stream *stream;
	struct fdwatch file;
	bool reading;         /* the watch is open */
	uint8_t *piece;
	const char *title;
	enum progress_mode mode;
	struct progress *progress;
	uint64_t sent, total; /* total 0: not known */
	uint64_t said_at;
	bool answered, sending;
	Reply *last;          /* the one with the image in it */
	uv_timer_t timer;
	int done, timer_open;
	int failed;           /* reading the file */
	enum rpc_status status;
	char *message;
};

/* How much is sent; what happens then, the daemon reports. */
static void say(struct import *i, bool now)
{
	struct buf text _buf_ = BUF_INIT;
	uint64_t at = uv_hrtime();

	if (!now && at - i->said_at < SAY_NS)
		return;
	i->said_at = at;
	if (i->mode == PROGRESS_JSON) {
		buf_printf(&text, "{\"type\":\"upload\",\"current\":%" PRIu64 ",\"total\":%" PRIu64 "}\n", i->sent, i->total);
		cli_print(&text);
	} else if (i->mode == PROGRESS_BARS) {
		buf_puts(&text, "sending ");
		text_size(&text, i->sent);
		if (i->total) {
			buf_puts(&text, " of ");
			text_size(&text, i->total);
		}
		progress_say(i->progress, (const char *)text.data);
	}
}

static void stop_sending(struct import *i)
{
	if (!i->sending)
		return;
	i->sending = false;
	fdwatch_pause(&i->file);
	grpc_stream_half_close(i->stream);
}

static void send_chunk(struct import *i, const uint8_t *data, size_t n, bool last)
{
	Request r = PROTECT__CONTROL__V1__IMPORT_IMAGE_REQUEST__INIT;

	r.chunk = (ProtobufCBinaryData){ n, (uint8_t *)data };
	r.last_chunk = last;
	grpc_stream_send(i->stream, (const ProtobufCMessage *)&r);
	i->sent += n;
	say(i, last);
	if (last)
		stop_sending(i);
	else if (!grpc_stream_writable(i->stream))
		fdwatch_pause(&i->file);
}

static void on_readable(struct fdwatch *w, uint32_t events)
{
	struct import *i = w->user;
	ssize_t n = i->sending && !i->done ? read(w->fd, i->piece, PIECE) : -EAGAIN;

	if (!i->sending || i->done)
		return;
	if (n >= 0) {
		send_chunk(i, i->piece, (size_t)n, n == 0);
	} else if (errno != EINTR && errno != EAGAIN) {
		i->failed = -errno;
		i->sending = false;
		fdwatch_pause(w);
		grpc_stream_cancel(i->stream);
	}
}

static void on_message(struct grpc_stream *s, const ProtobufCMessage *m, void *user)
{
	const Reply *reply = (const void *)m;
	struct import *i = user;

	if (!i->answered && !reply->accepted)
		stop_sending(i); /* it is there, or another client is at it */
	i->answered = true;
	if (reply->progress && !i->sending)
		progress_update(i->progress, reply->progress);
	if (reply->spec && reply->spec->digest && *reply->spec->digest) {
		cli_free_message(&i->last);
		i->last = cli_copy_message(reply);
	}
}

static void on_writable(struct grpc_stream *s, void *user)
{
	struct import *i = user;

	if (i->sending)
		fdwatch_want(&i->file, EPOLLIN);
}

static void on_done(struct grpc_stream *s, enum rpc_status status, const char *message, void *user)
{
	struct import *i = user;

	if (i->sending)
		fdwatch_pause(&i->file);
	i->sending = false;
	i->status = status;
	i->message = need(strdup(message));
	i->done = 1;
}

static void on_timer(uv_timer_t *t) { progress_tick(((struct import *)t->data)->progress); }

static void on_timer_closed(uv_handle_t *h) { ((struct import *)h->data)->timer_open = 0; }

/* Runs the stream to its end; 0, or -EINTR. */
static int follow(struct import *i)
{
	struct cli *cli = i->cli;

	uv_timer_init(&cli->loop, &i->timer);
	i->timer.data = i;
	i->timer_open = 1;
	uv_timer_start(&i->timer, on_timer, 0, 100);
	if (interrupts_or(cli, &i->done) && !i->done) {
		i->sending = false;
		fdwatch_pause(&i->file);
		grpc_stream_cancel(i->stream);
	}
	while (!i->done)
		uv_run(&cli->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&i->timer, on_timer_closed);
	fdwatch_close(&i->file);
	while (i->timer_open || i->file.open)
		uv_run(&cli->loop, UV_RUN_ONCE);
	return cli->interrupted ? -EINTR : 0;
}

static int open_file(const char *name, uint64_t *ret_size, struct edera_error *err)
{
	bool standard = !strcmp(name, "-");
	int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(name, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, -errno, "cannot open '%s'", name);
	if (S_ISDIR(st.st_mode) || isatty(fd)) {
		close(fd);
		return err_set(err, -EINVAL, "'%s' is a %s; an archive is expected, as `docker save` or `skopeo copy ... oci-archive:FILE` write them", name,
			       S_ISDIR(st.st_mode) ? "directory" : "terminal");
	}
	*ret_size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	return fd;
}

static int import(struct import *i, const struct args *a, int fd, struct edera_error *err)
{
	static const struct grpc_stream_ops ops = { .message = on_message, .writable = on_writable, .done = on_done };
	Request first = PROTECT__CONTROL__V1__IMPORT_IMAGE_REQUEST__INIT;
	int r = cli_connect(i->cli, err);

	if (r)
		return r;
	i->stream = grpc_client_open(i->cli->client, cli_service(CONTROL), "ImportImage", 0, &ops, i);
	if (!i->stream)
		return err_set(err, -ENOMEM, "cannot open a call to the daemon");
	first.image = (char *)(a->name ? a->name : "");
	first.digest = (char *)(a->digest ? a->digest : "");
	first.format = image_format(a->format);
	first.overwrite_cache = a->overwrite;
	grpc_stream_send(i->stream, (const ProtobufCMessage *)&first);
	i->sending = true;
	r = fdwatch_open(&i->file, &i->cli->loop, fd, on_readable, i);
	if (r)
		return err_errno(err, r, "cannot read '%s'", i->title);
	fdwatch_want(&i->file, EPOLLIN);
	r = follow(i);
	if (r)
		return err_set(err, r, "interrupted while importing '%s'", i->title);
	if (i->failed)
		return err_errno(err, i->failed, "cannot read '%s'", i->title);
	if (i->status)
		return cli_status_error(err, i->status, "ImportImage", i->message);
	return i->last ? 0 : err_set(err, -EPROTO, "the daemon ended the import of '%s' without naming the image", i->title);
}

/* Without a name it could be mistaken for lost. That it is there matters more than whether this can be found out. */
static void mention_nameless(struct cli *cli, const Protect__Control__V1__OciImageSpec *spec)
{
	Edera__Node__V1__ListImagesReply *reply _message_ = NULL;
	struct list list _list_ = { 0 };

	if (image_collect(cli, &reply, &list, NULL))
		return;
	for (size_t k = 0; k < list.n; k++) {
		const Edera__Node__V1__Image *image = list.rows[k];

		if (!strcmp(image->digest, spec->digest) && image_format(image->format) == spec->format && !image->n_names)
			cli_warn("it has no name; use --name, or launch it by its digest (`protect image prune` removes it unless something uses it)");
	}
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	const struct args *a = args;
	struct import i = { .cli = cli, .title = strcmp(operands->v[0], "-") ? operands->v[0] : "standard input", .mode = image_progress_mode(a->progress) };
	_close_ int fd = open_file(operands->v[0], &i.total, err);
	int r = fd < 0 ? fd : interrupts_catch(cli, err);

	if (r)
		return r;
	i.progress = progress_new(i.mode, i.title);
	i.piece = need(malloc(PIECE));
	r = import(&i, a, fd, err);
	progress_free(i.progress);
	if (!r && i.mode == PROGRESS_JSON)
		image_print_result(i.last->spec, a->name);
	else if (!r)
		cli_puts(i.last->spec->digest);
	if (!r && !a->name)
		mention_nameless(cli, i.last->spec);
	cli_free_message(&i.last);
	free(i.message);
	free(i.piece);
	return r == -EINTR ? CLI_INTERRUPTED : r;
}

static const struct opt options[] = {
	{ "format", 's', OPT_STRING, AT(struct args, format), "FORMAT", "what to make of it", .def = "squashfs", .choices = image_formats, .alias = "image-format" },
	{ "overwrite-cache", 'o', OPT_FLAG, AT(struct args, overwrite), NULL, "pack it again even if the cache has it" },
	{ "digest", 0, OPT_STRING, AT(struct args, digest), "DIGEST", "the digest that it must have, its own or its index's; picks it, if the archive holds several" },
	{ "name", 'n', OPT_STRING, AT(struct args, name), "REF", "what to call it, in place of the name in the archive; picks it, if the archive holds several" },
	{ "progress", 0, OPT_STRING, AT(struct args, progress), "HOW", "how to show progress", .def = "auto", .choices = image_progress_modes },
};

static const struct example examples[] = {
	{ "docker save app:1.2 | protect image import -", NULL },
	{ "skopeo copy docker://alpine:3.20 oci-archive:alpine.tar", NULL },
	{ "protect image import --name alpine:3.20 alpine.tar", NULL },
	{ 0 },
};

const struct command verb_image_import = {
	.name = "import", .summary = "Put an image from an archive into the cache and print its digest",
	.about = "FILE is an archive of an OCI layout, or what `docker save` writes; it may be compressed. - is standard input. Workloads and zones then use the image by the "
		 "name it got, without asking a registry, or by its digest. One without a name, which is then said, is only found by its digest. Progress is shown as by `protect image pull`; with --progress json there are objects of the type "
		 "\"upload\" first.",
	.operands = "FILE|-", .min = 1, .max = 1, .names = NAMES_FILE, OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
