#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layer.py TREE OUT.tar: a tree, or what overlayfs put in an upper directory, as a layer

Sorted, numeric owners, PAX, hard links and extended attributes kept, times not after SOURCE_DATE_EPOCH. overlayfs' marks of deleted names
(device 0:0) and of directories that hide what is below (trusted.overlay.opaque) become .wh.NAME and .wh..wh..opq.
"""
import os, stat, sys, tarfile

EPOCH = int(os.environ['SOURCE_DATE_EPOCH'])


def xattrs(path):
    return {x: os.getxattr(path, x, follow_symlinks=False) for x in os.listxattr(path, follow_symlinks=False)}


class Layer:
    def __init__(self, tar):
        self.tar, self.links = tar, {}

    def mark(self, name):
        ti = tarfile.TarInfo(name)
        ti.mode, ti.mtime = 0o600, EPOCH
        self.tar.addfile(ti)

    def add(self, path, name):
        st = os.lstat(path)
        if stat.S_ISSOCK(st.st_mode):
            return
        if stat.S_ISCHR(st.st_mode) and st.st_rdev == 0:
            head, tail = os.path.split(name)
            return self.mark(os.path.join(head, '.wh.' + tail))
        ti = self.tar.gettarinfo(path, arcname=name)
        ti.uname = ti.gname = ''
        ti.mtime = min(int(st.st_mtime), EPOCH)
        if stat.S_ISREG(st.st_mode):
            first = self.links.setdefault((st.st_dev, st.st_ino), name)
            if first != name:
                ti.type, ti.linkname, ti.size = tarfile.LNKTYPE, first, 0
            else:
                ti.type, ti.linkname, ti.size = tarfile.REGTYPE, '', st.st_size
        opaque = False
        for key, value in xattrs(path).items():
            if not key.startswith('trusted.overlay.'):
                ti.pax_headers['SCHILY.xattr.' + key] = value.decode('utf-8', 'surrogateescape')
            opaque |= key == 'trusted.overlay.opaque' and value == b'y'
        if ti.isreg():
            with open(path, 'rb') as f:
                self.tar.addfile(ti, f)
        else:
            self.tar.addfile(ti)
        if ti.isdir():
            if opaque:
                self.mark(name + '/.wh..wh..opq')
            self.add_all(path, name + '/')

    def add_all(self, path, prefix):
        for entry in sorted(os.listdir(path)):
            self.add(os.path.join(path, entry), prefix + entry)


tree, out = sys.argv[1:]
with tarfile.open(out, 'w', format=tarfile.PAX_FORMAT, copybufsize=1 << 20) as tar:
    Layer(tar).add_all(tree, '')
