/* SPDX-License-Identifier: Apache-2.0 */
/* logfmt on stderr: time, level, message, then the fields given. Thread-safe, one write per line. Values are escaped, so guest
 * bytes may be passed. Library code never logs: whoever handles the request does. Fields are key, value pairs ended by NULL:
 *   log_info("zone ready", "zone", id, NULL);   log_error(err.msg, "plugin", name, NULL); */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <edera/plugin.h>

void log_set_level(int priority); /* enum edera_priority; default EDERA_LOG_INFO */
int log_level(void);
int log_parse_level(const char *name); /* "error" | "warning" | "info" | "debug"; -EINVAL otherwise */
void log_fields(int priority, const char *message, ...) __attribute__((sentinel));
void log_format(int priority, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_fields(EDERA_LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_fields(EDERA_LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_fields(EDERA_LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_fields(EDERA_LOG_DEBUG, __VA_ARGS__)

#endif
