# SPDX-License-Identifier: Apache-2.0
"""What is in a squashfs or erofs file, as the kernel sees it where it can be mounted; a squashfs else as unsquashfs does."""
import hashlib, os, shutil, stat, subprocess, tempfile


def describe(path):
    st = os.lstat(path)
    e = dict(mode='%o' % stat.S_IMODE(st.st_mode), uid=str(st.st_uid), gid=str(st.st_gid), mtime=str(int(st.st_mtime)), size=str(st.st_size),
             nlink=str(st.st_nlink), ino=(st.st_dev, st.st_ino))
    kind = stat.S_IFMT(st.st_mode)
    if kind == stat.S_IFDIR:
        e['type'] = 'd'
    elif kind == stat.S_IFLNK:
        e['type'] = 'l:' + os.readlink(path)
    elif kind == stat.S_IFREG:
        e['type'] = 'f'
        if st.st_size < 1 << 26:
            with open(path, 'rb') as f:
                data = f.read()
            e['sha256'] = hashlib.sha256(data).hexdigest()
            if len(data) < 10000:
                e['type'] = 'f:' + data.decode('utf-8', 'surrogateescape')
    elif kind == stat.S_IFIFO:
        e['type'] = 'p'
    else:
        e['type'] = f'{"c" if kind == stat.S_IFCHR else "b"}:{os.major(st.st_rdev)}:{os.minor(st.st_rdev)}'
    try:
        for name in os.listxattr(path, follow_symlinks=False):
            e['x:' + name] = os.getxattr(path, name, follow_symlinks=False).hex()
    except OSError as err:
        if err.errno != 95:  # a squashfs without attributes says ENOTSUP
            raise
    return e


def tree(root):
    """{path relative to root: description}"""
    out = {'': describe(root)}
    stack = ['']
    while stack:
        at = stack.pop()
        for name in os.listdir(os.path.join(root, at)):
            rel = at + '/' + name if at else name
            out[rel] = describe(os.path.join(root, rel))
            if out[rel]['type'] == 'd':
                stack.append(rel)
    return out


def read(image, kind='squashfs'):
    folder = tempfile.mkdtemp(prefix='squash')
    root = folder + '/root'
    try:
        os.mkdir(root)
        mounted = subprocess.run(['mount', '-o', 'ro,loop', '-t', kind, image, root], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        if not mounted:
            if kind != 'squashfs':
                raise OSError(f'{image}: it cannot be mounted as {kind}')
            os.rmdir(root)
            subprocess.run(['unsquashfs', '-n', '-d', root, image], check=True, stdout=subprocess.DEVNULL)
        try:
            return tree(root)
        finally:
            if mounted:
                subprocess.run(['umount', root], check=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(expect, absent, got):
    """What differs, as sentences."""
    bad, groups = [], {}
    for path, spec in expect.items():
        if path not in got:
            bad.append(f'{path!r:.60} is missing')
            continue
        e = got[path]
        # A comma in the content is none of ours: content is never followed by checks that begin otherwise.
        first, *checks = spec.split(',')
        if e['type'] != first and not (first == 'f' and e['type'][0] == 'f'):
            bad.append(f'{path!r:.60} is {e["type"]!r:.60}, not {first!r:.60}')
        for check in checks:
            key, _, value = check.partition('=')
            if key == 'ino':
                groups.setdefault(value, set()).add(e['ino'])
            elif key.startswith('-'):
                if key[1:] in e:
                    bad.append(f'{path!r:.60} has {key[1:]}')
            elif e.get(key) != value:
                bad.append(f'{path!r:.60}: {key} is {e.get(key)!r:.60}, not {value!r:.60}')
    if any(len(g) > 1 for g in groups.values()):
        bad.append('names of one inode have several')
    if groups and len(set.union(*groups.values())) < len(groups):
        bad.append('different inodes are one')
    bad += [f'{p!r:.60} is there' for p in absent if p in got]
    return bad
