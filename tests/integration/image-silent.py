#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registries that fall silent, at every place where they can: each is left within 90 seconds. image-silent.py [NAME...]"""
import os, socket, sys, time

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
from ocitar import *
from pulling import *
from registry import Raw, Registry


def silent(fault, **more):
    with Registry(PLAIN_LAYOUT, fault=fault, **more) as reg:
        r = pull(reg)
        bad(r)
        assert r.seconds < 90, r.seconds


def test_silent_in_pieces():
    """Each request brings some bytes and then none."""
    def fault(r):
        if is_big(r):
            data = r.server.data(r.what)
            r.reply(206 if r.range else 200, data[r.range:r.range + 50000], length=len(data) - r.range, Content_Range=f'bytes {r.range}-{len(data) - 1}/{len(data)}')
            return r.hang()
    silent(fault)


def test_silent_drip():
    """A byte a second, each time the request is taken up again."""
    def fault(r):
        if is_big(r):
            data = r.server.data(r.what)
            r.reply(206 if r.range else 200, b'', length=len(data) - r.range, Content_Range=f'bytes {r.range}-{len(data) - 1}/{len(data)}')
            at = r.range
            while not r.server.stopping.wait(1):
                r.handler.wfile.write(data[at:at + 1])
                at += 1
            return True
    silent(fault)


def test_silent_token():
    def fault(r):
        if r.path == '/token':
            return r.hang()
        return r.reply(401, WWW_Authenticate=f'Bearer realm="{r.server.url}/token"')
    silent(fault)


def test_silent_config():
    silent(lambda r: r.hang() if r.what == CONFIG else None)


def test_silent_redirects():
    """Each hop takes its time."""
    def fault(r):
        r.server.stopping.wait(15)
        return r.reply(302, Location=f'{r.path}?{r.server.count("n")}')
    silent(fault)


def test_silent_slow_manifest():
    """Fast enough not to be silent, slow enough never to end."""
    def fault(r):
        if r.kind == 'manifests':
            r.reply(200, b'', length=4000000)
            while not r.server.stopping.wait(1):
                r.handler.wfile.write(b' ' * 900)
            return True
    silent(fault)


def raw_silence(serve, scheme=None, args=()):
    with Raw(serve) as raw:
        r = provider(*args, f'{raw.host}/t/image')
        bad(r)
        assert r.seconds < 90, r.seconds


def test_silent_accepted():
    raw_silence(lambda c, stop: stop.wait(200))


def test_silent_mid_header():
    raw_silence(lambda c, stop: (c.recv(4096), c.sendall(b'HTTP/1.1 200 OK\r\nContent-Le'), stop.wait(200)))


def flood(head, piece):
    """Bytes without end that are part of no body."""
    sent = []

    def serve(c, stop):
        c.recv(65536)
        c.sendall(head)
        while not stop.is_set():
            c.sendall(piece)
            sent.append(len(piece))
            time.sleep(0.001)
    raw_silence(serve)


def test_silent_chunk_extension():
    flood(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;', b'x' * 1000)


def test_silent_trailers():
    flood(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n', b'X: ' + b'y' * 1000 + b'\r\n')


def test_silent_empty_lines():
    flood(b'', b'\r\n' * 1000)


def test_silent_handshake_flood():
    with Raw(lambda c, stop: (c.recv(4096), c.sendall(b'HTTP/1.1 200 OK\r\n'), [c.sendall(b'X: y\r\n' * 100) or time.sleep(0.001) for _ in iter(stop.is_set, True)])) as proxy:
        r = provider('registry.invalid/t/image', env={'https_proxy': f'http://{proxy.host}'})
        bad(r)
        assert r.seconds < 90, r.seconds


def test_silent_backlog():
    """Nobody accepts."""
    s = socket.socket()
    s.bind(('127.0.0.1', 0))
    s.listen(0)
    fill = []
    for i in range(4):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex(s.getsockname())
        fill.append(c)
    r = provider(f'127.0.0.1:{s.getsockname()[1]}/t/image')
    bad(r)
    assert r.seconds < 90, r.seconds


def test_silent_handshake():
    with Raw(lambda c, stop: stop.wait(200)) as proxy:
        r = provider('registry.invalid/t/image', env={'https_proxy': f'http://{proxy.host}'})
        bad(r)
        assert r.seconds < 90, r.seconds
    with Raw(lambda c, stop: (c.recv(4096), c.sendall(b'HTTP/1.1 200 OK\r\n\r\n'), stop.wait(200))) as proxy:
        r = provider('registry.invalid/t/image', env={'https_proxy': f'http://{proxy.host}'})
        bad(r)
        assert r.seconds < 90, r.seconds


def test_silent_tags():
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.hang() if 'last' in r.query else r.reply_json({'tags': ['a']}, Link='<?last=a>; rel="next"')) as reg:
        r = provider('tags', f'{reg.host}/t/image', output=False)
        bad(r, 'tags')
        assert r.seconds < 90 and r.out == ''


def patient(kind):
    """A registry that says "later" for ever is left after a minute of waiting for it."""
    with Registry(PLAIN_LAYOUT, fault=lambda r: r.reply(429, Retry_After='86400') if r.kind == kind else None) as reg:
        r = pull(reg)
        bad(r, '429')
        assert r.seconds < 90 and len(reg.asked()) < 6, r.seconds


def test_silent_retry_after_manifest():
    patient('manifests')


def test_silent_retry_after_blob():
    patient('blobs')


main(globals())
