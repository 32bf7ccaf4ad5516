/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration in libconfuse's syntax: loads, or says what is wrong with it. */
#include "base/cleanup.h"
#include "conf/conf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct edera_conf_key keys[] = {
		{ "name", EDERA_CONF_STRING, 0, "x", "" }, { "n", EDERA_CONF_INT, 0, NULL, "" }, { "on", EDERA_CONF_BOOL, 0, NULL, "" },
		{ "list", EDERA_CONF_LIST, 0, "{\"a\"}", "" }, { 0 },
	};
	static const struct conf_plugin plugin = { "p", keys };
	struct edera_error err = EDERA_ERROR_INIT;
	_conf_ struct conf *c = NULL;
	_free_ char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	if (!conf_load_text(text, false, &plugin, 1, &c, &err))
		edera_conf_free(conf_plugin_section(c, &plugin));
	else if (!err.msg[0])
		abort();
	return 0;
}
