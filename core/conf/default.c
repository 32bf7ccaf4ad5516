/* SPDX-License-Identifier: Apache-2.0 */
/* The default daemon.toml, written from the schema: what is set and what is only shown behind a '#' stand side by side. */
#include "conf/conf_impl.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/path.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* What is shipped under [zone.kernel-variants]. Nothing is built in that the file does not show. */
static const char shipped_variants[] =
	"nvidia = \"ghcr.io/edera-dev/zone-nvidiagpu-kernel:6.18-nvidia-610.43.02\"\n";

static const char head[] =
	"# Configuration of protect-daemon. A line that begins with '#' shows a default.\n"
	"# To apply a change: systemctl restart protect-daemon, or, where a section or key says so, systemctl reload protect-daemon.\n"
	"# Without systemd: start it anew, or send it SIGHUP.\n"
	"# To check it first: protect-daemon --check-config\n";

static const char tail[] =
	"\n# A plugin's own keys are in a section [plugin.NAME]. `protect plugin conf NAME` lists them.\n";

static void comment(struct buf *b, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		buf_printf(b, "# %.*s\n", (int)n, text);
		text += n + (text[n] == '\n');
	}
}

static int print_key(struct buf *b, const struct def *d)
{
	struct value v = { .spec = spec_of_def(d) };
	int r = value_set_default(&v, NULL);

	comment(b, d->doc);
	buf_printf(b, "%s%s = ", d->flags & DEF_SHOWN ? "" : "# ", d->name);
	if (!r)
		value_print(&v, b);
	buf_puts(b, "\n");
	value_free(&v);
	return r;
}

int conf_print_default(struct buf *b)
{
	buf_puts(b, head);
	for (const struct section *s = schema_sections; s->name; s++) {
		if (!s->doc)
			continue;
		buf_puts(b, "\n");
		comment(b, s->doc);
		buf_printf(b, "[%s]\n", s->name);
		if (s->flags & SECTION_FREE)
			buf_puts(b, shipped_variants);
		for (const struct def *d = schema_defs; d->name; d++)
			if (!strcmp(d->section, s->name) && !(d->flags & DEF_UNSUPPORTED) && print_key(b, d))
				return -ENOMEM;
	}
	buf_puts(b, tail);
	return b->failed ? -ENOMEM : 0;
}

int conf_write_default(const char *path, struct edera_error *err)
{
	_buf_ struct buf b = BUF_INIT;

	if (access(path, F_OK) == 0)
		return err_set(err, -EEXIST, "cannot write the default configuration: '%s' is there already", path);
	if (conf_print_default(&b))
		return err_errno(err, -ENOMEM, "cannot write the default configuration to '%s'", path);
	return path_write_file(path, b.data, b.len, 0644, err);
}
