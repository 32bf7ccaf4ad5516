/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zone/zone.h"
#include "cli/pump.h"
#include "cli/workload/workload.h"

#include <unistd.h>

struct args {
	const char *output;
	bool workloads;
};

/* One event as {"event": {"type": "zone.changed"}, "zone": {...}}; as a line, the type and then what a list says. */
static void print_event(enum format format, const char *type, const char *key, const struct list_view *view, const void *object, struct buf *out)
{
	struct json_object *o, *event;

	if (format == FORMAT_SIMPLE) {
		buf_printf(out, "%s\t", type);
		format_object(out, format, view, object);
		return;
	}
	o = json_object_new_object();
	event = json_object_new_object();
	json_object_object_add(event, "type", json_object_new_string(type));
	json_object_object_add(o, "event", event);
	json_object_object_add(o, key, format_message(object));
	format_document(out, format, o);
	json_object_put(o);
}

static void on_reply(struct pump *pump, const ProtobufCMessage *m, void *user)
{
	const Protect__Control__V1__WatchEventsReply *e = (const void *)m;
	const struct args *a = user;
	enum format format = format_parse(a->output);
	struct buf out _buf_ = BUF_INIT;

	if (e->event_case == PROTECT__CONTROL__V1__WATCH_EVENTS_REPLY__EVENT_ZONE_CHANGED && e->zone_changed->zone)
		print_event(format, "zone.changed", "zone", &zone_view, e->zone_changed->zone, &out);
	else if (a->workloads && e->event_case == PROTECT__CONTROL__V1__WATCH_EVENTS_REPLY__EVENT_WORKLOAD_CHANGED && e->workload_changed->workload)
		print_event(format, "workload.changed", "workload", &workload_view, e->workload_changed->workload, &out);
	pump_output(pump, STDOUT_FILENO, out.data, out.len);
}

static int run(struct cli *cli, const void *args, const struct strings *operands, struct edera_error *err)
{
	Protect__Control__V1__WatchEventsRequest request = PROTECT__CONTROL__V1__WATCH_EVENTS_REQUEST__INIT;
	struct pump_spec spec = { .service = CONTROL, .method = "WatchEvents", .first = &request, .reply = on_reply, .user = (void *)args };
	struct pump_result result;

	return pump_whole(cli, &spec, &result, err);
}

static const char *const formats[] = { "simple", "json", "json-pretty", "jsonl", "key-value", NULL };

static const struct opt options[] = {
	{ "output", 'o', OPT_STRING, AT(struct args, output), "FORMAT", "how to print", .def = "simple", .choices = formats, .alias = "format", .alias_letter = 'f' },
	{ "workloads", 0, OPT_FLAG, AT(struct args, workloads), NULL, "also what happens to workloads" },
};

static const struct example examples[] = {
	{ "protect zone watch", NULL },
	{ "protect zone watch --output jsonl | jq -r '.zone.status.state'", NULL },
	{ 0 },
};

const struct command verb_zone_watch = {
	.name = "watch", .summary = "Print what happens to zones, as it happens",
	.about = "As a line: the kind of event, then id, state, name, IPv4 and IPv6 address of the zone, with tabs between them. Ends when interrupted.",
	OPTIONS(options), .args_size = sizeof(struct args), .run = run, .examples = examples,
};
