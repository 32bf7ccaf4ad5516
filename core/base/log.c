/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/buf.h"
#include "base/cleanup.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int level = EDERA_LOG_INFO;

static const struct { int priority; const char *name; } levels[] = {
	{ EDERA_LOG_ERROR, "error" }, { EDERA_LOG_WARNING, "warning" }, { EDERA_LOG_INFO, "info" }, { EDERA_LOG_DEBUG, "debug" },
};

void log_set_level(int priority) { level = priority; }

int log_level(void) { return level; }

int log_parse_level(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		if (!strcmp(levels[i].name, name))
			return levels[i].priority;
	return -EINVAL;
}

static const char *level_name(int priority)
{
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
		if (levels[i].priority == priority)
			return levels[i].name;
	return "info";
}

static void put_value(struct buf *b, const char *v)
{
	bool plain = *v != 0;

	for (const char *p = v; *p && plain; p++)
		plain = (unsigned char)*p > 0x20 && (unsigned char)*p < 0x7f && *p != '"' && *p != '=' && *p != '\\';
	if (plain) {
		buf_puts(b, v);
		return;
	}
	buf_puts(b, "\"");
	for (const unsigned char *p = (const unsigned char *)v; *p; p++) {
		if (*p == '"' || *p == '\\')
			buf_printf(b, "\\%c", *p);
		else if (*p < 0x20 || *p == 0x7f)
			buf_printf(b, "\\x%02x", *p);
		else
			buf_append(b, p, 1);
	}
	buf_puts(b, "\"");
}

static void head(struct buf *b, int priority, const char *message)
{
	struct timespec ts;
	struct tm tm;
	char when[32];

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
	buf_printf(b, "time=%s.%03ldZ level=%s msg=", when, ts.tv_nsec / 1000000, level_name(priority));
	put_value(b, message);
}

static void emit(struct buf *b)
{
	buf_puts(b, "\n");
	if (!b->failed) {
		ssize_t n = write(STDERR_FILENO, b->data, b->len);
		(void)n; /* nowhere left to report it */
	}
	buf_free(b);
}

void log_fields(int priority, const char *message, ...)
{
	struct buf b = BUF_INIT;
	const char *key, *value;
	va_list ap;

	if (priority > level)
		return;
	head(&b, priority, message);
	va_start(ap, message);
	while ((key = va_arg(ap, const char *))) {
		value = va_arg(ap, const char *);
		buf_printf(&b, " %s=", key);
		put_value(&b, value ? value : "");
	}
	va_end(ap);
	emit(&b);
}

void log_format(int priority, const char *fmt, ...)
{
	struct buf b = BUF_INIT;
	char msg[1024];
	va_list ap;

	if (priority > level)
		return;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	head(&b, priority, msg);
	emit(&b);
}
