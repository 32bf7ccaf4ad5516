/* SPDX-License-Identifier: Apache-2.0 */
/* Running the provider: what it is given, and that nothing it does (hang, flood, crash, lie) harms who runs it. Small scripts stand in
 * its place, because the real one does none of that on demand. */
#include <CUnit/Basic.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "oci.h"
#include "oci_certs.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>

static char dir[] = "/tmp/test-oci-run.XXXXXX";
static struct conf *conf;
static struct buf lines = BUF_INIT;

static void on_line(void *user, const char *json, size_t len)
{
	(void)user;
	CU_ASSERT_EQUAL(strlen(json), len);
	buf_printf(&lines, "%s|", json);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int run_with(const char *script, const struct edera_call *call, struct edera_oci_run *run, struct edera_error *err)
{
	char path[PATH_CAP], text[4000];

	snprintf(path, sizeof path, "%s/provider", dir);
	snprintf(text, sizeof text, "#!/bin/bash\n%s\n", script);
	path_write_file(path, text, strlen(text), 0755, NULL);
	setenv("PROTECT_OCI_PROVIDER", path, 1);
	buf_clear(&lines);
	run->size = sizeof *run;
	run->line = on_line;
	*err = (struct edera_error)EDERA_ERROR_INIT;
	return oci_run(conf, dir, call, run, err);
}

static int run(const char *script, struct edera_error *err)
{
	const char *args[] = { "inspect", "reg.example/x:1", NULL };
	struct edera_oci_run r = { .args = args, .output_fd = -1, .spool_fd = -1 };

	return run_with(script, NULL, &r, err);
}

static bool heard(const char *text) { return lines.data && strstr((char *)lines.data, text); }

static void what_it_is_given(void)
{
	const char *args[] = { "pull", "--format", "squashfs", "reg.example/x:1", NULL };
	struct edera_oci_run r = { .args = args, .output_fd = -1, .spool_fd = -1,
				   .auth_json = "{\"auths\":{\"reg.example\":{\"auth\":\"eA==\"},\"other.example\":{\"auth\":\"eQ==\"}}}" };
	struct edera_error err;
	_close_ int spool = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	r.spool_fd = spool;
	CU_ASSERT_EQUAL(run_with("echo \"args: $*\"; cat <&3; echo; ls /proc/self/fd | tr '\\n' ' '; echo; readlink /proc/$$/fd/4; env | cut -d= -f1 | tr '\\n' ' '",
				 NULL, &r, &err), 0);
	CU_ASSERT(heard("args: --progress json --docker-hub-mirror index.docker.io --insecure-registry 127.0.0.1:5000 --ca /etc/ca.pem "
			"--max-size 1048576 --max-entries 77 --timeout 9 --auth-fd 3 --spool-fd 4 pull --format squashfs reg.example/x:1|"));
	CU_ASSERT(heard("|{\"auths\":{\"reg.example\":{\"auth\":\"eA==\"}}}|"));
	CU_ASSERT(heard("|0 1 2 3 4 ")); /* ls has one more of its own */
	CU_ASSERT_FALSE(heard("PROTECT_OCI_PROVIDER"));
	CU_ASSERT(heard(dir));
	if (!heard("args: --progress"))
		printf("\n%s\n%s\n", lines.data ? (char *)lines.data : "", err.msg);
}

static void put(const char *name, const char *text)
{
	char path[PATH_CAP];

	snprintf(path, sizeof path, "%s/certs.d/%s", dir, name);
	CU_ASSERT_EQUAL(path_write_file(path, text, strlen(text), 0600, NULL), 0);
}

static void put_away(const char *name)
{
	char path[PATH_CAP];

	snprintf(path, sizeof path, "%s/certs.d/%s", dir, name);
	CU_ASSERT_EQUAL(path_remove_tree(path, NULL), 0);
}

static void refused_certs(int code, const char *name, const char *why)
{
	struct edera_error err;

	CU_ASSERT_EQUAL(run("echo started", &err), code);
	CU_ASSERT_FALSE(heard("started"));
	CU_ASSERT(strstr(err.msg, "/certs.d/reg.example") && strstr(err.msg, name) && strstr(err.msg, why));
	if (!strstr(err.msg, why))
		printf("\n%s\n", err.msg);
}

static void certificates(void)
{
	static const char bytes[] = "-----BEGIN X", hand[] = "echo \"args: $*\"; for n in 3 4 5; do tr '\\n' ' ' <&$n; echo; echo x >&$n; cat <&$n; done 2>/dev/null";
	char path[PATH_CAP], *large = calloc(1, (1 << 20) + 2);
	struct edera_error err;

	CU_ASSERT_PTR_NOT_NULL_FATAL(large);
	memset(large, 'x', (1 << 20) + 1);
	snprintf(path, sizeof path, "%s/certs.d/reg.example", dir);
	CU_ASSERT_EQUAL(path_mkdirs(path, 0755, NULL), 0);
	put("reg.example/README", "of no interest");
	CU_ASSERT_EQUAL(run("echo \"args: $*\"", &err), 0);
	CU_ASSERT(heard("args: ") && !heard("-fd"));
	put("reg.example/b.cert", "-----BEGIN B");
	refused_certs(-ENOENT, "/b.cert'", "no 'b.key'");
	put("reg.example/b.key", "-----BEGIN BKEY");
	put("reg.example/a.key", "-----BEGIN AKEY");
	refused_certs(-ENOENT, "/a.key'", "no 'a.cert'");
	put("reg.example/a.cert", "-----BEGIN A");
	put("reg.example/one.crt", "-----BEGIN ONE");
	CU_ASSERT_EQUAL(run(hand, &err), 0);
	CU_ASSERT(heard("--ca-fd 3 --cert-fd 4 --key-fd 5 inspect reg.example/x:1|-----BEGIN ONE |-----BEGIN A |-----BEGIN AKEY |"));
	CU_ASSERT_FALSE(heard("|x|"));
	put("reg.example/two.crt", "nothing");
	refused_certs(-EINVAL, "/two.crt'", "PEM");
	put("reg.example/two.crt", large);
	refused_certs(-EFBIG, "/two.crt'", "1048576");
	put_away("reg.example/two.crt");
	snprintf(path, sizeof path, "%s/certs.d/reg.example/two.crt", dir);
	CU_ASSERT_EQUAL(mkfifo(path, 0600), 0);
	refused_certs(-EINVAL, "/two.crt'", "not a regular file");
	put_away("reg.example/two.crt");
	put("reg.example/two.crt", bytes);
	if (geteuid()) {
		CU_ASSERT_EQUAL(chmod(path, 0), 0);
		refused_certs(-EACCES, "/two.crt'", "Permission denied");
	}
	put_away("reg.example");
	put("reg.example", "a file");
	refused_certs(-ENOTDIR, "reg.example'", "Not a directory");
	put_away("reg.example");
	free(large);
}

/* Whoever asks for an image chooses the registry's name, and with it where certificates are looked for. */
static void certificates_of_whom(void)
{
	static const char *const names[] = { "..", "../x", ".", "", "a/b", "/etc", ".hidden" };
	struct oci_certs c = { -1, -1, -1 };
	struct edera_error err = EDERA_ERROR_INIT;
	char root[PATH_CAP], path[PATH_CAP];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CU_ASSERT_EQUAL(oci_certs_open(dir, names[i], &c, &err), -EINVAL);
	CU_ASSERT_EQUAL(oci_certs_open("", "reg.example", &c, &err), 0);
	snprintf(root, sizeof root, "%s/certs.d", dir);
	CU_ASSERT_EQUAL_FATAL(path_format(path, NULL, "%s/[::1]:5000", root), 0);
	CU_ASSERT_EQUAL(path_mkdirs(path, 0755, NULL), 0);
	put("[::1]:5000/ca.crt", "-----BEGIN X");
	CU_ASSERT_EQUAL(oci_certs_open(root, "[::1]:5001", &c, &err), 0);
	CU_ASSERT_EQUAL(c.ca_fd, -1);
	CU_ASSERT_EQUAL(oci_certs_open(root, "[::1]:5000", &c, &err), 0);
	CU_ASSERT(c.ca_fd >= 0 && c.cert_fd < 0 && c.key_fd < 0);
	oci_certs_close(&c);
}

static void errors(void)
{
	struct edera_error err;

	CU_ASSERT_EQUAL(run("echo '{\"type\":\"progress\"}'; echo '{\"type\":\"error\",\"message\":\"no such tag\",\"errno\":\"ENOENT\"}'; exit 1", &err), -ENOENT);
	CU_ASSERT_STRING_EQUAL(err.msg, "no such tag");
	CU_ASSERT_EQUAL(run("echo '{\"type\":\"error\",\"message\":\"odd\",\"errno\":\"EWHATEVER\"}'; exit 1", &err), -EIO);
	CU_ASSERT_EQUAL(run("printf '{\"type\":\"error\",\"message\":\"unended\",\"errno\":\"EACCES\"}'; exit 1", &err), -EACCES);
	CU_ASSERT_EQUAL(run("echo first >&2; echo 'protect-oci-provider: the last word' >&2; echo >&2; exit 3", &err), -EIO);
	CU_ASSERT_STRING_EQUAL(err.msg, "the last word");
	CU_ASSERT_EQUAL(run("exit 3", &err), -EIO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "ended with status 3 and said nothing"));
	CU_ASSERT_EQUAL(run("kill -SEGV $$", &err), -EIO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "signal 11"));
	/* Only the end tells: an error line before success is no error. */
	CU_ASSERT_EQUAL(run("echo '{\"type\":\"error\",\"message\":\"retried\",\"errno\":\"EIO\"}'; exit 0", &err), 0);
}

static void hostile_output(void)
{
	struct edera_error err;
	int64_t start;

	CU_ASSERT_EQUAL(run("printf 'a\\xff\\nok\\n\\n'", &err), 0);
	CU_ASSERT_STRING_EQUAL((char *)lines.data, "ok|");
	start = now_ms();
	CU_ASSERT_EQUAL(run("yes | tr -d '\\n'", &err), -EBADMSG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "more than the 16 MiB allowed"));
	CU_ASSERT(now_ms() - start < 20000);
	CU_ASSERT_EQUAL(run("head -c 100000 /dev/zero | tr '\\0' x >&2; printf '\\xff\\n\\033[31mred\\n' >&2; exit 1", &err), -EIO);
	CU_ASSERT_STRING_EQUAL(err.msg, " [31mred");
	CU_ASSERT_EQUAL(run("echo '{\"type\":\"error\",\"message\":{\"a\":[[[[[[[[[[1]]]]]]]]]]}}'; exit 1", &err), -EIO);
}

static void deadlines(void)
{
	const char *args[] = { "tags", "reg.example/x", NULL };
	struct edera_oci_run r = { .args = args, .output_fd = -1, .spool_fd = -1 };
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1, .deadline_ns = (now_ms() + 200) * 1000000 };
	struct edera_error err;
	int64_t start = now_ms();

	CU_ASSERT_EQUAL(run_with("sleep 100", &call, &r, &err), -ETIMEDOUT);
	CU_ASSERT(now_ms() - start < 5000);
	/* One that closed its output and stays. */
	call.deadline_ns = (now_ms() + 200) * 1000000;
	CU_ASSERT_EQUAL(run_with("exec >&- 2>&-; sleep 100", &call, &r, &err), -ETIMEDOUT);
	/* One that left a child behind with its output. */
	call.deadline_ns = (now_ms() + 300) * 1000000;
	CU_ASSERT(run_with("sleep 100 & exit 0", &call, &r, &err) < 0);
	call.deadline_ns = 0;
	call.cancel_fd = eventfd(1, EFD_CLOEXEC);
	CU_ASSERT_EQUAL(run_with("sleep 100", &call, &r, &err), -ECANCELED);
	close(call.cancel_fd);
	CU_ASSERT(now_ms() - start < 10000);
}

static void bad_requests(void)
{
	const char *none[] = { NULL }, *odd[] = { "inspect", "Not A Ref", NULL }, *layout[] = { "inspect", "oci:/srv/x:tag", NULL };
	struct edera_oci_run r = { .args = none, .output_fd = -1, .spool_fd = -1 };
	struct edera_error err;

	CU_ASSERT_EQUAL(run_with("exit 0", NULL, &r, &err), -EINVAL);
	r.args = odd;
	CU_ASSERT_EQUAL(run_with("exit 0", NULL, &r, &err), -EINVAL);
	r.args = layout;
	CU_ASSERT_EQUAL(run_with("exit 0", NULL, &r, &err), 0);
	setenv("PROTECT_OCI_PROVIDER", "/nonexistent/provider", 1);
	CU_ASSERT_EQUAL(oci_run(conf, dir, NULL, &r, &err), -ENOENT);
}

/* --- blobs ---------------------------------------------------------------------------------------------------------- */

#define DIGEST "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define OTHER "sha256:2222222222222222222222222222222222222222222222222222222222222222"

/* What a worker does with the socket (descriptor 4, after the output): ask() returns the answer's status and perhaps a descriptor. */
#define WORKER \
	"exec python3 - \"$@\" <<'END'\nimport os, socket, struct, sys, time\n" \
	"s = socket.socket(fileno=4)\nDIGEST, OTHER = 'sha256:' + '1' * 64, 'sha256:' + '2' * 64\n" \
	"def send(verb, digest, size=4): s.send(struct.pack('<IIQ136s', verb, 0, size, digest.encode()))\n" \
	"def answer():\n" \
	"    data, fds, flags, _ = socket.recv_fds(s, 100, 8)\n" \
	"    return (struct.unpack('<i', data)[0], fds) if data else ('over', [])\n" \
	"def ask(verb, digest=DIGEST, size=4): send(verb, digest, size); return answer()\n"
#define END "\nEND\n"

static struct {
	unsigned opened, made, kept, bad;
	char digest[200];
} blobs;

static int blob_file(const char *name, int flags, int *ret_fd)
{
	char path[PATH_CAP];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	*ret_fd = open(path, flags | O_CLOEXEC, 0600);
	return *ret_fd < 0 ? -errno : 0;
}

static int blob_open(void *user, const char *digest, uint64_t size, int *ret_fd)
{
	blobs.opened++;
	snprintf(blobs.digest, sizeof blobs.digest, "%s", digest);
	return strcmp(digest, DIGEST) ? -ENOENT : blob_file("blob", O_RDONLY, ret_fd);
}

static int blob_new(void *user, const char *digest, uint64_t size, int *ret_fd)
{
	blobs.made++;
	return strcmp(digest, OTHER) ? -ENOENT : blob_file("new", O_WRONLY | O_CREAT | O_TRUNC, ret_fd);
}

static void blob_kept(void *user, const char *digest) { blobs.kept += !strcmp(digest, OTHER); }
static void blob_bad(void *user, const char *digest) { blobs.bad += !strcmp(digest, DIGEST); }

static int run_worker(const char *reference, const char *script, struct edera_error *err)
{
	const char *args[] = { "pull", reference, NULL };
	struct edera_oci_run r = { .args = args, .spool_fd = -1, .blob_open = blob_open, .blob_new = blob_new, .blob_kept = blob_kept, .blob_bad = blob_bad };
	struct edera_call call = { .size = sizeof call, .cancel_fd = -1, .deadline_ns = (now_ms() + 30000) * 1000000 };
	_close_ int out = open("/dev/null", O_RDWR | O_CLOEXEC);
	char path[PATH_CAP];

	snprintf(path, sizeof path, "%s/blob", dir);
	CU_ASSERT_EQUAL(path_write_file(path, "blob", 4, 0600, NULL), 0);
	memset(&blobs, 0, sizeof blobs);
	r.output_fd = out;
	return run_with(script, &call, &r, err);
}

static unsigned open_files(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void blobs_by_digest(void)
{
	_buf_ struct buf text = BUF_INIT;
	unsigned before = open_files();
	struct edera_error err;
	char path[PATH_CAP];

	CU_ASSERT_EQUAL(run_worker("reg.example/x:1", WORKER
		"r, fds = ask(1); print(r, os.read(fds[0], 9).decode())\n"
		"try: os.write(fds[0], b'x')\n"
		"except OSError: print('read-only')\n"
		"print(*ask(1, OTHER)); print(*ask(2)); r, fds = ask(2, OTHER); os.write(fds[0], b'kept')\n"
		"print(r, *ask(3, OTHER), *ask(4), len(os.listdir('/proc/self/fd')), sys.argv[-3:])" END, &err), 0);
	CU_ASSERT(heard("0 blob|read-only|-2 []|-2 []|0 0 [] 0 [] "));
	CU_ASSERT(heard("['4', 'pull', 'reg.example/x:1']|"));
	CU_ASSERT(blobs.opened == 2 && blobs.made == 2 && blobs.kept == 1 && blobs.bad == 1);
	CU_ASSERT_EQUAL(open_files(), before);
	snprintf(path, sizeof path, "%s/new", dir);
	CU_ASSERT(path_read_file(path, 10, &text, NULL) == 0 && !strcmp((char *)text.data, "kept"));
	if (err.code || !heard("read-only"))
		printf("\n%s\n%s\n", lines.data ? (char *)lines.data : "", err.msg);
	/* An image on this machine is what it says it is. */
	CU_ASSERT_EQUAL(run_worker("oci:/srv/x:tag", "echo \"$*\"", &err), 0);
	CU_ASSERT(heard("--output-fd 3 pull oci:/srv/x:tag|"));
}

/* containerd's store is asked after the plugin, and is told nothing. */
static void blobs_of_containerd(void)
{
	char path[PATH_CAP];
	struct edera_error err;

	snprintf(path, sizeof path, "%s/containerd/io.containerd.content.v1.content/blobs/sha256", dir);
	CU_ASSERT_EQUAL(path_mkdirs(path, 0755, NULL), 0);
	strcat(path, "/2222222222222222222222222222222222222222222222222222222222222222");
	CU_ASSERT_EQUAL(path_write_file(path, "cont", 4, 0600, NULL), 0);
	CU_ASSERT_EQUAL(run_worker("reg.example/x:1", WORKER
		"r, fds = ask(1); print(os.read(fds[0], 9).decode()); r, fds = ask(1, OTHER); print(os.read(fds[0], 9).decode(), *ask(4, OTHER))\n"
		"print(*ask(1, OTHER, 5)); print(*ask(1, 'sha256:' + '3' * 64))" END, &err), 0);
	CU_ASSERT(heard("blob|cont 0 []|-2 []|-2 []|"));
	CU_ASSERT_EQUAL(access(path, F_OK), 0);
}

/* It loses the service, and nobody else notices. */
static void hostile_worker(void)
{
	static const char *const bad[] = {
		"s.send(b'x' * 152)", "s.send(b'')", "s.send(b'x')", "s.send(b'x' * 100000)", "send(9, DIGEST)", "send(0, DIGEST)", "send(1, '../../etc/passwd')",
		"send(1, DIGEST.upper())", "socket.send_fds(s, [struct.pack('<IIQ136s', 1, 0, 4, DIGEST.encode())], [1, 2] * 50)",
		/* Asks and asks, and reads no answer. */
		"s.setblocking(False)\nwhile True:\n    try: send(1, OTHER)\n    except BlockingIOError: time.sleep(0.001)\n    except OSError: break\n"
		"s.setblocking(True)\ntry:\n    while answer()[0] != 'over': pass\nexcept OSError: pass",
	};
	unsigned before = open_files();

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int64_t start = now_ms();
		struct edera_error err;
		char script[3500];

		snprintf(script, sizeof script, WORKER "%s\nsys.stdout.flush()\n"
			 "try: print(*ask(1))\nexcept OSError: print('gone')\nprint('and on')" END, bad[i]);
		CU_ASSERT_EQUAL(run_worker("reg.example/x:1", script, &err), 0);
		CU_ASSERT(heard("and on|"));
		CU_ASSERT(heard("gone|") || heard("over []|"));
		CU_ASSERT_EQUAL(open_files(), before);
		CU_ASSERT(now_ms() - start < 20000);
		if (!heard("and on|") || (!heard("gone|") && !heard("over []|")))
			printf("\n%s: %s\n%s\n", bad[i], lines.data ? (char *)lines.data : "", err.msg);
	}
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "what it is given", what_it_is_given }, { "certificates", certificates },
		{ "certificates of whom", certificates_of_whom }, { "errors", errors }, { "hostile output", hostile_output }, { "deadlines", deadlines },
		{ "bad requests", bad_requests }, { "blobs by digest", blobs_by_digest }, { "blobs of containerd", blobs_of_containerd },
		{ "hostile worker", hostile_worker }, CU_TEST_INFO_NULL,
	};
	CU_SuiteInfo suites[] = { { "running the provider", NULL, NULL, NULL, NULL, tests }, CU_SUITE_INFO_NULL };
	char text[1000];
	unsigned failed;

	/* The provider's user need not exist where this is built; who is not root runs it as himself. */
	if (!mkdtemp(dir) || (geteuid() == 0 && (chown(dir, 65534, 65534) || setresuid(65534, 65534, 65534))))
		return 99;
	snprintf(text, sizeof text, "[oci]\ninsecure-registries = [\"127.0.0.1:5000\"]\nca-file = \"/etc/ca.pem\"\nmax-image-mb = 1\nmax-image-entries = 77\n"
		 "pull-timeout-seconds = 9\ncontainerd-root = \"%s/containerd\"\ncerts-dir = \"%s/certs.d\"\n", dir, dir);
	if (conf_load_text(text, true, NULL, 0, &conf, NULL) || CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	conf_unref(conf);
	buf_free(&lines);
	path_remove_tree(dir, NULL);
	return failed ? 1 : 0;
}
