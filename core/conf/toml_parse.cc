// SPDX-License-Identifier: Apache-2.0
#include "conf/toml_parse.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <string_view>
#include <vector>

// Some broken files run into the parser's assertions, which would end the daemon (or, with NDEBUG, be undefined behaviour).
struct parser_lost {};
#undef NDEBUG
#define TOML_ASSERT(condition) \
	do { \
		if (!(condition)) \
			throw parser_lost(); \
	} while (0)
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wterminate" // in functions that only a caller of ours could lead astray
#include <toml++/toml.h>
#pragma GCC diagnostic pop

namespace {

struct found {
	std::vector<std::string> path;
	const toml::node *node;
	toml::source_position where;
};

// toml++ keeps a table sorted by name; the file's order comes back through the positions.
void collect(const toml::table &table, std::vector<std::string> &path, std::vector<found> &all)
{
	for (auto &&[key, node] : table) {
		path.emplace_back(key.str());
		std::replace(path.back().begin(), path.back().end(), '\0', '?'); // a name cut short would be another name
		all.push_back({ path, &node, node.source().begin });
		if (const toml::table *sub = node.as_table())
			collect(*sub, path, all);
		path.pop_back();
	}
}

const char *kind_of(const toml::node &node)
{
	switch (node.type()) {
	case toml::node_type::table: return "a table";
	case toml::node_type::array: return "a list";
	case toml::node_type::string: return "a string";
	case toml::node_type::integer: return "a whole number";
	case toml::node_type::floating_point: return "a floating-point number";
	case toml::node_type::boolean: return "true or false";
	default: return "a date or time";
	}
}

bool has_nul(const std::string &s)
{
	return s.find('\0') != s.npos;
}

// What one value looks like to C; owns what the struct points at.
struct view {
	std::vector<const char *> path, items;
	std::vector<int> lines;
	std::string text;
	toml_value c{};

	explicit view(const found &f)
	{
		for (auto &part : f.path)
			path.push_back(part.c_str());
		c.kind = kind_of(*f.node);
		c.type = TOML_OTHER;
		if (f.node->is_table()) {
			c.type = TOML_TABLE;
		} else if (auto s = f.node->as_string()) {
			text = s->get();
			if (has_nul(text))
				c.kind = "a string with a NUL character";
			else
				c.type = TOML_STRING;
		} else if (auto i = f.node->as_integer()) {
			c.type = TOML_INTEGER;
			text = std::to_string(i->get());
		} else if (auto b = f.node->as_boolean()) {
			c.type = TOML_BOOLEAN;
			text = b->get() ? "true" : "false";
		} else if (auto a = f.node->as_array()) {
			strings(*a);
		}
		c.path = path.data();
		c.depth = path.size();
		c.text = text.c_str();
		c.items = items.data();
		c.item_lines = lines.data();
		c.n_items = items.size();
		c.line = static_cast<int>(f.where.line);
	}

	void strings(const toml::array &array)
	{
		for (auto &&item : array) {
			const auto *s = item.as_string();

			if (!s || has_nul(s->get())) {
				items.clear();
				lines.clear();
				c.kind = "a list of something else than plain strings";
				return;
			}
			items.push_back(s->get().c_str());
			lines.push_back(static_cast<int>(item.source().begin.line));
		}
		c.type = TOML_STRINGS;
	}
};

} // namespace

int toml_parse(const char *text, size_t len, int (*value)(void *user, const toml_value *), void (*failed)(void *user, int line, const char *why),
	       void *user)
try {
	const toml::table table = toml::parse(std::string_view(text, len));
	std::vector<std::string> path;
	std::vector<found> all;

	collect(table, path, all);
	std::stable_sort(all.begin(), all.end(), [](const found &a, const found &b) { return a.where < b.where; });
	for (auto &f : all) {
		view v(f);
		int r = value(user, &v.c);

		if (r)
			return r;
	}
	return 0;
} catch (const toml::parse_error &e) {
	failed(user, static_cast<int>(e.source().begin.line), std::string(e.description()).c_str());
	return -EINVAL;
} catch (const parser_lost &) {
	failed(user, 0, "this is not TOML");
	return -EINVAL;
} catch (const std::bad_alloc &) {
	return -ENOMEM;
}
