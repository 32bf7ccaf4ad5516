/* SPDX-License-Identifier: Apache-2.0 */
/* Without libFuzzer a fuzz target is run on every file of the directories given; without any, on its own corpus in the source tree
 * that the environment's srcdir names. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_dir(const char *dir)
{
	_closedir_ DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d))) {
		struct edera_error err = EDERA_ERROR_INIT;
		_buf_ struct buf b = BUF_INIT;
		char path[PATH_CAP];

		if (e->d_name[0] == '.' || path_format(path, NULL, "%s/%s", dir, e->d_name))
			continue;
		if (path_read_file(path, 16 << 20, &b, &err)) {
			fprintf(stderr, "%s\n", err.msg);
			return -1;
		}
		LLVMFuzzerTestOneInput(b.data ? b.data : (const uint8_t *)"", b.len);
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	const char *srcdir = getenv("srcdir"), *name = strrchr(argv[0], '/');
	char own[PATH_CAP], *list[] = { argv[0], own };
	int total = 0;

	name = name ? name + 1 : argv[0];
	if (argc == 1 && text_starts(name, "fuzz_")) {
		path_format(own, NULL, "%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", name + strlen("fuzz_"));
		argv = list;
		argc = 2;
	}
	for (int i = 1; i < argc; i++) {
		int n = replay_dir(argv[i]);

		if (n <= 0) {
			fprintf(stderr, "%s: nothing to replay\n", argv[i]);
			return 1;
		}
		total += n;
	}
	printf("%d inputs replayed\n", total);
	return 0;
}
