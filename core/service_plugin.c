/* SPDX-License-Identifier: Apache-2.0 */
#include "service_job.h"
#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>

#define NODE(name) Edera__Node__V1__##name

static const struct { uint64_t bit; const char *name; } hypervisor_caps[] = {
	{ EDERA_HV_BLOCK_HOTPLUG, "block-hotplug" }, { EDERA_HV_CONSOLE, "console" }, { EDERA_HV_ADOPT, "adopt" }, { EDERA_HV_PV_ONLY, "pv-only" },
	{ EDERA_HV_OWN_KERNEL, "own-kernel" }, { EDERA_HV_PAUSE, "pause" }, { EDERA_HV_NET_HOTPLUG, "net-hotplug" }, { EDERA_HV_FS_SHARE, "fs-share" },
	{ EDERA_HV_MEM_HOTPLUG, "mem-hotplug" }, { EDERA_HV_VCPU_HOTPLUG, "vcpu-hotplug" }, { EDERA_HV_SNAPSHOT, "snapshot" }, { EDERA_HV_VSOCK, "vsock" },
};

static NODE(Plugin) *make_plugin(const struct plugin_info *i)
{
	NODE(Plugin) *p = pb_xcalloc(1, sizeof *p);
	const struct edera_provide *v = i->descriptor ? i->descriptor->provides : NULL;
	char text[1024];
	size_t n = 0;

	edera__node__v1__plugin__init(p);
	p->name = service_copy(i->name);
	p->version = service_copy(i->version);
	p->summary = service_copy(i->summary);
	p->license = service_copy(i->license);
	p->path = service_copy(i->path);
	p->state = (NODE(PluginState))i->state;
	snprintf(text, sizeof text, "%s%s%s", i->reason, *i->reason && i->replaced ? "; " : "", i->replaced ? "the file has been replaced since: restart the daemon to use the new one" : "");
	p->reason = service_copy(text);
	snprintf(text, sizeof text, "%u.%u", i->abi_major, i->abi_minor);
	p->abi = service_copy(i->abi_major ? text : "");
	for (const struct edera_provide *c = v; c && c->kind; c++)
		n++;
	p->kinds = pb_xcalloc(n + 1, sizeof *p->kinds);
	for (; v && v->kind; v++)
		p->kinds[p->n_kinds++] = service_copy(plugin_kind_name(v->kind));
	return p;
}

void service_list_plugins(struct grpc_call *call, const ProtobufCMessage *m)
{
	struct daemon *d = SERVICE_DAEMON(call);
	NODE(ListPluginsReply) *reply = pb_xcalloc(1, sizeof *reply);
	size_t n = plugin_host_count(d->plugins);

	(void)m;
	edera__node__v1__list_plugins_reply__init(reply);
	reply->plugins = pb_xcalloc(n + 1, sizeof *reply->plugins);
	for (size_t i = 0; i < n; i++) {
		struct plugin_info info;

		plugin_host_info(d->plugins, i, &info);
		reply->plugins[reply->n_plugins++] = make_plugin(&info);
	}
	grpc_call_reply(call, &reply->base);
	pb_free(reply);
}

static void add_capabilities(NODE(PluginProvide) *o, const struct edera_provide *v)
{
	o->capabilities = pb_xcalloc(ARRAY_SIZE(hypervisor_caps) + 1, sizeof *o->capabilities);
	for (size_t i = 0; v->kind == EDERA_KIND_HYPERVISOR && i < ARRAY_SIZE(hypervisor_caps); i++)
		if (v->caps & hypervisor_caps[i].bit)
			o->capabilities[o->n_capabilities++] = service_copy(hypervisor_caps[i].name);
}

static void add_provides(NODE(GetPluginReply) *reply, const struct edera_plugin *p)
{
	size_t n = 0;

	for (const struct edera_provide *v = p->provides; v && v->kind; v++)
		n++;
	reply->provides = pb_xcalloc(n + 1, sizeof *reply->provides);
	for (const struct edera_provide *v = p->provides; v && v->kind; v++) {
		NODE(PluginProvide) *o = reply->provides[reply->n_provides++] = pb_xcalloc(1, sizeof *o);

		edera__node__v1__plugin_provide__init(o);
		o->kind = service_copy(plugin_kind_name(v->kind));
		o->name = service_copy(v->name);
		add_capabilities(o, v);
	}
}

static void add_needs(NODE(GetPluginReply) *reply, const struct edera_plugin *p)
{
	size_t n = 0;

	for (const struct edera_require *v = p->needs; v && v->kind; v++)
		n++;
	reply->needs = pb_xcalloc(n + 1, sizeof *reply->needs);
	for (const struct edera_require *v = p->needs; v && v->kind; v++) {
		char text[256];

		snprintf(text, sizeof text, "%s %s%s", plugin_kind_name(v->kind), v->name ? v->name : "(any)", v->soft ? " (optional)" : "");
		reply->needs[reply->n_needs++] = service_copy(text);
	}
}

static void add_conf(NODE(GetPluginReply) *reply, const struct plugin_info *info)
{
	static const char *const types[] = { "", "string", "int", "bool", "list" };
	size_t n = 0;

	for (const struct edera_conf_key *k = info->descriptor->conf; k && k->name; k++)
		n++;
	reply->conf = pb_xcalloc(n + 1, sizeof *reply->conf);
	for (const struct edera_conf_key *k = info->descriptor->conf; k && k->name; k++) {
		NODE(PluginConfKey) *o = reply->conf[reply->n_conf++] = pb_xcalloc(1, sizeof *o);
		_buf_ struct buf value = BUF_INIT;
		_buf_ struct buf def = BUF_INIT;

		edera__node__v1__plugin_conf_key__init(o);
		o->name = service_copy(k->name);
		o->type = service_copy(k->type < ARRAY_SIZE(types) ? types[k->type] : "");
		o->doc = service_copy(k->doc);
		if (!info->conf)
			continue;
		edera_conf_print(info->conf, k->name, &value, &def);
		o->value = service_copy((char *)value.data);
		o->default_ = service_copy((char *)def.data);
	}
}

void service_get_plugin(struct grpc_call *call, const ProtobufCMessage *m)
{
	const char *name = ((const NODE(GetPluginRequest) *)m)->name;
	struct daemon *d = SERVICE_DAEMON(call);
	struct edera_error err = EDERA_ERROR_INIT;

	for (size_t i = 0; i < plugin_host_count(d->plugins); i++) {
		NODE(GetPluginReply) *reply;
		struct plugin_info info;

		plugin_host_info(d->plugins, i, &info);
		if (strcmp(info.name, name))
			continue;
		reply = pb_xcalloc(1, sizeof *reply);
		edera__node__v1__get_plugin_reply__init(reply);
		reply->plugin = make_plugin(&info);
		if (info.descriptor) {
			add_provides(reply, info.descriptor);
			add_needs(reply, info.descriptor);
			add_conf(reply, &info);
		}
		grpc_call_reply(call, &reply->base);
		pb_free(reply);
		return;
	}
	err_set(&err, -ENOENT, "there is no plugin '%.100s'; `protect plugin list` shows what there is", name);
	grpc_call_finish_error(call, &err);
}
