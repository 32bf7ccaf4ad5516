# SPDX-License-Identifier: Apache-2.0
"""A registry that serves an OCI layout, with any fault one cares to put in.

Registry(layout, **faults) is a context manager; .host is what references begin with. A fault is a function that gets the Request and either
answers it (returns True) or leaves it to the registry (returns None). .log keeps what was asked.
"""
import base64, http.server, json, os, re, socket, ssl, subprocess, tempfile, threading, time, urllib.parse


class Request:
    """What faults see."""
    def __init__(self, handler, server):
        self.handler, self.server = handler, server
        url = urllib.parse.urlsplit(handler.path)
        self.method, self.path, self.query = handler.command, url.path, urllib.parse.parse_qs(url.query)
        self.headers = handler.headers
        self.authorization = handler.headers.get('Authorization', '')
        length = int(handler.headers.get('Content-Length') or 0)
        self.form = urllib.parse.parse_qs(handler.rfile.read(length).decode()) if length else {}
        m = re.match(r'^/v2/(.+)/(manifests|blobs|tags)/(.+)$', self.path)
        self.repository, self.kind, self.what = m.groups() if m else (None, None, None)
        r = re.match(r'^bytes=(\d+)-$', handler.headers.get('Range', ''))
        self.range = int(r.group(1)) if r else 0

    def reply(self, status=200, body=b'', length=True, **headers):
        h = self.handler
        h.send_response(status)
        for name, value in headers.items():
            for v in value if isinstance(value, list) else [value]:
                h.send_header(name.replace('_', '-'), v)
        if length:
            h.send_header('Content-Length', str(len(body) if length is True else length))
        h.end_headers()
        h.wfile.write(body)
        return True

    def reply_json(self, value, status=200, **headers):
        return self.reply(status, json.dumps(value).encode(), **dict({'Content_Type': 'application/json'}, **headers))

    def cut(self):
        """Ends the connection at once."""
        self.handler.wfile.flush()
        self.handler.close_connection = True
        try:
            self.handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        return True

    def hang(self):
        self.handler.wfile.flush()
        self.server.stopping.wait(120)
        self.handler.close_connection = True
        return True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def answer(self):
        try:
            request = Request(self, self.server.registry)
            self.server.registry.answer(request)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = answer


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, address):
        pass


class Registry:
    def __init__(self, layout=None, fault=None, auth=None, tls=None, address='127.0.0.1', port=0):
        self.layout, self.fault, self.auth, self.log, self.lock = layout, fault, auth, [], threading.Lock()
        self.stopping = threading.Event()
        self.counts = {}
        self.server = Server((address, port), Handler)
        self.server.registry = self
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.host = f'{address if address != "0.0.0.0" else "127.0.0.1"}:{self.port}'
        self.url = f'{"https" if tls else "http"}://{self.host}'

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *what):
        self.stopping.set()
        self.server.shutdown()
        self.server.server_close()

    def count(self, key):
        """How often this was called with the key before."""
        with self.lock:
            n = self.counts.get(key, 0)
            self.counts[key] = n + 1
            return n

    def asked(self, kind=None):
        with self.lock:
            return [e for e in self.log if kind is None or e[0] == kind]

    def answer(self, r):
        with self.lock:
            self.log.append((r.kind or r.path, r.what, r.authorization, r.range, r.handler.path))
        if self.fault and self.fault(r):
            return
        if self.auth and self.auth(r):
            return
        if r.kind == 'manifests':
            self.manifest(r)
        elif r.kind == 'blobs':
            self.blob(r)
        else:
            r.reply_json({'errors': [{'code': 'NOT_FOUND', 'message': 'no such thing'}]}, 404)

    def data(self, digest):
        algorithm, _, hex = digest.partition(':')
        path = f'{self.layout.path}/blobs/{algorithm}/{hex}'
        if not os.path.exists(path):
            return None
        with open(path, 'rb') as f:
            return f.read()

    def manifest(self, r):
        what, type = r.what, 'application/json'
        for e in self.layout.entries:
            if e['annotations']['org.opencontainers.image.ref.name'] == what:
                what, type = e['digest'], e['mediaType']
        data = self.data(what) if ':' in what else None
        if data is None:
            return r.reply_json({'errors': [{'code': 'MANIFEST_UNKNOWN', 'message': 'manifest unknown'}]}, 404)
        r.reply(200, data, Content_Type=type)

    def blob(self, r):
        data = self.data(r.what)
        if data is None:
            return r.reply_json({'errors': [{'code': 'BLOB_UNKNOWN', 'message': 'blob unknown'}]}, 404)
        if r.range:
            if r.range >= len(data):
                return r.reply(416, b'')
            return r.reply(206, data[r.range:], Content_Range=f'bytes {r.range}-{len(data) - 1}/{len(data)}')
        r.reply(200, data, Content_Type='application/octet-stream')


def basic(user, password):
    return 'Basic ' + base64.b64encode(f'{user}:{password}'.encode()).decode()


def bearer(check, name='token', expires=None, uses=10 ** 9, challenge=None):
    """An auth function: wants 'Bearer good-N' with N the newest token; /token gives one when check(request) holds."""
    state = dict(issued=0, used=0, scopes=[], lock=threading.Lock())

    def auth(r):
        if r.path == '/token':
            state['scopes'].append(r.query.get('scope') or r.form.get('scope'))
            if not check(r):
                return r.reply_json({'errors': [{'code': 'UNAUTHORIZED'}]}, 401)
            with state['lock']:
                state['issued'] += 1
                state['used'] = 0
                body = {name: f'good-{state["issued"]}'}
            if expires is not None:
                body['expires_in'] = expires
            return r.reply_json(body)
        with state['lock']:
            if r.authorization == f'Bearer good-{state["issued"]}' and state['used'] < uses:
                state['used'] += 1
                return None
        header = challenge or 'Bearer realm="{url}/token",service="reg, the best",scope="repository:t/image:pull"'
        if isinstance(header, str):
            header = [header]
        return r.reply(401, b'{"errors":[]}', WWW_Authenticate=[h.format(url=r.server.url) for h in header])
    auth.state = state
    return auth


def pump(a, b):
    """Carries bytes from one connection to another until it ends."""
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass
    for s in (a, b):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Raw:
    """A server below HTTP: serve(connection, stopping) has each connection to itself, which ends with it."""
    def __init__(self, serve):
        self.serve, self.stopping, self.connections = serve, threading.Event(), 0
        self.socket = socket.create_server(('127.0.0.1', 0), backlog=64)
        self.host = '127.0.0.1:%d' % self.socket.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *what):
        self.stopping.set()
        self.socket.close()

    def accept(self):
        while not self.stopping.is_set():
            try:
                c, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.one, args=(c,), daemon=True).start()

    def one(self, c):
        try:
            self.serve(c, self.stopping)
            c.shutdown(socket.SHUT_WR)
            c.settimeout(1)
            while c.recv(65536):
                pass
        except OSError:
            pass
        c.close()


def certificates(parent, names='IP:127.0.0.1,DNS:localhost'):
    """A folder with ca, other (another ca), server (for names), client, elsewhere (for another name) and expired, each .pem; expired and elsewhere have server.key."""
    d = tempfile.mkdtemp(dir=parent)

    def run(*args):
        subprocess.run(['openssl', *args], check=True, cwd=d, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def sign(request, out, names, *dates):
        with open(d + '/ext', 'w') as f:
            f.write(f'subjectAltName={names}\n')
        run('x509', '-req', '-in', request + '.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-out', out + '.pem', '-extfile', 'ext', *dates)
    for ca in ('ca', 'other'):
        run('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', ca + '.key', '-out', ca + '.pem', '-days', '2', '-subj', '/CN=' + ca)
    for who in ('server', 'client'):
        run('req', '-newkey', 'rsa:2048', '-nodes', '-keyout', who + '.key', '-out', who + '.csr', '-subj', '/CN=' + who)
        sign(who, who, names, '-days', '2')
    sign('server', 'elsewhere', 'DNS:elsewhere.invalid', '-days', '2')
    # Valid until a day before now.
    sign('server', 'expired', names, '-days', '-1')
    return d
