/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/inspect.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

/* Our own ELF header: what a plugin's must agree with. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

int plugin_check_file(const char *path, struct edera_error *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_errno(err, -errno, "cannot look at '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EPERM, "'%s' is %s, not a regular file", path,
			       S_ISLNK(st.st_mode) ? "a symbolic link" : S_ISDIR(st.st_mode) ? "a directory" : "something special");
	return path_check_trusted(path, err);
}

static bool looks_like_text(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] < 0x20 && !strchr("\t\n\r\f", p[i]))
			return false;
	return n > 0;
}

int plugin_check_elf(int fd, const char *name, struct edera_error *err)
{
	ElfW(Ehdr) h;
	ssize_t n = pread(fd, &h, sizeof h, 0);

	if (n < 0)
		return err_errno(err, -errno, "cannot read '%s'", name);
	if (n == 0)
		return err_set(err, -ENOEXEC, "'%s' is empty", name);
	if (n < SELFMAG || memcmp(h.e_ident, ELFMAG, SELFMAG))
		return err_set(err, -ENOEXEC, "'%s' is not a shared object%s", name,
			       looks_like_text((unsigned char *)&h, (size_t)n) ? " but a text file" : ": it has no ELF header");
	if ((size_t)n < sizeof h)
		return err_set(err, -ENOEXEC, "'%s' is cut short: it ends in its ELF header", name);
	if (h.e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS] || h.e_ident[EI_DATA] != __ehdr_start.e_ident[EI_DATA] ||
	    h.e_machine != __ehdr_start.e_machine)
		return err_set(err, -ENOEXEC, "'%s' is for another kind of machine (ELF machine %u; this one is %u)", name, h.e_machine,
			       __ehdr_start.e_machine);
	if (h.e_type != ET_DYN)
		return err_set(err, -ENOEXEC, "'%s' is an ELF file but not a shared object", name);
	return 0;
}

/* The descriptor of ABI 1.0 is the least there can be. */
#define SIZE_1_0 (offsetof(struct edera_plugin, fini) + sizeof(void (*)(void)))

static int read_descriptor(const struct edera_plugin *p, size_t room, const char *name, struct edera_plugin *ret, struct edera_error *err)
{
	if (room < offsetof(struct edera_plugin, name) || p->magic != EDERA_PLUGIN_MAGIC)
		return err_set(err, -ENOEXEC, "'%s': its symbol " EDERA_PLUGIN_SYMBOL " is not a plugin descriptor", name);
	if (p->abi_major != EDERA_ABI_MAJOR)
		return err_set(err, -EPROTONOSUPPORT, "'%s' was built for plugin ABI %u.%u; this daemon has %u.%u: rebuild it", name, p->abi_major,
			       p->abi_minor, EDERA_ABI_MAJOR, EDERA_ABI_MINOR);
	if (p->min_host_minor > EDERA_ABI_MINOR)
		return err_set(err, -EPROTONOSUPPORT, "'%s' needs plugin ABI %u.%u or newer; this daemon has %u.%u", name, p->abi_major,
			       p->min_host_minor, EDERA_ABI_MAJOR, EDERA_ABI_MINOR);
	if (p->size < SIZE_1_0 || p->size > room)
		return err_set(err, -ENOEXEC, "'%s': its descriptor says that it has %u bytes, which cannot be", name, p->size);
	memset(ret, 0, sizeof *ret);
	memcpy(ret, p, p->size < sizeof *ret ? p->size : sizeof *ret);
	return 0;
}

int plugin_open(const char *path, const char *name, struct edera_plugin *ret, struct edera_error *err)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE), *sym;
	const ElfW(Sym) *entry = NULL;
	const char *why;
	Dl_info info;

	if (!handle) {
		why = dlerror();
		return err_set(err, -ELIBBAD, "cannot load '%s': %s", name, why ? why : "no reason given");
	}
	sym = dlsym(handle, EDERA_PLUGIN_SYMBOL);
	if (!sym)
		return err_set(err, -ENOEXEC, "'%s' has no symbol " EDERA_PLUGIN_SYMBOL ": it is not a plugin of protect", name);
	if (!dladdr1(sym, &info, (void **)&entry, RTLD_DL_SYMENT) || !entry || ELF64_ST_TYPE(entry->st_info) != STT_OBJECT)
		return err_set(err, -ENOEXEC, "'%s': its symbol " EDERA_PLUGIN_SYMBOL " is not data", name);
	return read_descriptor(sym, entry->st_size, name, ret, err);
}
