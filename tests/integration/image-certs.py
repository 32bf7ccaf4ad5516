#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Client certificates: from the daemon's directory of them, and to whom they are shown: image-certs.py [NAME...]"""
import os, shutil, ssl, subprocess, sys, tempfile

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
from daemon import Daemon, daemon_possible
from pulling import *
from registry import Registry, bearer, certificates

CERTS = certificates(WORK)
GIVEN = ['--ca', CERTS + '/ca.pem', '--cert', CERTS + '/client.pem', '--key', CERTS + '/client.key']


def tls(wanted):
    """A server's side: the client's certificate is required, or only asked for."""
    t = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    t.load_cert_chain(CERTS + '/server.pem', CERTS + '/server.key')
    t.load_verify_locations(CERTS + '/ca.pem')
    t.verify_mode = wanted
    return t


class Curious(Registry):
    """Asks for a certificate, takes all clients, and knows who showed one."""
    def __init__(self, layout=None, **more):
        super().__init__(layout, tls=tls(ssl.CERT_OPTIONAL), **more)
        self.shown = []

    def answer(self, r):
        self.shown.append(bool(r.handler.connection.getpeercert()))
        super().answer(r)


# --- to whom it is shown
def test_shown_to_registry():
    with Curious(PLAIN_LAYOUT) as reg:
        assert good(pull(reg, *GIVEN)) == WANT
        assert len(reg.shown) == 4 and all(reg.shown)
        assert good(pull(reg, '--ca', CERTS + '/ca.pem')) == WANT
        assert not any(reg.shown[4:])


def test_not_shown_after_redirect():
    with Curious(PLAIN_LAYOUT) as elsewhere:
        def away(r):
            return r.reply(307, Location=f'{elsewhere.url}{r.path}') if r.kind == 'blobs' else None

        with Curious(PLAIN_LAYOUT, fault=away) as reg:
            assert good(pull(reg, *GIVEN)) == WANT
            assert reg.shown and all(reg.shown)
            assert elsewhere.shown and not any(elsewhere.shown)


def test_not_shown_to_mirror():
    with Curious(PLAIN_LAYOUT) as mirror:
        assert good(provider(*GIVEN, '--docker-hub-mirror', mirror.host, 'image', env={'https_proxy': 'http://127.0.0.1:1', 'no_proxy': '127.0.0.1'})) == WANT
        assert mirror.shown and not any(mirror.shown)


def test_shown_to_token_server():
    """To one on the registry's host, whatever its port, and to no other."""
    for host, shown in (('127.0.0.1', True), ('localhost', False)):
        with Curious(auth=bearer(lambda r: True)) as tokens:
            realm = f'Bearer realm="https://{host}:{tokens.port}/token",service="s",scope="repository:t/image:pull"'
            check = bearer(lambda r: True, challenge=realm)
            check.state['issued'] = 1
            with Curious(PLAIN_LAYOUT, auth=check) as reg:
                assert good(pull(reg, *GIVEN)) == WANT
                assert reg.shown and all(reg.shown)
                assert tokens.shown == [shown], (host, tokens.shown)


# --- the daemon's directory
def put(folder, host, **files):
    os.makedirs(f'{folder}/certs.d/{host}', exist_ok=True)
    for name, source in files.items():
        shutil.copy(f'{CERTS}/{source}', f'{folder}/certs.d/{host}/' + name.replace('_', '.'))


def test_daemon_directory():
    if not daemon_possible():
        return daemon_possible.__doc__
    folder = tempfile.mkdtemp(prefix='ic.', dir='/var/tmp')
    os.mkdir(folder + '/certs.d', 0o700)  # the provider's user has no business there
    strict = tls(ssl.CERT_REQUIRED)
    strict.maximum_version = ssl.TLSVersion.TLSv1_2  # the client is told at once, and does not try again
    with Daemon(f'[oci]\ncerts-dir = "{folder}/certs.d"\n', folder) as d, Registry(PLAIN_LAYOUT, tls=strict) as reg:
        def refused(*words):
            r = d.protect('image', 'pull', f'{reg.host}/t/image')
            assert r.returncode and all(w in r.stderr for w in words), r.stderr
        refused('ertificate')
        put(folder, reg.host, ca_crt='ca.pem')
        refused('certs-dir')
        put(folder, reg.host, client_cert='client.pem')
        refused(f'certs.d/{reg.host}/client.cert', 'client.key')
        assert reg.asked() == []
        put(folder, reg.host, client_key='client.key')
        os.chmod(f'{folder}/certs.d/{reg.host}/client.key', 0o600)
        d.pull(reg, 'image')
        assert len(reg.asked()) == 4


def test_key_encrypted():
    d = tempfile.mkdtemp(dir=WORK)
    subprocess.run(['openssl', 'rsa', '-aes256', '-passout', 'pass:x', '-in', CERTS + '/client.key', '-out', d + '/key'], check=True, stderr=subprocess.DEVNULL)
    with Registry(PLAIN_LAYOUT, tls=tls(ssl.CERT_REQUIRED)) as reg:
        bad(pull(reg, *GIVEN[:-1], d + '/key'), 'private key')


main(globals())
