#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registries that lie, leak, and loop: image-hostile.py [NAME...]"""
import base64, json, os, socket, ssl, subprocess, sys, tempfile, threading, time

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
from ocitar import *
from pulling import *
from registry import Raw, Registry, basic, bearer, certificates, pump


# --- whose credentials go where
def test_challenge_of_another_host():
    """What a registry leads to must not be able to ask for the registry's credentials."""
    def thief(r):
        if r.path == '/token':
            return r.reply_json({'token': 'x'})
        return r.reply(401, WWW_Authenticate=f'Bearer realm="{r.server.url}/token",service="s"')
    for kind in ('manifests', 'blobs'):
        with Registry(PLAIN_LAYOUT, fault=thief, address='127.0.0.2') as evil:
            a = bearer(lambda r: r.authorization == basic('me', SECRET))
            lead = lambda r: r.reply(307, Location=evil.url + r.path) if r.kind == kind else None
            with Registry(PLAIN_LAYOUT, auth=lambda r: a(r) or lead(r)) as reg:
                bad(pull(reg, auth=auths(reg.host, **USER)), '401')
                assert evil.asked(kind) and not evil.asked('/token') and all(e[2] == '' for e in evil.asked()), evil.asked()


def test_redirect_there_and_back():
    """Every origin but the registry's gets no credentials; another port or scheme of the same machine is another origin."""
    with Registry(PLAIN_LAYOUT) as port:
        a = bearer(lambda r: r.authorization == basic('me', SECRET))
        lead = lambda r: r.reply(302, Location=port.url + r.path) if r.kind == 'blobs' else None
        with Registry(PLAIN_LAYOUT, auth=lambda r: a(r) or lead(r)) as reg:
            assert good(pull(reg, auth=auths(reg.host, **USER))) == WANT
            assert port.asked() and all(e[2] == '' for e in port.asked())


def test_redirect_codes():
    for status in (301, 302, 303, 307, 308):
        with Registry(PLAIN_LAYOUT, address='127.0.0.2') as cdn:
            with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(status, b'moved', Location=cdn.url + r.path)) as reg:
                assert good(pull(reg)) == WANT


def test_redirect_count():
    def fault(n):
        def f(r):
            at = int(r.query.get('hop', ['0'])[0])
            if r.kind == 'blobs' and at < n:
                return r.reply(302, Location=f'{r.path}?hop={at + 1}')
        return f
    with Registry(PLAIN_LAYOUT, fault=fault(10)) as reg:
        assert good(pull(reg)) == WANT
    with Registry(PLAIN_LAYOUT, fault=fault(11)) as reg:
        bad(pull(reg), 'redirect', CONFIG)


def test_redirect_odd():
    for to in ('http://user:pass@{host}/v2/t/image/x', 'http://user@{host}/x', '//', 'http://', 'javascript:alert(1)', 'file:///etc/passwd', '\x01\x02', 'http://[::1', 'a' * 20000):
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(302, Location=to.format(host=r.server.host)) if is_big(r) else None) as reg:
            r = pull(reg)
            bad(r)
            assert len(reg.asked()) < 30 and 'pass@' not in r.err, (to, r.err)
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(302) if is_big(r) else None) as reg:
        bad(pull(reg), '302', BIG_LAYER['digest'])


def test_redirect_body():
    """The body of a redirect is nothing to read on and on."""
    sent = []

    def fault(r):
        if r.kind == 'blobs' and 'x' not in r.query:
            r.reply(302, b'', length=10 ** 12, Location=r.path + '?x=1')
            try:
                while not r.server.stopping.is_set():
                    r.handler.wfile.write(bytes(65536))
                    sent.append(65536)
            except OSError:
                pass
            return r.cut()
    with Registry(PLAIN_LAYOUT, fault=fault) as reg:
        r = pull(reg)
        assert good(r) == WANT and r.seconds < 15, r.seconds
        assert sum(sent) < 64 << 20, sum(sent)


def test_signed_address_expires():
    """An address that is good for once: after a cut the registry is asked for another."""
    with Registry(PLAIN_LAYOUT, address='127.0.0.2') as cdn:
        used = set()

        def once(r):
            key = r.query['key'][0]
            if key in used:
                return r.reply(403, b'<Error>expired</Error>', Content_Type='application/xml')
            used.add(key)
            if is_big(r) and not r.range:
                data = r.server.data(r.what)
                r.reply(200, data[:300000], length=len(data))
                return r.cut()
        cdn.fault = once
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(307, Location=f'{cdn.url}{r.path}?key={r.server.count("k")}') if r.kind == 'blobs' else None) as reg:
            assert good(pull(reg)) == WANT
        cdn.fault = lambda r: r.reply(403)
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(307, Location=f'{cdn.url}{r.path}') if is_big(r) else None) as reg:
            bad(pull(reg), '403', BIG_LAYER['digest'])
            assert len(reg.asked()) < 15


def test_secrets_echoed():
    """A server that repeats what it was sent does not get it into the log."""
    def echo(r):
        seen = r.authorization + ' ' + (base64.b64decode(r.authorization[6:]).decode() if r.authorization.startswith('Basic') else '') + ' ' + str(r.form)
        return r.reply(418, json.dumps({'errors': [{'code': 'TEAPOT', 'message': ('x' * 100 + seen)}]}).encode(), Content_Type='text/plain; ' + seen)

    def check(reg, a):
        for args in (['--output', 'x'], ['tags'], ['inspect']):
            r = provider(*(args if args[0] != '--output' else []), f'{reg.host}/t/image', auth=a, output=args[0] == '--output')
            assert r.status == 1 and len(r.err.splitlines()) == 1
            for secret in (SECRET, base64.b64encode(f'me:{SECRET}'.encode()).decode(), 'good-1'):
                assert secret not in r.err + r.out, r.err
    challenge = lambda how: lambda r: r.reply(401, WWW_Authenticate=how.format(url=r.server.url)) if not r.authorization else echo(r)
    with Registry(PLAIN_LAYOUT, fault=challenge('Basic realm="x"')) as reg:
        check(reg, auths(reg.host, **USER))
    a = bearer(lambda r: True)
    with Registry(PLAIN_LAYOUT, auth=lambda r: a(r) or echo(r)) as reg:
        check(reg, auths(reg.host, **USER))
    with Registry(PLAIN_LAYOUT, auth=lambda r: echo(r) if r.path == '/token' else r.reply(401, WWW_Authenticate=f'Bearer realm="{r.server.url}/token"')) as reg:
        check(reg, auths(reg.host, **USER))
        check(reg, auths(reg.host, identitytoken=SECRET))
    with Registry(PLAIN_LAYOUT, fault=challenge('Bearer realm="{url}/t"')) as reg:
        check(reg, auths(reg.host, registrytoken=SECRET))


def test_arguments():
    """Nothing secret is among the arguments or in the environment of any process."""
    def fault(r):
        if is_big(r):
            return r.hang()
    a = bearer(lambda r: r.authorization == basic('me', SECRET))
    with Registry(PLAIN_LAYOUT, auth=lambda r: a(r) or fault(r)) as reg:
        folder = tempfile.mkdtemp(dir=WORK)
        with open(folder + '/auth.json', 'w') as f:
            json.dump(auths(reg.host, **USER), f)
        p = subprocess.Popen([PROVIDER, '--platform', 'linux/amd64', '--auth-file', folder + '/auth.json', '--output', folder + '/image', f'{reg.host}/t/image'], stderr=subprocess.DEVNULL)
        until(lambda: any(e[1] == BIG_LAYER['digest'] for e in reg.asked()))
        found = 0
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                text = open(f'/proc/{pid}/cmdline', 'rb').read()
            except OSError:
                continue
            if folder.encode() in text:
                found += 1
                assert SECRET.encode() not in text and USER['auth'].encode() not in text
        p.kill()
        p.wait()
        assert found == 2, found


# --- tokens
def test_token_lifetime():
    for expires in (0, -5, 1, 10 ** 18, 1.5, 'soon', None, 2 ** 70):
        a = bearer(lambda r: True, expires=expires)
        with Registry(PLAIN_LAYOUT, auth=a) as reg:
            assert good(pull(reg)) == WANT
            assert a.state['issued'] == 1, (expires, a.state)


def test_token_once_for_all():
    """A token that expires is renewed once, not once for each layer that noticed."""
    l = layout([file(f'f{i}', NOISE[i * 9000:i * 9000 + 9000]) for i in range(12)])
    want = good(provider('oci:' + l.path))
    a = bearer(lambda r: True)
    barrier = threading.Barrier(4)

    def auth(r):
        if r.kind == 'blobs' and r.authorization == 'Bearer good-1' and r.what != l_config:
            try:
                barrier.wait(5)
            except threading.BrokenBarrierError:
                pass
            return r.reply(401, WWW_Authenticate=f'Bearer realm="{r.server.url}/token"')
        return a(r)
    l_config = json.load(open(f'{l.path}/blobs/sha256/{l.entries[0]["digest"][7:]}'))['config']['digest']
    with Registry(l, auth=auth) as reg:
        assert good(pull(reg)) == want
        assert a.state['issued'] == 2, a.state


def test_blobs_alone_need_authentication():
    """Manifests are for everybody, blobs are not: many layers find that out at the same time."""
    l = layout([file(f'f{i}', NOISE[i * 9000:i * 9000 + 9000]) for i in range(12)])
    want = good(provider('oci:' + l.path))
    l_config = json.load(open(f'{l.path}/blobs/sha256/{l.entries[0]["digest"][7:]}'))['config']['digest']
    for entry, header, check in ((USER, 'Basic realm="x"', basic('me', SECRET)), (dict(registrytoken=SECRET), 'Bearer realm="{url}/t"', 'Bearer ' + SECRET)):
        def auth(r):
            if r.kind == 'blobs' and r.what != l_config and r.authorization != check:
                time.sleep(0.2)
                return r.reply(401, WWW_Authenticate=header.format(url=r.server.url))
        with Registry(l, auth=auth) as reg:
            assert good(pull(reg, auth=auths(reg.host, **entry))) == want


def test_token_renewed_anywhere():
    """A 401 in the middle: at the config, at a range that is taken up again, at the second page of tags."""
    for where in ('config', 'range'):
        a = bearer(lambda r: True)

        def auth(r):
            hit = r.what == CONFIG if where == 'config' else is_big(r) and r.range
            if hit and r.server.count('hit') == 0:
                a.state['issued'] += 1  # the one in use is no longer the newest
            return a(r)

        def fault(r):
            if where == 'range' and is_big(r) and not r.range:
                data = r.server.data(r.what)
                r.reply(200, data[:300000], length=len(data))
                return r.cut()
        with Registry(PLAIN_LAYOUT, auth=lambda r: auth(r) or fault(r)) as reg:
            assert good(pull(reg)) == WANT
            assert a.state['issued'] == 3, a.state
    a = bearer(lambda r: True)

    def pages(r):
        if 'last' in r.query and r.server.count('hit') == 0:
            a.state['issued'] += 1
        if a(r):
            return True
        if r.kind == 'tags':
            return r.reply_json({'tags': ['b'] if 'last' in r.query else ['a']}, **({} if 'last' in r.query else {'Link': '<list?last=a>; rel="next"'}))
    with Registry(PLAIN_LAYOUT, fault=pages) as reg:
        r = provider('tags', f'{reg.host}/t/image', output=False)
        assert r.status == 0 and r.out == 'a\nb\n', (r.out, r.err)


def test_identity_token_without_post():
    """A token server that knows no POST lets everybody, at least, see what everybody may see."""
    for status in (400, 401, 404, 405):
        a = bearer(lambda r: r.method == 'GET' and r.authorization == '')
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(status) if r.method == 'POST' else None, auth=a) as reg:
            assert good(pull(reg, auth=auths(reg.host, identitytoken=SECRET))) == WANT


def test_token_server_ill():
    def reg(answer):
        return Registry(PLAIN_LAYOUT, fault=lambda r: answer(r) if r.path == '/token' else r.reply(401, WWW_Authenticate=f'Bearer realm="{r.server.url}/token"'))
    for status in (404, 405, 401, 403, 400, 418):
        with reg(lambda r: r.reply(status)) as g:
            bad(pull(g, auth=auths(g.host, **USER)), str(status))
            assert len(g.asked()) <= 3
    with reg(lambda r: r.reply(500)) as g:
        bad(pull(g), '500')
        assert len(g.asked()) <= 6
    with reg(lambda r: r.reply(302, Location='/token')) as g:
        bad(pull(g), 'redirect')
    with reg(lambda r: r.reply(200, b'{"token":"' + b'x' * 10 ** 6 + b'"}')) as g:
        bad(pull(g), 'larger')
    with reg(lambda r: r.reply(200, b'<html>', Content_Type='text/html')) as g:
        bad(pull(g), 'token server')
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(401)) as g:
        bad(pull(g), '401')
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(401, WWW_Authenticate='Bearer realm=')) as g:
        bad(pull(g), '401')


def test_password_with_colon():
    pair = base64.b64encode(f'me:a:b:{SECRET}'.encode()).decode()
    with Registry(PLAIN_LAYOUT, auth=lambda r: None if r.authorization == 'Basic ' + pair else r.reply(401, WWW_Authenticate='basic REALM=x')) as reg:
        assert good(pull(reg, auth=auths(reg.host, auth=pair))) == WANT
        assert good(pull(reg, auth=auths(reg.host, username='me', password='a:b:' + SECRET))) == WANT
        for key in ('https://{}/v2/', 'http://{}', '{}/t/image', '{}/t/', 'https://{}/v1/'):
            assert good(pull(reg, auth=auths(key.format(reg.host), auth=pair))) == WANT, key


def test_auth_file_odd():
    folder = tempfile.mkdtemp(dir=WORK)
    for name, data in (('garbage', b'\x00\x01'), ('text', b'user: x'), ('cut', b'{"auths": {"a'), ('large', b' ' * (2 << 20))):
        with open(f'{folder}/{name}', 'wb') as f:
            f.write(data)
    with Registry(PLAIN_LAYOUT) as reg:
        for path in ('garbage', 'text', 'cut', 'large', '.', 'missing'):
            bad(provider('--auth-file', f'{folder}/{path}', f'{reg.host}/t/image'), folder)
        for data in ('[]', '{}', '{"auths":[]}', '{"auths":{"a":1}}', '{"auths":null,"credsStore":5}'):
            with open(folder + '/ok', 'w') as f:
                f.write(data)
            assert good(provider('--auth-file', folder + '/ok', f'{reg.host}/t/image')) == WANT
        # A pipe is as good as a file.
        with open(folder + '/ok', 'rb') as f:
            pass
        read, write = os.pipe()
        os.write(write, b'{}')
        os.close(write)
        out = tempfile.mkdtemp(dir=WORK)
        p = subprocess.run([PROVIDER, '--platform', 'linux/amd64', '--auth-file', f'/dev/fd/{read}', '--output', out + '/image', f'{reg.host}/t/image'], pass_fds=(read,))
        assert p.returncode == 0


def helper(body):
    bin = tempfile.mkdtemp(dir=WORK)
    with open(bin + '/docker-credential-test', 'w') as f:
        f.write('#!/bin/sh\n' + body)
    os.chmod(bin + '/docker-credential-test', 0o755)
    return {'PATH': bin + ':' + os.environ['PATH']}


def test_helper_ill():
    with Registry(PLAIN_LAYOUT) as reg:
        a = {'credsStore': 'test'}
        assert good(pull(reg, auth=a, env=helper('echo credentials not found; exit 1'))) == WANT
        bad(pull(reg, auth=a, env=helper('echo nonsense')), 'docker-credential-test')
        r = pull(reg, auth=a, env=helper('yes'))
        bad(r, 'docker-credential-test')
        assert r.seconds < 10
        assert good(pull(reg, auth=a, env=helper('echo trouble >&2; exit 3'))) == WANT
        assert good(pull(reg, auth=a, env=helper("echo '{}'"))) == WANT
        r = pull(reg, auth=a, env=helper('sleep 100 & sleep 100'))
        bad(r, 'docker-credential-test')
        assert r.seconds < 60


# --- bytes
def test_cut_anywhere():
    size = BIG_LAYER['size']
    for at in (0, 1, 15, 16, 17, size // 2, size - 1):
        def fault(r):
            if is_big(r) and r.server.count('cut') == 0:
                r.reply(200, r.server.data(r.what)[:at], length=size)
                return r.cut()
        with Registry(PLAIN_LAYOUT, fault=fault) as reg:
            assert good(pull(reg)) == WANT, at


def test_cut_often():
    """A cut every 16 kB, as long as each request brings some: no long pauses, and all of it in the end; a byte a time is given up."""
    def fault(n):
        def f(r):
            if is_big(r):
                data = r.server.data(r.what)
                r.reply(206 if r.range else 200, data[r.range:r.range + n], length=len(data) - r.range, Content_Range=f'bytes {r.range}-{len(data) - 1}/{len(data)}')
                return r.cut() if r.range + n < len(data) else True
        return f
    with Registry(PLAIN_LAYOUT, fault=fault(16384)) as reg:
        r = pull(reg)
        assert good(r) == WANT and r.seconds < 40, r.seconds
    with Registry(PLAIN_LAYOUT, fault=fault(1)) as reg:
        r = pull(reg)
        bad(r, BIG_LAYER['digest'])
        assert r.seconds < 60 and len(reg.asked()) < 130


def test_range_answers():
    size = BIG_LAYER['size']

    def with_ranges(answer):
        def fault(r):
            if is_big(r):
                if r.server.count('first') == 0:
                    r.reply(200, r.server.data(r.what)[:400000], length=size)
                    return r.cut()
                return answer(r, r.server.data(r.what))
        return Registry(PLAIN_LAYOUT, fault=fault)
    rest = lambda r, d: r.reply(206, d[r.range:], Content_Range=f'bytes {r.range}-{len(d) - 1}/*')
    with with_ranges(rest) as reg:
        assert good(pull(reg)) == WANT
    with with_ranges(lambda r, d: r.reply(416) if r.range else r.reply(200, d)) as reg:
        assert good(pull(reg)) == WANT  # then all of it, again
    for answer in (lambda r, d: r.reply(206, d[r.range:]), lambda r, d: r.reply(206, d, Content_Range=f'bytes 0-{len(d) - 1}/{len(d)}'), lambda r, d: r.reply(204),
                   lambda r, d: r.reply(416), lambda r, d: r.reply(206, d[r.range:], Content_Range='nonsense'), lambda r, d: r.reply(404), lambda r, d: r.reply(200, b'')):
        with with_ranges(answer) as reg:
            r = pull(reg)
            bad(r, BIG_LAYER['digest'])
            assert len(reg.asked()) < 15
    # After a cut, other bytes.
    with with_ranges(lambda r, d: r.reply(206, bytes(size - r.range), Content_Range=f'bytes {r.range}-{size - 1}/{size}')) as reg:
        bad(pull(reg), BIG_LAYER['digest'])


def test_lengths_lie():
    size = BIG_LAYER['size']
    data = PLAIN_LAYOUT.path + '/blobs/sha256/' + BIG_LAYER['digest'][7:]

    def big(f):
        return Registry(PLAIN_LAYOUT, fault=lambda r: f(r, r.server.data(r.what)) if is_big(r) else None)
    with big(lambda r, d: r.reply(200, d, length=size + 1000) and r.cut()) as reg:
        assert good(pull(reg)) == WANT  # all that was announced by the manifest is there
    with big(lambda r, d: r.reply(200, d + b'x' * 10)) as reg:
        bad(pull(reg), BIG_LAYER['digest'], 'longer')
    with big(lambda r, d: r.reply(200, d[:-1])) as reg:
        bad(pull(reg), BIG_LAYER['digest'], str(size))
    with big(lambda r, d: r.reply(200, d[:-1] + b'x')) as reg:
        bad(pull(reg), BIG_LAYER['digest'])
    with big(lambda r, d: r.reply(200, b'<html>sign in</html>', Content_Type='text/html')) as reg:
        bad(pull(reg), BIG_LAYER['digest'], 'text/html')
    with big(lambda r, d: r.reply(200, b'<html>' + bytes(2 * size), Content_Type='text/html')) as reg:
        bad(pull(reg), BIG_LAYER['digest'], 'text/html')
    with big(lambda r, d: r.reply(200, b'')) as reg:
        bad(pull(reg), BIG_LAYER['digest'])
    # The config, which is read whole.
    for body in (b'', b'{}', b'<html>', None):
        def fault(r):
            if r.what == CONFIG:
                d = r.server.data(r.what)
                return r.reply(200, d[:-1] + b' ' if body is None else body, Content_Type='text/html')
        with Registry(PLAIN_LAYOUT, fault=fault) as reg:
            bad(pull(reg), CONFIG)


def test_content_encoding():
    """Bytes packed on the way, though we asked for them as they are: the sentence says so."""
    def fault(kind):
        return lambda r: r.reply(200, gzip.compress(r.server.data(r.what if ':' in r.what else MANIFEST_DIGEST)), Content_Encoding='gzip') if r.kind == kind else None
    with Registry(PLAIN_LAYOUT, fault=fault('manifests')) as reg:
        bad(pull(reg), 'gzip')
        bad(pull(reg, tag='t/image@' + MANIFEST_DIGEST), 'gzip', MANIFEST_DIGEST)
    with Registry(PLAIN_LAYOUT, fault=fault('blobs')) as reg:
        bad(pull(reg), 'gzip')
    # A header that is not true does no harm.
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(200, r.server.data(r.what), Content_Encoding='gzip') if r.kind == 'blobs' else None) as reg:
        assert good(pull(reg)) == WANT


def test_error_pages():
    """The status counts, however long the page goes on, and whatever becomes of it."""
    def page(status, n):
        def fault(r):
            if is_big(r) or (r.kind == 'manifests' and status != 404):
                r.reply(status, b'', length=10 ** 12)
                try:
                    for i in range(n):
                        r.handler.wfile.write(b'x' * 65536)
                except OSError:
                    pass
                return r.cut()
        return fault
    for status in (403, 404, 410):
        for n in (1, 1000):
            with Registry(PLAIN_LAYOUT, fault=page(status, n)) as reg:
                r = pull(reg)
                bad(r, str(status))
                assert r.seconds < 10 and len(reg.asked()) < 5


def test_statuses():
    """An answer that is none: named, and not asked for again and again."""
    for status in (100, 199, 204, 206, 300, 304, 400, 402, 406, 418, 451, 501, 505, 600, 999):
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(status, b'' if status in (204, 304) else b'x', length=status not in (204, 304, 100, 199), Connection='close') if r.kind == 'manifests' else None) as reg:
            r = pull(reg)
            bad(r)
            if status >= 200:
                assert str(status) in r.err, (status, r.err)
            assert len(reg.asked()) < 7
    for status in (403, 404, 451):
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(status) if is_big(r) else None) as reg:
            bad(pull(reg), str(status), BIG_LAYER['digest'])


def test_retry_after():
    for value in ('nonsense', '-5', '0', '', '1e9', '99999999999999999999999', 'Wed, 21 Oct 2015 07:28:00 GMT', '1;'):
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(429, Retry_After=value) if r.kind == 'manifests' and r.server.count('m') == 0 else None) as reg:
            r = pull(reg, '--timeout', '5') if value.startswith('999') else pull(reg)
            if value.startswith('999'):
                bad(r, '--timeout')
            else:
                assert good(r) == WANT and r.seconds < 10, (value, r.seconds)


# --- headers
def raw(answer, *words, args=(), seconds=40):
    """Every connection gets this answer."""
    def serve(c, stop):
        c.recv(65536)
        for piece in answer if isinstance(answer, list) else [answer]:
            c.sendall(piece)
    with Raw(serve) as server:
        r = provider(*args, f'{server.host}/t/image')
        bad(r, *words)
        assert r.seconds < seconds, (answer if len(str(answer)) < 200 else '', r.seconds)
        return r


def test_headers_large():
    raw([b'HTTP/1.1 200 OK\r\n'] + [b'X-%d: ' % i + b'y' * 1000 + b'\r\n' for i in range(10000)] + [b'\r\n{}'])
    raw([b'HTTP/1.1 200 OK\r\nX: '] + [b'y' * 65536] * 160 + [b'\r\n\r\n{}'])
    raw(b'HTTP/1.1 100 Continue\r\n\r\n' * 100000)
    raw(b'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n' * 100000)


def test_headers_odd():
    for head in (b'HTTP/1.1 200 OK\r\nX: \x00\xff\x01\r\nContent-Length: 2\r\n\r\n{}', b'\x00\x01\x02\x03', b'nonsense\r\n\r\n', b'HTTP/9.9 200 OK\r\n\r\n', b'HTTP/1.1 banana\r\n\r\n',
                 b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\n{}', b'HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}',
                 b'HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n{}', b'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n',
                 b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n', b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx',
                 b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n' + b'T: x\r\n' * 100, b'HTTP/2 200\r\n\r\n{}', b'SSH-2.0-OpenSSH\r\n', b'HTTP/1.1 200 OK\n\n{}'):
        r = raw(head)
        assert all(ord(c) >= 32 or c == '\n' for c in r.err)


def test_http_1_0():
    def serve(c, stop):
        head = b''
        while b'\r\n\r\n' not in head:
            head += c.recv(4096)
        path = head.split()[1].decode()
        digest = path.rsplit('/', 1)[1]
        name = digest if ':' in digest else MANIFEST_DIGEST
        c.sendall(b'HTTP/1.0 200 OK\r\n\r\n' + open(f'{PLAIN_LAYOUT.path}/blobs/sha256/{name[7:]}', 'rb').read())
    with Raw(serve) as server:
        assert good(provider(f'{server.host}/t/image')) == WANT


def test_terminal():
    """Nothing a server says moves the cursor, colours or clears the screen, or makes a second line."""
    evil = '\x1b[2J\x1b]0;x\x07\r\n\x08\x9b31m\x85\u2028\u2029\u202e\x7f'

    def clean(text):
        assert len(text.splitlines()) <= 1 and not {c for c in evil if not c.isascii() or ord(c) < 32 or ord(c) == 127} & set(text.rstrip('\n')), ascii(text)
    for answer in (lambda r: r.reply_json({'errors': [{'code': 'X', 'message': 'a' + evil}]}, 403), lambda r: r.reply_json({'schemaVersion': 2, 'mediaType': evil, 'layers': [], 'config': {}}),
                   lambda r: r.reply(200, json.dumps({'schemaVersion': 2, 'layers': [{'digest': 'x' + evil, 'size': 1, 'mediaType': evil}], 'config': {'digest': CONFIG, 'size': 1}}, ensure_ascii=False).encode()),
                   lambda r: r.reply(200, b'<p>', Content_Type='text/\xc2\x9b31mx')):
        with Registry(PLAIN_LAYOUT, fault=lambda r: answer(r) if r.kind else None) as reg:
            for args in (['tags'], ['inspect'], []):
                r = provider(*args, f'{reg.host}/t/image', output=not args)
                assert r.status == 1 or args == ['tags']
                clean(r.err)
                assert r.out == ''
    with Registry(layout([X_FILE], config=dict(Labels={'l' + evil: 'v' + evil}), manifest=dict(annotations={'n' + evil: evil}))) as reg:
        r = provider('inspect', f'{reg.host}/t/image', output=False)
        assert r.status == 0
        for line in r.out.rstrip('\n').split('\n'):
            clean(line)
        assert not any(l.startswith('31m') for l in r.out.splitlines())
    bad(provider('a\x1b[31m/\nb'))


# --- tags
def tags_of(pages, **more):
    def fault(r):
        if r.kind == 'tags':
            body, link = pages[int(r.query.get('p', ['0'])[0])]
            return r.reply(200, json.dumps(body).encode(), **({'Link': link.format(url=r.server.url, host=r.server.host) if isinstance(link, str) else link} if link else {}))
    with Registry(PLAIN_LAYOUT, fault=fault, **more) as reg:
        return provider('tags', f'{reg.host}/t/image', output=False)


def test_tags_links():
    for link in ('<list?p=1>; rel="next"', '<?p=1>;rel=next', '</v2/t/image/tags/list?p=1>; rel="next"', '<{url}/v2/t/image/tags/list?p=1>; rel="next"', '<//{host}/v2/t/image/tags/list?p=1>; REL=Next',
                 '</first>; rel="first", <list?p=1>; title="a, b; c"; rel="next"', ['</x>; rel="first"', '<list?p=1>; rel="next"'], ['<list?p=1>; rel="next"', '</x>; rel="last"'],
                 '<../tags/list?p=1>; rel="next"'):
        r = tags_of([({'tags': ['a']}, link), ({'tags': ['b']}, None)])
        assert r.status == 0 and r.out == 'a\nb\n', (link, r.out, r.err)
    for link in ('<http://127.0.0.9/v2/t/image/tags/list>; rel="next"', '<https://{host}/v2/t/image/tags/list?p=1>; rel="next"', '<http://u:p@{host}/v2/t/image/tags/list?p=1>; rel="next"',
                 '<file:///etc/passwd>; rel="next"', '<http://[>; rel="next"'):
        r = tags_of([({'tags': ['a']}, link), ({'tags': ['b']}, None)])
        bad(r, 'tags')
        assert r.out == ''
    r = tags_of([({'tags': ['a']}, '<?p=1>; rel="next"'), ({'tags': ['b']}, '<?p=0>; rel="next"')])
    bad(r, 'circle')
    r = tags_of([({'tags': ['a']}, '<?p=1>; rel="next"'), ({'tags': ['b']}, '<list>; rel="next"')])
    bad(r, 'circle')


def test_tags_bodies():
    for body in ({'tags': None}, {'name': 'x'}, {'tags': []}, {'tags': {}}, {'tags': 'x'}):
        r = tags_of([(body, None)])
        assert r.status == 0 and r.out == '', (body, r.err)
    r = tags_of([({'tags': ['ok', 'a\nb', 'x\x1b[31m', 'nul\u0000cut', '', 'é', '-a', '.a', 'a/b', 5, None, ['x'], 'y' * 129, 'z' * 128, 'OK_1.2-3']}, None)])
    assert r.out == 'ok\n' + 'z' * 128 + '\nOK_1.2-3\n', r.out
    bad(tags_of([([], None)]), 'tags')
    r = tags_of([({'tags': ['t%d' % i for i in range(50000)]}, None)])
    assert r.status == 0 and r.out.count('\n') == 50000
    for status in (404, 401, 500):
        with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(status)) as reg:
            r = provider('tags', f'{reg.host}/t/image', output=False)
            bad(r, str(status))
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply_json({'tags': ['a']}, Link=f'<?n={r.server.count("n")}>; rel="next"')) as reg:
        r = provider('tags', f'{reg.host}/t/image', output=False)
        bad(r, 'pages')
        assert len(reg.asked()) <= 501 and r.out == ''


def test_tags_nowhere_to_write():
    """A list that could not be printed was not printed."""
    pages = lambda r: r.reply_json({'tags': ['a']})
    with Registry(PLAIN_LAYOUT, fault=pages) as reg:
        for args in (['tags'], ['tags', '--progress', 'json']):
            with open('/dev/full', 'w') as full:
                p = subprocess.run([PROVIDER, *args, f'{reg.host}/t/image'], stdout=full, stderr=subprocess.PIPE)
                assert p.returncode == 1 and b'standard output' in p.stderr, p.stderr
            p = subprocess.run(f'{PROVIDER} {" ".join(args)} {reg.host}/t/image >&-', shell=True, stderr=subprocess.PIPE)
            assert p.returncode == 1 and b'standard output' in p.stderr, p.stderr
    with Registry(PLAIN_LAYOUT) as reg:
        for closed in ('>&-', '<&-', '>&- 2>&- <&-', '2>&-'):
            folder = tempfile.mkdtemp(dir=WORK)
            p = subprocess.run(f'exec {PROVIDER} --platform linux/amd64 --output {folder}/image {reg.host}/t/image {closed}', shell=True, stderr=subprocess.PIPE)
            assert p.returncode == 0, (closed, p.stderr)
            assert good(Result(0, '', '', folder, 0)) == WANT


# --- TLS, where loopback could also mean http
def test_tls_on_loopback():
    d = certificates(WORK)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(d + '/server.pem', d + '/server.key')
    with Registry(PLAIN_LAYOUT, tls=tls) as reg:
        r = pull(reg)
        bad(r, 'ertificate', '--ca')
        assert good(pull(reg, '--ca', d + '/ca.pem')) == WANT
        assert good(provider('--ca', d + '/ca.pem', f'localhost:{reg.port}/t/image')) == WANT
        assert good(pull(reg, '--insecure-registry', reg.host)) == WANT  # whatever its certificate
        bad(provider('--ca', d + '/other.pem', f'localhost:{reg.port}/t/image'), 'ertificate')
        bad(provider('--ca', '/nonexistent', f'localhost:{reg.port}/t/image'), '/nonexistent')
        bad(provider('--ca', '/etc/passwd', f'localhost:{reg.port}/t/image'), '/etc/passwd')
        a = bearer(lambda r: r.authorization == basic('me', SECRET))
        reg.auth = a
        assert good(pull(reg, '--ca', d + '/ca.pem', auth=auths(reg.host, **USER))) == WANT
        r = provider('tags', '--ca', d + '/ca.pem', f'{reg.host}/t/image', output=False)
        assert '404' in r.err or '401' in r.err, r.err
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(d + '/expired.pem', d + '/server.key')
    with Registry(PLAIN_LAYOUT, tls=tls) as reg:
        bad(pull(reg, '--ca', d + '/ca.pem'), 'expired')
    tls.load_cert_chain(d + '/elsewhere.pem', d + '/server.key')
    with Registry(PLAIN_LAYOUT, tls=tls) as reg:
        bad(pull(reg, '--ca', d + '/ca.pem'), 'matches')


def test_tls_realm():
    """A registry over https may not name a token server over http."""
    d = certificates(WORK)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(d + '/server.pem', d + '/server.key')
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply_json({'token': 'x'})) as thief:
        with Registry(PLAIN_LAYOUT, tls=tls, fault=lambda r: r.reply(401, WWW_Authenticate=f'Bearer realm="{thief.url}/token"')) as reg:
            bad(pull(reg, '--ca', d + '/ca.pem', auth=auths(reg.host, **USER)), 'https')
            assert thief.asked() == []


def test_ipv6():
    if not socket.has_ipv6:
        return 'no IPv6 here'
    try:
        socket.create_server(('::1', 0), family=socket.AF_INET6).close()
    except OSError as e:
        return f'no IPv6 here: {e}'
    with Registry(PLAIN_LAYOUT) as reg:
        listener = socket.create_server(('::1', 0), family=socket.AF_INET6)
        port = listener.getsockname()[1]

        def serve():
            while True:
                c, _ = listener.accept()
                up = socket.create_connection(('127.0.0.1', reg.port))
                for a, b in ((c, up), (up, c)):
                    threading.Thread(target=pump, args=(a, b), daemon=True).start()
        threading.Thread(target=serve, daemon=True).start()
        assert good(provider(f'[::1]:{port}/t/image')) == WANT
        assert good(provider(f'localhost:{port}/t/image')) == WANT
        a = bearer(lambda r: r.authorization == basic('me', SECRET))
        reg.auth = a
        assert good(provider('--insecure-registry', f'[::1]:{port}', f'[::1]:{port}/t/image', auth=auths(f'[::1]:{port}', **USER))) == WANT


def test_proxy_refuses():
    def serve(c, stop):
        c.recv(65536)
        c.sendall(b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="x"\r\nWWW-Authenticate: Bearer realm="http://127.0.0.1:1/"\r\nContent-Length: 0\r\n\r\n')
    with Raw(serve) as proxy:
        r = provider('registry.invalid/t/image', env={'https_proxy': f'http://me:{SECRET}@{proxy.host}'})
        bad(r, '407')
        r = provider('--insecure-registry', 'registry.invalid', 'registry.invalid/t/image', env={'http_proxy': f'http://me:{SECRET}@{proxy.host}'})
        bad(r, '407')


main(globals())
