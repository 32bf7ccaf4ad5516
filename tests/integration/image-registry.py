#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The registry protocol, as it should be and as it should not: image-registry.py [NAME...]"""
import base64, concurrent.futures, json, os, socket, ssl, subprocess, sys, tempfile, threading, time

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
from ocitar import *
from pulling import *
from registry import Registry, basic, bearer, certificates, pump

# --- plain
def test_anonymous():
    with Registry(PLAIN_LAYOUT) as reg:
        assert good(pull(reg)) == WANT
        assert all(e[2] == '' for e in reg.asked())


def test_by_digest():
    with Registry(PLAIN_LAYOUT) as reg:
        d = MANIFEST_DIGEST
        assert good(pull(reg, tag='t/image@' + d)) == WANT
        assert good(pull(reg, tag='t/image:whatever@' + d)) == WANT


def test_json():
    with Registry(PLAIN_LAYOUT) as reg:
        r = pull(reg, '--progress', 'json')
        assert good(r) == WANT
        lines = [json.loads(l) for l in r.out.splitlines()]
        phases = [l['phase'] for l in lines if l['type'] == 'progress']
        assert phases[0] in ('started', 'resolving') and phases[-1] == 'complete', phases
        assert lines[-1]['type'] == 'result' and lines[-1]['digest'] == MANIFEST_DIGEST and lines[-1]['source_digest'] == ''
        assert lines[-1]['reference'] == f'{reg.host}/t/image:latest' and lines[-1]['bytes'] == os.path.getsize(r.folder + '/image')
        assert json.loads(base64.b64decode(lines[-1]['manifest']))['schemaVersion'] == 2
        assert json.loads(base64.b64decode(lines[-1]['config']))['os'] == 'linux'
        layers = [l for l in lines if l.get('layers')]
        assert layers and all(y['phase'] == 'extracted' and y['current'] == y['total'] for y in layers[-1]['layers'])
        r = pull(reg, '--progress', 'json', tag='t/none:x')
        last = json.loads(r.out.splitlines()[-1])
        assert r.status == 1 and last['type'] == 'error' and last['errno'] == 'ENOENT' and 'none' in last['message']


def test_have():
    with Registry(PLAIN_LAYOUT) as reg:
        r = pull(reg, '--progress', 'json', '--have', 'sha256:' + '0' * 64, '--have', MANIFEST_DIGEST)
        assert r.status == 0 and json.loads(r.out.splitlines()[-1])['cached'] is True
        assert len(reg.asked('blobs')) == 1  # the config


def test_not_found():
    with Registry(PLAIN_LAYOUT) as reg:
        bad(pull(reg, tag='t/image:none'), 'none', '404', 'manifest unknown')
    bad(provider('127.0.0.1:1/t/image'), '127.0.0.1:1')


def test_usage():
    for args in (['--output', '/x'], ['--bogus', 'a'], ['--platform', 'x', 'a'], ['--max-size', '-1', 'a'], ['--format', 'zip', 'a'], ['a', 'b']):
        r = provider(*args, output=False)
        assert r.status == 2 and r.err.startswith('protect-oci-provider: ') and r.err.count('\n') == 1, r.err
    for verb, what in (('tags', 'REPOSITORY'), ('inspect', 'REF'), ('pull', 'REF')):
        for more in ([], ['--output', '/x']):
            r = provider(*more, verb, output=False)
            assert r.status == 2 and f'{verb} needs {what}' in r.err, r.err
    bad(provider('Upper/Case'), 'Upper/Case')


# --- authentication
def test_bearer_anonymous():
    for name in ('token', 'access_token'):
        a = bearer(lambda r: r.authorization == '' and r.query['service'] == ['reg, the best'], name)
        with Registry(PLAIN_LAYOUT, auth=a) as reg:
            assert good(pull(reg)) == WANT
            assert a.state['issued'] == 1 and a.state['scopes'] == [['repository:t/image:pull']], a.state


def test_bearer_challenges():
    for challenge in (['Negotiate', 'Basic realm="x, y=z"', 'BEARER Realm="{url}/token"'], ['Basic realm="a", Bearer realm="{url}/token", error="x"'],
                      ['Digest qop="auth", nonce=abc==, Bearer service="s" , realm = "{url}/token"'], ['Bearer realm="{url}/t\\oken"']):
        a = bearer(lambda r: True, challenge=challenge)
        with Registry(PLAIN_LAYOUT, auth=a) as reg:
            assert good(pull(reg)) == WANT
            assert a.state['scopes'] == [['repository:t/image:pull']], a.state  # our own where none is given


def test_bearer_user():
    a = bearer(lambda r: r.authorization == basic('me', SECRET))
    with Registry(PLAIN_LAYOUT, auth=a) as reg:
        assert good(pull(reg, auth=auths(reg.host, **USER))) == WANT
        assert good(pull(reg, auth=auths(reg.host, username='me', password=SECRET))) == WANT
        assert good(pull(reg, auth=auths('http://' + reg.host + '/v2/', **USER))) == WANT
        assert all(SECRET not in e[4] and 'me' not in e[4].split('?')[-1].split('=') for e in reg.asked())
        bad(pull(reg), 'anonymous')
        bad(pull(reg, auth=auths(reg.host, username='me', password='no')), 'credentials')
        bad(pull(reg, auth=auths('other.example:1', **USER)), 'anonymous')
        r = pull(reg, auth=auths(reg.host, auth='%%%'))
        bad(r, 'base64')


def test_identity_token():
    a = bearer(lambda r: r.method == 'POST' and r.form.get('refresh_token') == [SECRET] and r.form['grant_type'] == ['refresh_token'])
    with Registry(PLAIN_LAYOUT, auth=a) as reg:
        assert good(pull(reg, auth=auths(reg.host, identitytoken=SECRET))) == WANT
        assert all(SECRET not in e[4] for e in reg.asked())


def test_identity_token_get():
    """A token server without POST gets the password, where there is one."""
    a = bearer(lambda r: r.method == 'GET' and r.authorization == basic('me', SECRET))

    def fault(r):
        return r.reply(405) if r.method == 'POST' else None
    with Registry(PLAIN_LAYOUT, fault=fault, auth=a) as reg:
        assert good(pull(reg, auth=auths(reg.host, identitytoken='x', **USER))) == WANT


def test_registry_token():
    def auth(r):
        if r.authorization != 'Bearer ' + SECRET:
            return r.reply(401, WWW_Authenticate=f'Bearer realm="{r.server.url}/token"')
    with Registry(PLAIN_LAYOUT, auth=auth) as reg:
        assert good(pull(reg, auth=auths(reg.host, registrytoken=SECRET))) == WANT
        bad(pull(reg, auth=auths(reg.host, registrytoken='wrong')), 'refused')


def test_basic():
    def auth(r):
        if r.authorization != basic('me', SECRET):
            return r.reply(401, WWW_Authenticate='Basic realm="registry"')
    with Registry(PLAIN_LAYOUT, auth=auth) as reg:
        assert good(pull(reg, auth=auths(reg.host, **USER))) == WANT
        bad(pull(reg), 'password')
        bad(pull(reg, auth=auths(reg.host, username='me', password='no')), 'refused')
        # The most specific key counts.
        a = auths(reg.host, username='me', password='no')
        a['auths'][reg.host + '/t'] = USER
        a['auths'][reg.host + '/tt'] = {'username': 'x', 'password': 'y'}
        assert good(pull(reg, auth=a)) == WANT


def test_token_expires():
    """Each token is good for two requests: it is renewed in the middle of the pull, and no blob is fetched twice."""
    a = bearer(lambda r: True, uses=2)
    with Registry(PLAIN_LAYOUT, auth=a) as reg:
        assert good(pull(reg)) == WANT
        assert a.state['issued'] >= 2


def test_token_refused():
    with Registry(PLAIN_LAYOUT, auth=bearer(lambda r: True, uses=0)) as reg:
        bad(pull(reg), '401')
        assert len(reg.asked()) < 20


def test_token_nonsense():
    for body in (b'{}', b'[]', b'{"token":"a b"}', b'{"token":"a\\r\\nX: y"}', b'{"token":1}', b'nonsense', b'[' * 50000):
        def fault(r):
            if r.path == '/token':
                return r.reply(200, body)
            return r.reply(401, WWW_Authenticate=f'Bearer realm="{r.server.url}/token"')
        with Registry(PLAIN_LAYOUT, fault=fault) as reg:
            bad(pull(reg), 'token server')


def test_realm():
    for realm in ('file:///etc/passwd', 'ftp://127.0.0.1/x', 'http://u:p@127.0.0.1/t', '', 'nonsense'):
        with Registry(PLAIN_LAYOUT, auth=bearer(lambda r: True, challenge=f'Bearer realm="{realm}"')) as reg:
            bad(pull(reg, auth=auths(reg.host, **USER)))


def test_helper():
    a = bearer(lambda r: r.authorization == basic('helped', SECRET))
    with Registry(PLAIN_LAYOUT, auth=a) as reg:
        bin = tempfile.mkdtemp(dir=WORK)
        with open(bin + '/docker-credential-test', 'w') as f:
            f.write('#!/bin/sh\nread server\n[ "$1" = get ] && [ "$server" = "%s" ] || exit 1\n'
                    'echo \'{"ServerURL":"x","Username":"helped","Secret":"%s"}\'\n' % (reg.host, SECRET))
        os.chmod(bin + '/docker-credential-test', 0o755)
        env = {'PATH': bin + ':' + os.environ['PATH']}
        assert good(pull(reg, env=env, auth={'credHelpers': {reg.host: 'test'}})) == WANT
        assert good(pull(reg, env=env, auth={'credsStore': 'test', 'auths': {reg.host: {}}})) == WANT
        with open(bin + '/config.json', 'w') as f:
            json.dump({'credsStore': 'test'}, f)
        assert good(pull(reg, env=dict(env, DOCKER_CONFIG=bin))) == WANT
        bad(pull(reg, auth={'credsStore': 'absent'}), 'docker-credential-absent')
        bad(pull(reg, auth={'credsStore': '../../bin/sh'}), 'no name')


# --- redirects
def test_redirect():
    with Registry(PLAIN_LAYOUT, address='127.0.0.2') as cdn:
        def fault(r):
            if r.kind == 'blobs':
                return r.reply(307, Location=f'{cdn.url}{r.path}?signed=1')
        a = bearer(lambda r: True)
        with Registry(PLAIN_LAYOUT, fault=None, auth=lambda r: a(r) or fault(r)) as reg:
            assert good(pull(reg, auth=auths(reg.host, **USER))) == WANT
            assert len(cdn.asked('blobs')) == 3 and all(e[2] == '' for e in cdn.asked()), cdn.asked()


def test_redirect_expires():
    """Where it leads to, each address is good at the second try; or never, which is said in that host's words."""
    xml = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>'

    def led_by(fault):
        with Registry(PLAIN_LAYOUT, address='127.0.0.2', fault=fault) as cdn:
            with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(307, Location=f'{cdn.url}{r.path}') if r.kind == 'blobs' else None) as reg:
                return pull(reg), len(reg.asked('blobs')), len(cdn.asked())
    r, asked, led = led_by(lambda r: r.reply(403, xml) if r.server.count(r.what) == 0 else None)
    assert good(r) == WANT and asked == led == 6, (asked, led)
    r, asked, led = led_by(lambda r: r.reply(403, xml))
    bad(r, '403', 'Request has expired')
    assert asked == led == 3, (asked, led)
    bad(led_by(lambda r: r.reply(403, b'<Message>open'))[0], '403')


def test_redirect_relative():
    def fault(r):
        if r.kind == 'blobs' and 'again' not in r.query:
            return r.reply(302, Location=r.path + '?again=1')
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        assert good(pull(reg)) == WANT


def test_redirect_loop():
    def fault(r):
        if r.kind == 'blobs':
            return r.reply(302, Location=r.path)
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        bad(pull(reg), 'redirect')
        assert len(reg.asked()) < 30


def test_redirect_scheme():
    for to in ('file:///etc/passwd', 'ftp://127.0.0.1/x', 'gopher://127.0.0.1/', 'dict://127.0.0.1/'):
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(302, Location=to) if r.kind == 'blobs' else None) as reg:
            bad(pull(reg))


# --- broken connections
def test_cut():
    """The connection breaks after 100 kB, again and again."""
    def fault(r):
        if r.kind == 'blobs' and r.what == BIG_LAYER['digest']:
            data = r.server.data(r.what)
            if len(data) - r.range > 300000:
                part = data[r.range:r.range + 300000]
                headers = dict(Content_Range=f'bytes {r.range}-{len(data) - 1}/{len(data)}') if r.range else {}
                r.reply(206 if r.range else 200, part, length=len(data) - r.range, **headers)
                return r.cut()
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        assert good(pull(reg)) == WANT
        ranges = [e[3] for e in reg.asked('blobs') if e[1] == BIG_LAYER['digest']]
        assert ranges[0] == 0 and ranges == sorted(ranges) and len(ranges) > 3 and ranges[1] == 300000, ranges


def test_cut_no_range():
    """... and the server knows no ranges: what is there is passed over."""
    def fault(r):
        if r.kind == 'blobs' and r.what == BIG_LAYER['digest']:
            data = r.server.data(r.what)
            n = 400000 * (r.server.count('cut') + 1)
            r.reply(200, data[:n], length=len(data))
            return r.cut() if n < len(data) else True
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        assert good(pull(reg)) == WANT


def test_cut_wrong_range():
    def fault(r):
        if r.kind == 'blobs' and r.what == BIG_LAYER['digest']:
            data = r.server.data(r.what)
            if r.range:
                return r.reply(206, data[r.range + 5:], Content_Range=f'bytes {r.range + 5}-{len(data) - 1}/{len(data)}')
            r.reply(200, data[:1000], length=len(data))
            return r.cut()
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        bad(pull(reg), 'range', BIG_LAYER['digest'])


def test_cut_always():
    def fault(r):
        if r.kind == 'blobs' and r.what == BIG_LAYER['digest']:
            return r.cut()
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        bad(pull(reg), BIG_LAYER['digest'])
        assert len(reg.asked()) < 15


def test_short_chunked():
    """A body without a length that ends early is not taken for the whole."""
    def fault(r):
        if r.kind == 'blobs' and r.what == BIG_LAYER['digest'] and not r.range and r.server.count('short') == 0:
            r.reply(200, b'', length=False, Connection='close')
            r.handler.wfile.write(r.server.data(r.what)[:5000])
            return r.cut()
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        assert good(pull(reg)) == WANT


def test_manifest_cut():
    def fault(r):
        if r.kind == 'manifests' and r.server.count('m') < 2:
            r.reply(200, b'{"schema', length=1000)
            return r.cut()
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        assert good(pull(reg)) == WANT


def test_delay():
    def fault(r):
        if r.kind == 'blobs' and r.what == BIG_LAYER['digest']:
            data = r.server.data(r.what)
            r.reply(200, b'', length=len(data))
            for i in range(0, len(data), 200000):
                time.sleep(0.3)
                r.handler.wfile.write(data[i:i + 200000])
            return True
        time.sleep(0.5)
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        assert good(pull(reg)) == WANT


def but_layers():
    """What --blobs needs for the plain image, its layers left out."""
    d = tempfile.mkdtemp(dir=WORK)
    os.mkdir(d + '/sha256')
    digest = MANIFEST_DIGEST
    for one in (digest, json.loads(open(f'{PLAIN_LAYOUT.path}/blobs/sha256/{digest[7:]}').read())['config']['digest']):
        os.link(f'{PLAIN_LAYOUT.path}/blobs/sha256/{one[7:]}', f'{d}/sha256/{one[7:]}')
    return ['--blobs', d], 't/image@' + digest


def test_nobody_listens():
    """Also where a layer is the first thing that is asked for."""
    blobs, name = but_layers()
    for args in ([], blobs):
        r = provider(*args, '127.0.0.1:1/' + name)
        bad(r, '127.0.0.1:1')
        assert r.seconds < 9, r.seconds


def test_restart():
    """A registry that has answered, and is gone for some seconds."""
    for when in (lambda r: r.kind == 'blobs', lambda r: r.what == BIG_LAYER['digest']):  # the config is the first
        gone = threading.Event()

        def fault(r):
            if when(r):
                r.server.server.shutdown()
                r.server.server.server_close()
                gone.set()
                return r.cut()
        with Registry(PLAIN_LAYOUT, fault=fault) as reg, concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(pull, reg)
            assert gone.wait(30)
            time.sleep(5)
            with Registry(PLAIN_LAYOUT, port=reg.port):
                assert good(running.result()) == WANT


def silent(fault):
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        r = pull(reg)
        bad(r)
        assert r.seconds < 90, r.seconds


def test_silent_at_once():
    silent(lambda r: r.hang())


def test_silent_blob():
    def fault(r):
        if r.kind == 'blobs' and r.what == BIG_LAYER['digest']:
            r.reply(200, r.server.data(r.what)[:7000], length=BIG_LAYER['size']) if not r.range else None
            return r.hang()
    silent(fault)


def test_silent_trickle():
    def fault(r):
        if r.kind == 'manifests':
            r.reply(200, b'', length=100000)
            while not r.server.stopping.wait(1):
                r.handler.wfile.write(b' ')
            return True
    silent(fault)


def test_silent_headers():
    def fault(r):
        if r.kind == 'manifests':
            r.handler.wfile.write(b'HTTP/1.1 200 OK\r\n')
            while not r.server.stopping.wait(1):
                r.handler.wfile.write(b'X: y\r\n')
            return True
    silent(fault)


def test_timeout():
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.hang() if r.kind == 'blobs' else None) as reg:
        r = pull(reg, '--timeout', '2')
        bad(r, '--timeout')
        assert r.seconds < 6
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.hang()) as reg:
        r = pull(reg, '--timeout', '2')
        bad(r, '--timeout')
        assert r.seconds < 6


# --- wrong bytes
def test_corrupt_blob():
    def fault(r):
        if r.kind == 'blobs' and r.what == BIG_LAYER['digest']:
            data = bytearray(r.server.data(r.what))
            data[len(data) // 2] ^= 1
            return r.reply(200, bytes(data))
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        bad(pull(reg), BIG_LAYER['digest'])


def test_corrupt_anything():
    """Whatever byte of whatever answer is changed: the right image or an error."""
    for n in range(0, 1200, 60):
        def fault(r):
            if r.kind in ('blobs', 'manifests'):
                data = r.server.data(r.what if ':' in r.what else MANIFEST_DIGEST)
                at = (n * 7919 + r.server.count('c') * 31) % len(data)
                data = data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1:]
                return r.reply(200, data)
        with Registry(PLAIN_LAYOUT, fault=fault) as reg:
            r = pull(reg)
            bad(r)  # every answer is changed, the config's too, which has a digest


def test_manifest_by_digest_differs():
    d = MANIFEST_DIGEST
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(200, r.server.data(d) + b' ') if r.kind == 'manifests' else None) as reg:
        bad(pull(reg, tag='t/image@' + d), d)


def test_content_digest_header():
    for value in ('sha256:' + '0' * 64, 'nonsense', ''):
        d = MANIFEST_DIGEST
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(200, r.server.data(d), Docker_Content_Digest=value, Content_Type='text/plain') if r.kind == 'manifests' else None) as reg:
            assert good(pull(reg)) == WANT


def test_html():
    page = b'<html>' + b'login please ' * 50
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(200, page, Content_Type='text/html') if r.kind == 'blobs' else None) as reg:
        bad(pull(reg))
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(200, page, Content_Type='text/html') if r.kind == 'manifests' else None) as reg:
        bad(pull(reg), 'JSON')
        bad(pull(reg, tag='t/image@' + MANIFEST_DIGEST), 'text/html')


def test_longer_blob():
    def fault(r):
        if r.kind == 'blobs' and r.what == BIG_LAYER['digest']:
            return r.reply(200, r.server.data(r.what) + bytes(10 ** 6))
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        bad(pull(reg), 'longer', BIG_LAYER['digest'])


def endless(r):
    r.reply(200, b'', length=False, Connection='close')
    while not r.server.stopping.is_set():
        r.handler.wfile.write(bytes(65536))
    return True


def test_endless():
    with Registry(PLAIN_LAYOUT, fault=lambda r: endless(r) if r.kind == 'manifests' else None) as reg:
        bad(pull(reg), 'larger')
    with Registry(PLAIN_LAYOUT, fault=lambda r: endless(r) if r.kind == 'blobs' else None) as reg:
        bad(pull(reg))

    def headers(r):
        r.handler.wfile.write(b'HTTP/1.1 200 OK\r\n')
        while not r.server.stopping.is_set():
            r.handler.wfile.write(b'X-Y: ' + b'z' * 1000 + b'\r\n')
        return True
    with Registry(PLAIN_LAYOUT, fault=headers) as reg:
        bad(pull(reg))

    def page(r):
        r.handler.send_response(404)
        r.handler.send_header('Connection', 'close')
        r.handler.end_headers()
        while not r.server.stopping.is_set():
            r.handler.wfile.write(b'x' * 65536)
        return True
    with Registry(PLAIN_LAYOUT, fault=page) as reg:
        bad(pull(reg))


# --- busy registries
def busy(times, status, **headers):
    def fault(r):
        if r.kind and r.server.count(r.kind) < times:
            return r.reply(status, b'', **headers)
    return fault


def test_rate_limit():
    for headers in ({'Retry_After': '1'}, {'Retry_After': '880us'}, {}, {'Retry_After': time.strftime('%a, %d %b %Y %H:%M:%S GMT', time.gmtime(time.time() + 2))}):
        with Registry(PLAIN_LAYOUT, fault=busy(1, 429, **headers)) as reg:
            assert good(pull(reg)) == WANT
    with Registry(PLAIN_LAYOUT, fault=busy(2, 503)) as reg:
        assert good(pull(reg)) == WANT


def test_rate_limit_for_ever():
    with Registry(PLAIN_LAYOUT, fault=busy(1000, 429, Retry_After='0')) as reg:
        r = pull(reg)
        bad(r, '429')
        assert len(reg.asked()) < 12 and r.seconds < 60


def test_server_error():
    with Registry(PLAIN_LAYOUT, fault=busy(1000, 403)) as reg:
        bad(pull(reg), '403')
        assert len(reg.asked()) == 1


# --- mirrors, proxies, TLS
def test_mirror():
    with Registry(PLAIN_LAYOUT) as reg:
        r = provider('--docker-hub-mirror', reg.host, 'some/image')
        assert good(r) == WANT
        assert all('ns=docker.io' in e[4] and '/v2/some/image/' in e[4] for e in reg.asked()), reg.asked()
        assert good(provider('--docker-hub-mirror', reg.host, 'image')) == WANT
        assert '/v2/library/image/' in reg.asked()[-1][4]
        assert good(provider('--docker-hub-mirror', 'unreachable.invalid', f'{reg.host}/t/image')) == WANT


def test_mirror_falls_back():
    """A mirror that does not have it is passed over; the error is about the registry itself."""
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(500)) as reg:
        bad(provider('--docker-hub-mirror', reg.host, 'image', env={'https_proxy': 'http://127.0.0.1:1'}), 'registry-1.docker.io')
        assert len(reg.asked()) == 1


def test_proxy():
    with Registry(PLAIN_LAYOUT) as reg:
        target = 'registry.invalid:80'
        assert good(provider('--insecure-registry', target, f'{target}/t/image', env={'http_proxy': reg.url})) == WANT
        assert good(provider('--proxy', reg.url, '--insecure-registry', target, f'{target}/t/image')) == WANT
        bad(provider('--insecure-registry', target, f'{target}/t/image', env={'http_proxy': reg.url, 'no_proxy': 'registry.invalid'}), 'registry.invalid')


def test_insecure():
    """http is for localhost, and for hosts that are named."""
    address = next((a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET) if not a[4][0].startswith('127.')), None)
    if not address:
        return 'this machine has no address but loopback'
    with Registry(PLAIN_LAYOUT, address=address) as reg:
        bad(pull(reg), reg.host)
        assert reg.asked() == []
        assert good(pull(reg, '--insecure-registry', reg.host)) == WANT


def test_tls():
    d = certificates(WORK)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(d + '/server.pem', d + '/server.key')
    # Loopback speaks http by default; a mirror of that name would too, so this one is reached through a name of its own.
    with Registry(PLAIN_LAYOUT, tls=tls) as reg:
        connect = {'https_proxy': tunnel(reg.port)}
        ref = f'registry.invalid:{reg.port}/t/image'
        bad(provider(ref, env=connect), 'ertificate')
        bad(provider('--ca', d + '/ca.pem', ref, env=connect), 'registry.invalid')  # the name is checked too
    with open(d + '/ext', 'w') as f:
        f.write('subjectAltName=DNS:registry.invalid\n')
    subprocess.run(['openssl', 'x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-days', '2', '-out', 'server.pem', '-extfile', 'ext'], check=True,
                   cwd=d, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(d + '/server.pem', d + '/server.key')
    with Registry(PLAIN_LAYOUT, tls=tls) as reg:
        connect = {'https_proxy': tunnel(reg.port)}
        assert good(provider('--ca', d + '/ca.pem', f'registry.invalid:{reg.port}/t/image', env=connect)) == WANT
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(d + '/ca.pem')
    with Registry(PLAIN_LAYOUT, tls=tls) as reg:
        connect = {'https_proxy': tunnel(reg.port)}
        ref = f'registry.invalid:{reg.port}/t/image'
        bad(provider('--ca', d + '/ca.pem', ref, env=connect))
        assert good(provider('--ca', d + '/ca.pem', '--cert', d + '/client.pem', '--key', d + '/client.key', ref, env=connect)) == WANT

        def down(r):
            return r.reply(302, Location=f'http://127.0.0.1:{plain.port}{r.path}') if r.kind == 'blobs' else None
        with Registry(PLAIN_LAYOUT) as plain:
            reg.fault = down
            bad(provider('--ca', d + '/ca.pem', '--cert', d + '/client.pem', '--key', d + '/client.key', ref, env=connect))
            assert plain.asked() == []  # never http after https


def test_tls_client_wanted():
    """A registry that may speak http and wants a certificate of its clients: no word of http."""
    d = certificates(WORK)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(d + '/server.pem', d + '/server.key')
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(d + '/ca.pem')
    for newest in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        tls.maximum_version = newest
        with Registry(PLAIN_LAYOUT, tls=tls) as reg:
            bad(pull(reg, '--ca', d + '/ca.pem'), '--cert')
            bad(pull(reg, '--insecure-registry', reg.host), '--cert')
            assert good(pull(reg, '--ca', d + '/ca.pem', '--cert', d + '/client.pem', '--key', d + '/client.key')) == WANT
            assert len(reg.asked()) == 4


def test_client_certificate_checked():
    """What is no certificate, or no key of it, is said before anything is asked."""
    d = certificates(WORK)
    cert, key = d + '/client.pem', d + '/client.key'
    with open(d + '/both.pem', 'w') as f:
        f.write(open(key).read() + open(cert).read())
    subprocess.run(['openssl', 'pkey', '-in', key, '-aes256', '-passout', 'pass:x', '-out', d + '/locked.key'], check=True, stderr=subprocess.DEVNULL)
    with Registry(PLAIN_LAYOUT) as reg:
        for args, words in ((('--cert', cert), (cert, '--key')), (('--cert', '/etc/passwd', '--key', key), ('/etc/passwd', 'no certificate')),
                            (('--cert', key, '--key', key), (key, 'no certificate')), (('--cert', cert, '--key', cert), (cert, 'no private key')),
                            (('--cert', cert, '--key', '/etc/passwd'), ('/etc/passwd', 'no private key')), (('--cert', cert, '--key', d + '/locked.key'), ('locked.key', 'password')),
                            (('--cert', cert, '--key', d + '/server.key'), ('server.key', 'does not belong')), (('--cert', '/nonexistent', '--key', key), ('/nonexistent', )),
                            (('--cert', cert, '--key', '/nonexistent'), ('/nonexistent', )), (('--blobs', '/nonexistent'), ('/nonexistent', )), (('--blobs', cert), (cert, 'ot a directory'))):
            bad(pull(reg, *args), *words)
            r = provider('tags', *args, f'{reg.host}/t/image', output=False)
            assert r.status == 1 and all(w in r.err for w in words), r.err
        bad(pull(reg, '--key', key), '--cert', status=2)
        assert reg.asked() == []
        assert good(pull(reg, '--cert', cert, '--key', key)) == WANT and good(pull(reg, '--cert', d + '/both.pem')) == WANT


def test_tls_layers_first():
    """A registry that may speak http and speaks https, of which nothing but layers is asked."""
    d = certificates(WORK)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(d + '/server.pem', d + '/server.key')
    blobs, name = but_layers()
    with Registry(PLAIN_LAYOUT, tls=tls) as reg:
        for trust in (['--ca', d + '/ca.pem'], ['--insecure-registry', reg.host]):
            assert good(pull(reg, *trust, *blobs, tag=name)) == WANT
        bad(pull(reg, *blobs, tag=name), 'ertificate')


def tunnel(port):
    """A proxy that connects everything to one port of this machine; for as long as the test runs."""
    listener = socket.socket()
    listener.bind(('127.0.0.1', 0))
    listener.listen(32)

    def serve():
        while True:
            client, _ = listener.accept()
            head = b''
            while b'\r\n\r\n' not in head:
                head += client.recv(1)
            upstream = socket.create_connection(('127.0.0.1', port))
            client.sendall(b'HTTP/1.1 200 OK\r\n\r\n')
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    return f'http://127.0.0.1:{listener.getsockname()[1]}'


# --- tags
def tags(reg, *args):
    return provider('tags', *args, f'{reg.host}/t/image', output=False)


def test_tags():
    pages = {'': (['a', 'b'], '</v2/t/image/tags/list?last=b&n=2>; rel="next"'), 'b': (['c', '.bad', 'x y', 5], '<{url}/v2/t/image/tags/list?last=d>; foo="a,b"; rel=next'),
             'd': (None, '</elsewhere>; rel="prev"')}

    def fault(r):
        if r.kind == 'tags':
            names, link = pages[r.query.get('last', [''])[0]]
            return r.reply_json({'name': 't/image', 'tags': names}, Link=link.format(url=r.server.url))
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        r = tags(reg)
        assert r.status == 0 and r.out == 'a\nb\nc\n', (r.out, r.err)
        assert json.loads(tags(reg, '--progress', 'json').out) == {'type': 'tags', 'tags': ['a', 'b', 'c']}
        bad(provider('tags', f'{reg.host}/t/image:x', output=False), 'tag')


def test_tags_loop():
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply_json({'tags': ['a']}, Link='</v2/t/image/tags/list?last=a>; rel="next"')) as reg:
        r = tags(reg)
        assert r.status == 1 and 'pages' in r.err and len(reg.asked()) < 300


def test_tags_elsewhere():
    with Registry(PLAIN_LAYOUT) as other:
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply_json({'tags': ['a']}, Link=f'<{other.url}/v2/t/image/tags/list>; rel="next"')) as reg:
            r = tags(reg)
            assert r.status == 1 and other.asked() == []
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply_json({'tags': ['a']}, Link=f'<//{other.host}/x>; rel="next"')) as reg:
            r = tags(reg)
            assert r.status == 1 and other.asked() == []


def test_inspect():
    l = layout([X_FILE], config=dict(Labels={'l': 'v'}), manifest=dict(annotations={'dev.example': 'yes', 'n': 'z'}))
    with Registry(l) as reg:
        r = provider('inspect', '--progress', 'json', f'{reg.host}/t/image', output=False)
        v = json.loads(r.out)
        assert v['type'] == 'inspect' and v['annotations'] == {'dev.example': 'yes', 'n': 'z'} and v['labels'] == {'l': 'v'} and v['digest'] == l.entries[0]['digest'], v
        assert [e[0] for e in reg.asked()] == ['manifests', 'blobs']
        assert provider('inspect', f'{reg.host}/t/image', output=False).out.startswith('reference ')


# --- the end of it
def test_killed():
    """Whatever ends it, nothing stays behind."""
    for sig in (2, 15, 9):
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.hang() if r.what == BIG_LAYER['digest'] else None) as reg:
            folder = tempfile.mkdtemp(dir=WORK)
            p = subprocess.Popen([PROVIDER, '--platform', 'linux/amd64', '--output', folder + '/image', f'{reg.host}/t/image'], stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 20
            while not any(e[1] == BIG_LAYER['digest'] for e in reg.asked()) and time.monotonic() < deadline:
                time.sleep(0.05)
            p.send_signal(sig)
            assert p.wait(10) != 0
            assert os.listdir(folder) == []


def test_full_disk():
    if os.geteuid() != 0:
        return 'only root can mount a small file system'
    folder = tempfile.mkdtemp(dir=WORK)
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=200k', 'small', folder]).returncode:
        return 'no tmpfs can be mounted here'
    try:
        with Registry(PLAIN_LAYOUT) as reg:
            r = pull(reg, folder=folder)
            bad(r, f"No space left on device ('{folder}/image')")
            r = pull(reg, '--output', '-', output=False, env={'TMPDIR': folder})
            assert r.status == 1 and r.out == '' and r.err.endswith(f"No space left on device ('{folder}')\n"), r.err
    finally:
        subprocess.run(['umount', folder])


def test_overwrite():
    with Registry(PLAIN_LAYOUT) as reg:
        folder = tempfile.mkdtemp(dir=WORK)
        with open(folder + '/image', 'w') as f:
            f.write('old')
        r = pull(reg, folder=folder)
        assert good(r) == WANT
        os.unlink(folder + '/image')
        r = pull(reg, '--max-size', '1000', folder=folder)
        bad(r, '--max-size')
        r = pull(reg, '--max-entries', '1', folder=folder)
        bad(r, '--max-entries')


def test_no_such_folder():
    with Registry(PLAIN_LAYOUT) as reg:
        r = provider('--output', '/nonexistent/x', f'{reg.host}/t/image', output=False)
        assert r.status == 1 and '/nonexistent' in r.err


def test_descriptors():
    """As the daemon runs it."""
    with Registry(PLAIN_LAYOUT, auth=bearer(lambda r: r.authorization == basic('me', SECRET))) as reg:
        folder = tempfile.mkdtemp(dir=WORK)
        out = os.open(folder + '/image', os.O_RDWR | os.O_CREAT)
        spool = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        auth = os.memfd_create('auth')
        os.write(auth, json.dumps(auths(reg.host, **USER)).encode())
        os.lseek(auth, 0, 0)
        p = subprocess.run([PROVIDER, '--platform', 'linux/amd64', '--progress', 'json', '--auth-fd', str(auth), '--output-fd', str(out), '--spool-fd', str(spool), 'pull',
                            f'{reg.host}/t/image'], pass_fds=(out, spool, auth), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={})
        assert p.returncode == 0, p.stderr
        assert json.loads(p.stdout.splitlines()[-1])['type'] == 'result'
        r = Result(0, '', '', folder, 0)
        assert good(r) == WANT
        for fd in (out, spool, auth):
            os.close(fd)


def test_reproducible():
    """Layers that arrive in any order and at any pace give the same bytes."""
    l = layout([file('f%d' % i, NOISE[i * 50000:i * 50000 + 90000]) + (whiteout('f%d' % (i - 1)) if i % 2 else b'') for i in range(8)])
    want = good(provider('oci:' + l.path))
    for n in range(4):
        def fault(r):
            if r.kind == 'blobs':
                time.sleep(int(hashlib.sha256((r.what + str(n)).encode()).hexdigest(), 16) % 7 / 10)
        with Registry(l, fault=fault) as reg:
            for parallel in ('1', '8'):
                assert good(pull(reg, '--parallel', parallel)) == want


main(globals())
