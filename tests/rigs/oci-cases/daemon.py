# SPDX-License-Identifier: Apache-2.0
"""A daemon whose cache is pulled into, for the tests of pulling from registries."""
import hashlib, os, shutil, subprocess, tempfile, time

from pulling import PROVIDER

BUILD_DIR = os.environ['BUILD_DIR']


def is_full(path):
    v = os.statvfs(path)
    return v.f_bavail < v.f_blocks / 8


def daemon_possible():
    """It needs root, the provider's system user, and an eighth of /var/tmp free."""
    return not is_full('/var/tmp') and os.getuid() == 0 and subprocess.run(['id', 'edera-oci'], capture_output=True).returncode == 0


class Daemon:
    """A daemon with a directory of its own, and the sim for a hypervisor, which is not asked for anything."""
    def __init__(self, conf='', folder=None):
        self.folder = folder or tempfile.mkdtemp(prefix='il.', dir='/var/tmp')
        os.chmod(self.folder, 0o755)
        self.cache = self.folder + '/data/cache'
        plugins = self.folder + '/plugins'
        os.makedirs(plugins, exist_ok=True)
        os.makedirs(self.folder + '/data/zone', exist_ok=True)
        for p in ('plugins/config/.libs/config.so', 'plugins/registry/.libs/registry.so', 'plugins/squashfs/.libs/squashfs.so', 'tests/plugins/sim/.libs/sim.so'):
            shutil.copy(f'{BUILD_DIR}/{p}', plugins)
        for f in ('kernel', 'initrd'):
            open(f'{self.folder}/data/zone/{f}', 'w').close()
        with open(self.folder + '/daemon.toml', 'w') as f:
            f.write(f'[daemon]\nlog-level = "debug"\n[plugins]\ndirectory = "{plugins}"\nhypervisor = "sim"\n[plugin.sim]\n'
                    f'agent = "/bin/true"\nvmm = "/bin/true"\n{conf}')
        self.env = dict(os.environ, PROTECT_CONNECTION=f'unix://{self.folder}/socket', PROTECT_OCI_PROVIDER=PROVIDER)
        self.start()

    def start(self):
        with open(self.folder + '/log', 'a') as log:
            self.process = subprocess.Popen([BUILD_DIR + '/protect-daemon', '--config', self.folder + '/daemon.toml', '--data-dir', self.folder + '/data',
                                             '--run-dir', self.folder + '/run', '--listen', f'unix://{self.folder}/socket'],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)
        for _ in range(600):
            if self.protect('host', 'status').returncode == 0:
                return
            time.sleep(0.05)
        raise Exception('the daemon does not answer: ' + open(self.folder + '/log').read()[-2000:])

    def protect(self, *args):
        return subprocess.run([BUILD_DIR + '/cli/protect', *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=self.env, timeout=100)

    def pull(self, reg, tag, *args):
        r = self.protect('image', 'pull', *args, f'{reg.host}/t/{tag}')
        assert r.returncode == 0, r.stderr
        return r

    def kill(self):
        self.process.kill()
        self.process.wait()

    def layers(self):
        """The kept layers and how many names each has."""
        return {'sha256:' + n[7:]: os.stat(f'{self.cache}/layers/{n}').st_nlink for n in os.listdir(self.cache + '/layers')}

    def image(self, digest):
        with open(f'{self.cache}/images/sha256-{digest[7:]}.squashfs/image', 'rb') as f:
            return hashlib.sha256(f.read()).hexdigest()

    def work(self):
        return os.listdir(self.cache + '/images/.work')

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.process.terminate()
        self.process.wait()
        if what[0]:
            print(open(self.folder + '/log').read()[-3000:])
        shutil.rmtree(self.folder, ignore_errors=True)
