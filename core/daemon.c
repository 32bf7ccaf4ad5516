/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon.h"
#include "base/log.h"

#include <stdio.h>

void daemon_degrade(struct daemon *d, const struct plugin_provider *p, const char *what)
{
	char reason[160];

	snprintf(reason, sizeof reason, "%s did not come back in time", what);
	log_error("a plugin call overran its deadline and was abandoned", "plugin", p->plugin, "call", what, NULL);
	plugin_host_degrade(d->plugins, p->plugin, reason);
}
