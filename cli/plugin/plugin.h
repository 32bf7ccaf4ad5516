/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PLUGIN_H
#define CLI_PLUGIN_H

#include "cli/cli.h"

extern const struct command verb_plugin_list, verb_plugin_info, verb_plugin_conf, verb_plugin_check;

int plugin_get(struct cli *, const char *name, Edera__Node__V1__GetPluginReply **ret, struct edera_error *);

#endif
