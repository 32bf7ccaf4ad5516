/* SPDX-License-Identifier: Apache-2.0 */
/* What a descriptor promises, checked before anything of the plugin is called. */
#include "plugin/inspect.h"
#include "base/cleanup.h"
#include "conf/conf.h"

#include <edera/hypervisor.h>
#include <edera/image_store.h>
#include <edera/variant_source.h>

#include <string.h>

#define MAX_ITEMS 64 /* of an array of the descriptor; more means that its end is missing */
#define END_OF(type, op) (offsetof(type, op) + sizeof(((type *)0)->op))

/* An op that must be there, always (cap 0) or exactly when the bit is claimed. */
struct op_rule {
	const char *name;
	size_t offset;
	uint64_t cap;
};

struct kind_rule {
	const char *name;
	uint32_t size_1_0; /* of its op table in ABI 1.0 */
	const struct op_rule *ops;
	size_t n_ops;
};

#define HV(op, cap) { #op, offsetof(struct edera_hypervisor_ops, op), cap }
static const struct op_rule hypervisor_ops[] = {
	HV(vm_create, 0), HV(vm_start, 0), HV(vm_stop, 0), HV(vm_destroy, 0), HV(vm_info, 0), HV(vm_list, 0), HV(vm_channel, 0),
	HV(vm_console, EDERA_HV_CONSOLE), HV(disk_attach, EDERA_HV_BLOCK_HOTPLUG), HV(disk_detach, EDERA_HV_BLOCK_HOTPLUG),
};
#define STORE(op) { #op, offsetof(struct edera_image_store_ops, op), 0 }
static const struct op_rule store_ops[] = { STORE(pull), STORE(list), STORE(remove), STORE(file) };
static const struct op_rule source_ops[] = { { "list", offsetof(struct edera_variant_source_ops, list), 0 } };

static const struct kind_rule kinds[] = {
	[EDERA_KIND_HYPERVISOR] = { "hypervisor", END_OF(struct edera_hypervisor_ops, disk_detach), hypervisor_ops, ARRAY_SIZE(hypervisor_ops) },
	[EDERA_KIND_IMAGE_STORE] = { "image-store", END_OF(struct edera_image_store_ops, file), store_ops, ARRAY_SIZE(store_ops) },
	[EDERA_KIND_VARIANT_SOURCE] = { "variant-source", END_OF(struct edera_variant_source_ops, list), source_ops, ARRAY_SIZE(source_ops) },
};

const char *plugin_kind_name(uint32_t kind) { return kind > 0 && kind < ARRAY_SIZE(kinds) ? kinds[kind].name : "unknown"; }

static bool name_valid(const char *name)
{
	size_t n = name ? strlen(name) : 0;

	return n > 0 && n < 64 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static int check_ops(const struct edera_provide *v, struct edera_error *err)
{
	const struct kind_rule *kind = &kinds[v->kind];
	uint32_t size;

	if (!v->ops)
		return err_set(err, -EINVAL, "it provides %s '%s' without an op table", kind->name, v->name);
	memcpy(&size, v->ops, sizeof size);
	if (size < kind->size_1_0)
		return err_set(err, -EINVAL, "the op table of %s '%s' has %u bytes; at least %u are needed", kind->name, v->name, size, kind->size_1_0);
	for (size_t i = 0; i < kind->n_ops; i++) {
		const struct op_rule *rule = &kind->ops[i];
		bool claimed = !rule->cap || (v->caps & rule->cap);
		void *op;

		memcpy(&op, (const char *)v->ops + rule->offset, sizeof op);
		if (claimed && !op)
			return err_set(err, -EINVAL, "%s '%s' %s the op %s and does not have it", kind->name, v->name,
				       rule->cap ? "claims" : "must have", rule->name);
		if (!claimed && op)
			return err_set(err, -EINVAL, "%s '%s' has the op %s without claiming its capability", kind->name, v->name, rule->name);
	}
	return 0;
}

static int check_provides(const struct edera_provide *v, struct edera_error *err)
{
	for (size_t i = 0; v && v[i].kind; i++) {
		int r;

		if (i == MAX_ITEMS)
			return err_set(err, -EINVAL, "its list of what it provides has no end");
		if (v[i].kind >= ARRAY_SIZE(kinds))
			return err_set(err, -EINVAL, "it provides something of kind %u, which this daemon does not know", v[i].kind);
		if (!name_valid(v[i].name))
			return err_set(err, -EINVAL, "it provides a %s under a bad name: expected lower-case letters, digits and '-'", kinds[v[i].kind].name);
		r = check_ops(&v[i], err);
		if (r)
			return r;
	}
	return 0;
}

static int check_needs(const struct edera_require *n, struct edera_error *err)
{
	for (size_t i = 0; n && n[i].kind; i++) {
		if (i == MAX_ITEMS)
			return err_set(err, -EINVAL, "its list of needs has no end");
		if (n[i].kind >= ARRAY_SIZE(kinds) || n[i].soft > 1 || (n[i].name && !name_valid(n[i].name)))
			return err_set(err, -EINVAL, "it needs something of kind %u, which this daemon does not know", n[i].kind);
	}
	return 0;
}

int plugin_check_descriptor(const struct edera_plugin *p, struct edera_error *err)
{
	int r;

	if (!name_valid(p->name))
		return err_set(err, -EINVAL, "its descriptor has a bad name: expected up to 63 lower-case letters, digits and '-'");
	if (!p->version || !p->summary || !p->license)
		return err_set(err, -EINVAL, "its descriptor lacks a version, a summary or a license");
	if (p->flags)
		return err_set(err, -EINVAL, "its descriptor has unknown flags (0x%x)", p->flags);
	if (!p->init)
		return err_set(err, -EINVAL, "its descriptor has no init");
	r = check_provides(p->provides, err);
	if (!r)
		r = check_needs(p->needs, err);
	if (!r)
		r = conf_check_keys(p->conf, err);
	return r;
}
