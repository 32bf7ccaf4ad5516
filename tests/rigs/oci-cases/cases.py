# SPDX-License-Identifier: Apache-2.0
"""Layers and the tree that must come of them, or the refusal.

CASES: name -> Case(why, layers (oldest first), expect, absent).
expect is REFUSE, or {path: spec}: "d", "f:CONTENT", "f", "l:TARGET", "c:MAJOR:MINOR", "b:...", "p", then ",key=value" checks: mode (octal), uid,
gid, mtime, size, sha256, nlink, ino (equal letters: the same inode, different letters: different ones), x:NAME (attribute, in hex),
-x:NAME (no such attribute). Paths that are not named are not looked at.
"""
import gzip, hashlib, os, zlib
from ocitar import *

REFUSE = 'refuse'
MIB = 1 << 20


class Case:
    def __init__(self, why, layers, expect, absent):
        self.why, self.layers, self.expect, self.absent = why, layers, expect, absent


CASES = {}


def case(name, why, layers, expect, absent=()):
    assert name not in CASES, name
    CASES[name] = Case(why, layers, expect, list(absent))


def sha(data):
    return hashlib.sha256(data).hexdigest()


A = dir('a')

# --- whiteouts and opaque directories
case('wh-file', 'a whiteout hides one file', [A + file('a/x', '1') + file('a/y', '2'), A + whiteout('a/x')], {'a/y': 'f:2'}, ['a/x', 'a/.wh.x'])
case('wh-dir', 'a whiteout of a directory hides all below it', [A + dir('a/d') + file('a/d/x', '1') + file('a/y', '2'), A + whiteout('a/d')],
     {'a/y': 'f:2'}, ['a/d', 'a/d/x'])
case('wh-direction', 'a whiteout hides nothing of a newer layer', [A, A + whiteout('a/x'), A + file('a/x', '3')], {'a/x': 'f:3'})
case('wh-and-file', 'whiteout, then the new file, in one layer', [A + file('a/x', 'old'), A + whiteout('a/x') + file('a/x', 'new')], {'a/x': 'f:new'})
case('file-and-wh', 'the new file, then the whiteout, in one layer', [A + file('a/x', 'old'), A + file('a/x', 'new') + whiteout('a/x')], {'a/x': 'f:new'})
case('wh-and-dir', 'whiteout and directory in one layer: the old children go', [A + dir('a/d', 0o700) + file('a/d/x', '1'),
     A + whiteout('a/d') + dir('a/d', 0o750) + file('a/d/y', '2')], {'a/d': 'd,mode=750', 'a/d/y': 'f:2'}, ['a/d/x'])
case('dir-and-wh', 'the same, the other way round', [A + dir('a/d') + file('a/d/x', '1'), A + dir('a/d') + file('a/d/y', '2') + whiteout('a/d')],
     {'a/d/y': 'f:2'}, ['a/d/x'])
case('wh-implicit-parent', 'whiteout of a directory and a new file below, without an entry for it: its metadata is not the old one',
     [A + dir('a/d', 0o700, uid=7), A + whiteout('a/d') + file('a/d/y', '2')], {'a/d': 'd,mode=755,uid=0', 'a/d/y': 'f:2'})
case('opaque', 'an opaque directory', [A + file('a/x', '1') + dir('a/s') + file('a/s/z', '3'), A + opaque('a') + file('a/n', '2')],
     {'a': 'd', 'a/n': 'f:2'}, ['a/x', 'a/s', 'a/s/z', 'a/' + OPAQUE])
case('opaque-late', 'the marker after its siblings', [A + file('a/x', '1'), A + dir('a/s') + file('a/s/n', '2') + file('a/m', '3') + opaque('a')],
     {'a/s/n': 'f:2', 'a/m': 'f:3'}, ['a/x'])
case('opaque-no-parents', 'the marker and deep siblings, without entries for parents', [dir('p') + dir('p/q') + file('p/q/x', '1') + file('p/q/k', '1'),
     file('p/q/r/n', '2') + opaque('p/q')], {'p/q/r/n': 'f:2'}, ['p/q/x', 'p/q/k'])
case('opaque-keeps-dir', 'a marker without an entry for its directory keeps the older metadata', [A + dir('a/d', 0o711, uid=5) + file('a/d/x', '1'),
     opaque('a/d')], {'a/d': 'd,mode=711,uid=5'}, ['a/d/x'])
case('opaque-root', 'the root can be opaque', [file('x', '1') + A + file('a/y', '1'), opaque('') + file('z', '2')], {'z': 'f:2'}, ['x', 'a'])
case('opaque-then-file-wh', 'opaque in 2, a file of 2 deleted in 3: older files stay hidden', [A + dir('a/d') + file('a/d/x', '1'),
     A + dir('a/d') + opaque('a/d') + file('a/d/x', '2') + file('a/d/y', '2'), A + dir('a/d') + whiteout('a/d/x')], {'a/d/y': 'f:2'}, ['a/d/x'])
case('opaque-file-wh-last', 'the same with the marker after the file', [A + dir('a/d') + file('a/d/x', '1'), A + dir('a/d') + file('a/d/x', '2') + opaque('a/d'),
     whiteout('a/d/x')], {'a/d': 'd'}, ['a/d/x'])
case('opaque-then-dir-wh', 'opaque in 2, the directory deleted in 3', [A + dir('a/d') + file('a/d/x', '1'), A + dir('a/d') + opaque('a/d') + file('a/d/y', '2'),
     A + whiteout('a/d')], {'a': 'd'}, ['a/d', 'a/d/x', 'a/d/y'])
case('opaque-twice', 'opaque in 2 and again in 3', [A + file('a/x', '1'), A + opaque('a') + file('a/y', '2'), A + opaque('a') + file('a/z', '3')],
     {'a/z': 'f:3'}, ['a/x', 'a/y'])
case('opaque-deep', 'opaque above, a whiteout below, then new files', [A + dir('a/b') + file('a/b/x', '1') + file('a/b/w', '1'),
     A + opaque('a') + dir('a/b') + file('a/b/x', '2'), A + dir('a/b') + whiteout('a/b/x'), A + dir('a/b') + file('a/b/v', '4')],
     {'a/b/v': 'f:4'}, ['a/b/x', 'a/b/w'])
case('wh-then-recreate', 'deleted in 2, made again in 3', [A + dir('a/d') + file('a/d/x', '1'), A + whiteout('a/d'), A + dir('a/d') + file('a/d/y', '2')],
     {'a/d/y': 'f:2'}, ['a/d/x'])
case('wh-file-recreate', 'a file deleted in 2, made again in 3', [A + file('a/x', 'old', mode=0o600), A + whiteout('a/x'), A + file('a/x', 'new')],
     {'a/x': 'f:new,mode=644'})
case('wh-per-layer', 'whiteouts count layer by layer, not once at the end', [A + file('a/x', '1'), A + whiteout('a/x'), A + file('a/x', '3'), A + whiteout('a/y')],
     {'a/x': 'f:3'})
case('wh-hardlink', 'a whiteout by its name, though the entry is a hard link', [A + file('a/x', '1') + file('a/k', '2'), A + hardlink('a/.wh.x', 'a/k')],
     {'a/k': 'f:2'}, ['a/x', 'a/.wh.x'])
case('wh-of-link-name', 'one name of a linked file is deleted, the others are fine', [A + file('a/x', '1') + hardlink('a/y', 'a/x') + hardlink('a/z', 'a/x'),
     A + whiteout('a/z')], {'a/x': 'f:1,ino=A,nlink=2', 'a/y': 'f:1,ino=A'}, ['a/z'])
case('wh-aufs', 'what aufs left is neither file nor whiteout', [A + file('a/x', '1'),
     A + file('a/.wh..wh.aufs') + dir('a/.wh..wh.plnk') + file('a/.wh..wh.plnk/1.2', 'z') + dir('.wh..wh.orph')], {'a/x': 'f:1'},
     ['a/.wh..wh.aufs', 'a/.wh..wh.plnk', 'a/.wh.aufs', '.wh..wh.orph'])
case('wh-opqx', 'only the exact name is an opaque marker', [A + file('a/x', '1'), A + file('a/.wh..wh..opqX')], {'a/x': 'f:1'}, ['a/.wh..wh..opqX'])
case('wh-base', 'markers in the oldest layer vanish', [A + opaque('a') + whiteout('a/z') + file('a/x', '1')], {'a/x': 'f:1'}, ['a/' + OPAQUE, 'a/.wh.z'])
case('wh-dot', 'a whiteout of "." is refused', [A + file('a/x', '1'), A + file('a/.wh..')], REFUSE)
case('wh-dotdot', 'a whiteout of ".." is refused', [A + file('a/x', '1'), A + file('a/.wh...')], REFUSE)
case('wh-bare', 'a whiteout of nothing is refused', [A + file('a/x', '1'), A + file('a/.wh.')], REFUSE)
case('wh-nothing', 'a whiteout of what never was', [A + file('a/x', '1'), A + whiteout('a/none') + whiteout('b/c/d')], {'a/x': 'f:1'}, ['b', 'a/none'])
case('wh-below-file', 'a whiteout below what is now a file', [A + dir('a/d') + file('a/d/x', '1'), A + file('a/d', 'f'), whiteout('a/d/x')], {'a/d': 'f:f'})
case('char-00', 'a character device 0:0 hides no sibling', [A + file('a/x', '1') + device('a/w', b'3', 0, 0)], {'a/x': 'f:1'})
case('fifo-wh', 'a fifo is deleted', [A + fifo('a/p') + fifo('a/q'), A + whiteout('a/p')], {'a/q': 'p'}, ['a/p'])

# --- hard links
case('hl-same-layer', 'two names of one file', [A + file('a/x', '1') + hardlink('a/y', 'a/x')], {'a/x': 'f:1,ino=A,nlink=2', 'a/y': 'f:1,ino=A'})
case('hl-wh-target', 'the first name is deleted', [A + file('a/x', '1') + hardlink('a/y', 'a/x'), A + whiteout('a/x')], {'a/y': 'f:1,nlink=1'}, ['a/x'])
case('hl-wh-target-3', 'the first of three is deleted: the others share an inode', [A + file('a/x', '1') + hardlink('a/y', 'a/x') + hardlink('a/z', 'a/x'),
     A + whiteout('a/x')], {'a/y': 'f:1,ino=A,nlink=2', 'a/z': 'f:1,ino=A'}, ['a/x'])
case('hl-wh-all', 'all names are deleted', [A + file('a/x', '1') + hardlink('a/y', 'a/x'), A + whiteout('a/x') + whiteout('a/y')], {'a': 'd'}, ['a/x', 'a/y'])
case('hl-wh-empty', 'an empty file, first name deleted', [A + file('a/x') + hardlink('a/y', 'a/x'), A + whiteout('a/x')], {'a/y': 'f,size=0'}, ['a/x'])
case('hl-wh-dir', 'the first name goes with its directory', [A + dir('a/d') + file('a/d/x', '1') + hardlink('y', 'a/d/x'), A + whiteout('a/d')], {'y': 'f:1'}, ['a/d'])
case('hl-opaque-target', 'the first name is hidden by an opaque directory', [A + dir('a/d') + file('a/d/x', '1') + hardlink('y', 'a/d/x'), A + dir('a/d') + opaque('a/d')],
     {'y': 'f:1', 'a/d': 'd'}, ['a/d/x'])
case('hl-cross', 'a link in layer 2 to a file of layer 1', [A + file('a/x', '1'), A + hardlink('a/y', 'a/x')], {'a/x': 'f:1,ino=A,nlink=2', 'a/y': 'f:1,ino=A'})
case('hl-cross-replaced', '... and the file is replaced in 3: the link keeps the old bytes', [A + file('a/x', 'old'), A + hardlink('a/y', 'a/x'), A + file('a/x', 'new')],
     {'a/x': 'f:new,ino=A', 'a/y': 'f:old,ino=B'})
case('hl-cross-wh', '... and deleted in 3', [A + file('a/x', 'old'), A + hardlink('a/y', 'a/x'), A + whiteout('a/x')], {'a/y': 'f:old'}, ['a/x'])
case('hl-cross-many', '... two links in two layers, the file deleted', [A + file('a/x', 'old'), A + hardlink('a/y', 'a/x'), A + hardlink('a/z', 'a/x'), A + whiteout('a/x')],
     {'a/y': 'f:old,ino=A', 'a/z': 'f:old,ino=A'}, ['a/x'])
case('hl-cross-rename', 'a layer that links a lower file and deletes its old name', [A + file('a/x', 'old'), A + hardlink('a/y', 'a/x') + whiteout('a/x')],
     {'a/y': 'f:old,nlink=1'}, ['a/x'])
case('hl-cross-rename-wh-first', 'the same, the whiteout first', [A + file('a/x', 'old'), A + whiteout('a/x') + hardlink('a/y', 'a/x')], {'a/y': 'f:old'}, ['a/x'])
case('hl-cross-dir', '... and the target becomes a directory', [A + file('a/x', 'old'), A + hardlink('a/y', 'a/x'), A + dir('a/x') + file('a/x/n', 'new')],
     {'a/y': 'f:old', 'a/x/n': 'f:new'})
case('hl-replaced', 'one name of a pair is replaced in 2', [A + file('a/x', 'old') + hardlink('a/y', 'a/x'), A + file('a/x', 'new')],
     {'a/x': 'f:new,ino=A,nlink=1', 'a/y': 'f:old,ino=B,nlink=1'})
case('hl-pair-replaced', 'the pair is replaced by a pair', [A + file('a/x', 'old') + hardlink('a/y', 'a/x') + hardlink('a/z', 'a/x'), A + file('a/x', 'new') + hardlink('a/y', 'a/x')],
     {'a/x': 'f:new,ino=A', 'a/y': 'f:new,ino=A', 'a/z': 'f:old,ino=B'})
case('hl-over-file', 'a link takes the place of a lower file', [A + file('a/x', '1') + file('a/y', '2'), A + file('a/x', '3') + hardlink('a/y', 'a/x')],
     {'a/x': 'f:3,ino=A', 'a/y': 'f:3,ino=A'})
case('hl-over-dir', 'a link takes the place of a lower directory', [A + dir('a/y') + file('a/y/z', '2'), A + file('a/x', '3') + hardlink('a/y', 'a/x')],
     {'a/x': 'f:3,ino=A', 'a/y': 'f:3,ino=A'})
case('hl-to-fifo', 'a link to a fifo', [A + fifo('a/p') + hardlink('a/q', 'a/p')], {'a/p': 'p,ino=A', 'a/q': 'p,ino=A'})
case('hl-to-symlink', 'a link to a symlink is another name of it', [A + symlink('a/s', 'nowhere') + hardlink('a/t', 'a/s')],
     {'a/s': 'l:nowhere,ino=A,nlink=2', 'a/t': 'l:nowhere,ino=A'})
case('hl-to-device', 'a link to a device', [A + device('a/n', b'3', 1, 3) + hardlink('a/m', 'a/n')], {'a/n': 'c:1:3,ino=A', 'a/m': 'c:1:3,ino=A'})
case('hl-no-parent', 'a link whose directory has no entry', [file('bin/app', '1') + hardlink('bin/r/m/app', 'bin/app')],
     {'bin/app': 'f:1,ino=A', 'bin/r/m/app': 'f:1,ino=A', 'bin/r/m': 'd,mode=755'})
case('hl-dot-abs', 'targets written ./a/x and /a/x', [A + file('./a/x', '1') + hardlink('./a/y', './a/x') + hardlink('/a/z', '/a/x')],
     {'a/x': 'f:1,ino=A', 'a/y': 'f:1,ino=A', 'a/z': 'f:1,ino=A'})
case('hl-chain', 'a link to a link', [A + file('a/x', '1') + hardlink('a/y', 'a/x') + hardlink('a/z', 'a/y')],
     {'a/x': 'f:1,ino=A', 'a/y': 'f:1,ino=A', 'a/z': 'f:1,ino=A'})
case('hl-chain-wh', '... whose middle name is deleted', [A + file('a/x', '1') + hardlink('a/y', 'a/x') + hardlink('a/z', 'a/y'), A + whiteout('a/y')],
     {'a/x': 'f:1,ino=A', 'a/z': 'f:1,ino=A'}, ['a/y'])
case('hl-through-symlink', 'the target is written through a symlinked directory', [dir('usr') + dir('usr/lib') + file('usr/lib/x', '1') + symlink('lib', 'usr/lib'),
     hardlink('y', 'lib/x')], {'y': 'f:1,ino=A', 'usr/lib/x': 'f:1,ino=A'})
case('hl-missing', 'a link to nothing', [A + hardlink('a/y', 'a/none')], REFUSE)
case('hl-forward', 'a link before its target', [A + hardlink('a/y', 'a/x') + file('a/x', '1')], REFUSE)
case('hl-dir', 'a link to a directory', [A + dir('a/d') + hardlink('a/y', 'a/d')], REFUSE)
case('hl-metadata', 'a link entry brings stale metadata: the inode counts', [A + file('a/x', '1', mode=0o4755, uid=5) + hardlink('a/y', 'a/x', mode=0o600)],
     {'a/x': 'f:1,ino=A,mode=4755,uid=5', 'a/y': 'f:1,ino=A,mode=4755'})
LONG_X, LONG_Y = 'd' * 90 + '/' + 'f' * 90, 'd' * 90 + '/' + 'g' * 90
case('hl-long', 'target and name over 100 bytes, the target deleted', [dir('d' * 90) + file('x', '1', records={'path': LONG_X}) +
     hardlink('x', 'x', records={'path': LONG_Y, 'linkpath': LONG_X}), dir('d' * 90) + file('x', records={'path': 'd' * 90 + '/.wh.' + 'f' * 90})],
     {LONG_Y: 'f:1'}, [LONG_X])
case('hl-long-cross', 'a long target in another layer', [dir('d' * 90) + file('x', '1', records={'path': LONG_X}),
     hardlink('x', 'x', records={'path': LONG_Y, 'linkpath': LONG_X})], {LONG_X: 'f:1,ino=A', LONG_Y: 'f:1,ino=A'})
case('hl-100', 'a target of exactly 100 bytes, without a NUL', [file('t' * 100, '1') + hardlink('y', 't' * 100)], {'t' * 100: 'f:1,ino=A', 'y': 'f:1,ino=A'})

# --- types that change, parents
case('dir-to-file', 'a directory becomes a file', [A + dir('a/d') + file('a/d/x', '1'), A + file('a/d', '2')], {'a/d': 'f:2'})
case('dir-to-symlink', 'a directory becomes a symlink: nothing of it shows through', [A + dir('a/d') + file('a/d/x', '1') + dir('r') + file('r/k', '2'), A + symlink('a/d', '../r')],
     {'a/d': 'l:../r', 'r/k': 'f:2'}, ['r/x'])
case('dir-to-symlink-wh', 'the same with a whiteout', [A + dir('a/d') + file('a/d/x', '1'), A + whiteout('a/d') + symlink('a/d', 'z')], {'a/d': 'l:z'})
case('file-to-dir', 'a file becomes a directory', [A + file('a/d', '1'), A + dir('a/d') + file('a/d/x', '2')], {'a/d/x': 'f:2'})
case('symlink-to-dir', 'a symlink becomes a directory', [A + dir('r') + file('r/k', '1') + symlink('a/d', '/r'), A + dir('a/d') + file('a/d/x', '2')],
     {'a/d': 'd', 'a/d/x': 'f:2', 'r/k': 'f:1'}, ['r/x', 'a/d/k'])
case('symlink-to-dir-late', 'the same, the directory\'s entry last', [A + dir('r') + file('r/k', '1') + symlink('a/d', '/r'), A + file('a/d/x', '2') + dir('a/d')],
     {'a/d': 'd', 'a/d/x': 'f:2', 'r/k': 'f:1'}, ['r/x'])
case('symlink-to-dir-wh', 'a whiteout in what used to be a symlink deletes nothing elsewhere', [A + dir('r') + file('r/k', '1') + symlink('a/d', '/r'),
     A + dir('a/d') + whiteout('a/d/k')], {'a/d': 'd', 'r/k': 'f:1'}, ['a/d/k'])
case('symlink-to-file', 'a symlink becomes a file', [symlink('s', 'r') + file('r', '1'), file('s', '2')], {'s': 'f:2', 'r': 'f:1'})
case('dir-file-dir', 'directory, file, directory: nothing of the first comes back', [A + dir('a/d') + file('a/d/x', '1'), A + file('a/d', '2'), A + dir('a/d') + file('a/d/y', '3')],
     {'a/d/y': 'f:3'}, ['a/d/x'])
case('dir-meta', 'a directory\'s entry again: new metadata, the children stay', [A + file('a/x', '1'), dir('a', 0o700, uid=7, mtime=5)], {'a': 'd,mode=700,uid=7,mtime=5', 'a/x': 'f:1'})
case('file-meta', 'the newer mode counts', [A + file('a/x', '1', mode=0o600), A + file('a/x', '1', mode=0o755)], {'a/x': 'f:1,mode=755'})
case('symlink-parent', 'a file below a symlink of a lower layer, without an entry for the directory', [dir('usr') + dir('usr/lib') + file('usr/lib/x', '1') + symlink('lib', 'usr/lib'),
     file('lib/n', '2')], {'lib': 'l:usr/lib', 'usr/lib/n': 'f:2', 'usr/lib/x': 'f:1'})
case('symlink-parent-replace', '... replaces the file the symlink leads to', [dir('usr') + dir('usr/lib') + file('usr/lib/x', '1') + symlink('lib', 'usr/lib'), file('lib/x', '2')],
     {'lib': 'l:usr/lib', 'usr/lib/x': 'f:2'})
case('symlink-parent-wh', 'a whiteout below a symlink of a lower layer', [dir('usr') + dir('usr/lib') + file('usr/lib/x', '1') + file('usr/lib/y', '1') + symlink('lib', 'usr/lib'),
     file('lib/.wh.x')], {'lib': 'l:usr/lib', 'usr/lib/y': 'f:1'}, ['usr/lib/x'])
case('symlink-parent-opaque', 'an opaque marker below a symlink', [dir('r') + file('r/x', '1') + symlink('s', 'r'), opaque('s')], {'s': 'l:r', 'r': 'd'}, ['r/x'])
case('symlink-parent-chain', 'through two symlinks, one absolute', [dir('r') + symlink('s', '/t') + symlink('t', './r'), file('s/n', '2')], {'r/n': 'f:2', 's': 'l:/t', 't': 'l:./r'})
case('symlink-parent-dangling', 'a symlink to what is not there: its target is made', [symlink('s', 'new/place'), file('s/n', '2')], {'s': 'l:new/place', 'new/place/n': 'f:2'})
case('symlink-loop', 'symlinks that lead in a circle', [symlink('s', 't') + symlink('t', 's'), file('s/n', '2')], REFUSE)
case('symlink-hidden-then-seen', 'a file hidden as written, but alive where the link of its time led', [dir('r') + symlink('d', 'r'), file('d/x', 'through'), dir('d') + file('d/y', '3')],
     {'d': 'd', 'd/y': 'f:3', 'r/x': 'f:through'}, ['d/x'])
case('no-parents', 'files whose directories have no entries', [file('p/q/r', '1')], {'p/q/r': 'f:1', 'p': 'd,mode=755,uid=0,gid=0', 'p/q': 'd,mode=755'})
case('late-parent', 'a directory\'s entry after its children', [file('p/r', '1') + dir('p', 0o750, uid=9)], {'p/r': 'f:1', 'p': 'd,mode=750,uid=9'})
case('parent-was-file', 'a file stands where a directory is needed', [file('p', '1'), file('p/q', '2')], {'p': 'd', 'p/q': 'f:2'})
case('parent-was-file-same', 'the same in one layer', [file('p', '1') + file('p/q', '2')], {'p': 'd', 'p/q': 'f:2'})
case('root-meta', 'the entry ./ describes the root', [dir('./', 0o711, uid=3, gid=4, mtime=77) + file('x', '1')], {'': 'd,mode=711,uid=3,gid=4,mtime=77', 'x': 'f:1'})
case('root-default', 'without one, the root is 0755 root', [file('x', '1')], {'': 'd,mode=755,uid=0,gid=0'})
case('root-not-dir', 'a symlink called "."', [symlink('.', '/etc')], REFUSE)
case('root-file', 'a file called "./"', [entry('./.', b'0', b'x')], REFUSE)

# --- escapes
case('dotdot', '".." stops at the root', [A + file('a/../b', '1') + file('../../c', '2')], {'b': 'f:1', 'c': 'f:2'}, ['..'])
case('escape-symlink', 'a symlink out of the root leads to the root', [symlink('e', '../../tmp') + file('e/f', '1')], {'e': 'l:../../tmp', 'tmp/f': 'f:1'})
case('escape-absolute', 'an absolute symlink means the image\'s root', [symlink('e', '/etc') + file('e/passwd', 'inside')], {'etc/passwd': 'f:inside'})

# --- names
LONG1, LONG2 = 'n' * 120, '/'.join(['p' * 60] * 6)
case('pax-long', 'names over 100 and 255 bytes, a long symlink target', [file('x', '1', records={'path': LONG1}) + file('x', '2', records={'path': LONG2}) +
     symlink('x', 'y', records={'path': 'sl', 'linkpath': 't' * 300})], {LONG1: 'f:1', LONG2: 'f:2', 'sl': 'l:' + 't' * 300})
case('gnu-long', 'GNU L and K records', [gnu_long(b'L', LONG1) + file(LONG1, '1', magic=b'ustar  \0') + gnu_long(b'K', 't' * 300) + gnu_long(b'L', 's' * 130) +
     symlink('s' * 130, 't' * 300, magic=b'ustar  \0')], {LONG1: 'f:1', 's' * 130: 'l:' + 't' * 300})
case('pax-beats-gnu', 'PAX names count more than GNU\'s', [gnu_long(b'L', 'wrong') + file('x', '1', records={'path': 'right'})], {'right': 'f:1'}, ['wrong', 'x'])
case('ustar-prefix', 'the prefix field', [file('x', '1', patch={345: b'pre/fix'})], {'pre/fix/x': 'f:1'})
case('gnu-no-prefix', 'GNU headers have other things there', [file('x', '1', magic=b'ustar  \0', patch={345: b'01234567'})], {'x': 'f:1'})
case('name-dots', './a, a//b, a/./b, /abs, trailing slashes', [dir('./a/') + file('a//b', '1') + file('a/./c', '2') + file('/abs', '3') + dir('./a/d//')],
     {'a/b': 'f:1', 'a/c': 'f:2', 'abs': 'f:3', 'a/d': 'd'})
case('name-once', './x and x are one', [file('./x', '1'), file('x', '2')], {'x': 'f:2'})
case('name-bytes', 'names that are not UTF-8', [file(b'n\xff', '1') + file(b'n\xfe', '2') + file('n\u00e9', '3')], {'n\udcff': 'f:1', 'n\udcfe': 'f:2', 'n\u00e9': 'f:3'})
case('name-odd', 'newline, backslash, quotes, dash', [file('a\nb', '1') + file('c\\d', '2') + file("q'\"", '3') + file('-x', '4')],
     {'a\nb': 'f:1', 'c\\d': 'f:2', "q'\"": 'f:3', '-x': 'f:4'})
case('name-255', 'a component of 255 bytes', [file('x', '1', records={'path': 'm' * 255})], {'m' * 255: 'f:1'})
case('name-256', 'a component of 256 bytes', [file('x', '1', records={'path': 'm' * 256})], REFUSE)
case('name-nul', 'a name with a NUL byte', [file('x', '1', records={'path': b'a\0b'})], REFUSE)
case('name-5000', 'a name longer than any path', [file('x', '1', records={'path': '/'.join(['p' * 99] * 50)})], REFUSE)
case('deep', '2000 directories deep', [file('x', '1', records={'path': '/'.join(['p'] * 2000)})], {'p': 'd', '/'.join(['p'] * 1000): 'd,nlink=3'})
case('deeper', 'deeper than a path can say, by way of symlinks', [b''.join(dir('x', records={'path': '/'.join(['p'] * n)}) for n in range(1, 1200)) +
     symlink('x', 'y', records={'path': 's', 'linkpath': '/'.join(['p'] * 1199)}) + file('x', '1', records={'path': 's/' + '/'.join(['p'] * 1199)})], REFUSE)
case('symlink-empty', 'a symlink to nothing at all', [symlink('s', '')], REFUSE)

# --- the same path twice in a layer
case('dup-file', 'the last one counts', [file('x', '1', mode=0o600) + file('x', '2')], {'x': 'f:2,mode=644'})
case('dup-type', 'directory, file, directory', [dir('d') + file('d/x', '1') + file('d', 'f') + dir('d') + file('d/y', '2')], {'d/y': 'f:2'}, ['d/x'])
case('dup-hardlink', 'written, linked, written again', [file('x', 'old') + hardlink('y', 'x') + file('x', 'new')], {'x': 'f:new,ino=A', 'y': 'f:old,ino=B'})

# --- headers
case('v7-dir', 'old headers: type NUL, directories by a trailing slash', [header(b'd/', b'\0', 0, 0o755, magic=bytes(8)) + file('d/x', '1', type=b'\0', magic=bytes(8))],
     {'d': 'd', 'd/x': 'f:1'})
case('type-7', 'contiguous files are files', [file('x', '1', type=b'7')], {'x': 'f:1'})
case('type-unknown', 'unknown types are passed over with their data', [file('y', 'zzz', type=b'Z') + file('x', '1')], {'x': 'f:1'}, ['y'])
case('pax-global', 'a global header is no file', [pax({'comment': 'c' * 2000, 'path': 'wrong'}, b'g') + file('x', '1')], {'x': 'f:1'}, ['wrong', 'pax_global_header'])
case('pax-size', 'the size stands in the PAX record only', [entry('x', b'0', b'12345', records={'size': '5'}, size=0) + file('y', '2')], {'x': 'f:12345', 'y': 'f:2'})
case('size-binary', 'a size in base-256', [header(b'x', patch={124: b'\x80' + (5).to_bytes(11, 'big')}) + padded(b'12345') + file('y', '2')], {'x': 'f:12345', 'y': 'f:2'})
case('pax-empty', 'an empty value takes a record back', [file('x', '1', uid=7, mtime=9, records=[('uid', '5'), ('mtime', '3'), ('uid', ''), ('mtime', '')])], {'x': 'f:1,uid=7,mtime=9'})
case('number-leading', 'numbers after blanks and NULs', [file('x', '1', patch={100: b'  0600 \0', 108: b'\0 00007\0'})], {'x': 'f:1,mode=600,uid=7'})
case('slash-with-data', 'a trailing slash, but there is data', [file('x/', 'data') + file('y', '1')], {'x': 'f:data', 'y': 'f:1'})
case('xattr-many', 'a thousand attributes', [file('x', '1', records={'SCHILY.xattr.user.k%d' % i: b'v%d' % i for i in range(1000)})], {'x': 'f:1,x:user.k0=' + b'v0'.hex() + ',x:user.k999=' + b'v999'.hex()})
case('xattr-twice', 'an attribute given twice: the last one counts', [file('x', '1', records=[('SCHILY.xattr.user.k', b'1'), ('SCHILY.xattr.user.j', b'2'), ('SCHILY.xattr.user.k', b'3')])],
     {'x': 'f:1,x:user.k=33,x:user.j=32'})
case('xattr-too-many', 'more attributes than a kernel can list', [file('x', '1', records={'SCHILY.xattr.user.%06d' % i: b'v' for i in range(20000)})], REFUSE)
case('error-line', 'what an error quotes stays on its line', [A + hardlink('a/x\ny\x1b[2J', 'a/none')], REFUSE)
case('checksum', 'a wrong checksum', [file('x', '1', checksum=b'000001\0 ')], REFUSE)
case('size-negative', 'a negative size', [header(b'x', patch={124: b'\xff' * 12}) + padded(b'1')], REFUSE)
case('number-garbage', 'a mode that is no number', [file('x', '1', patch={100: b'0x1ff\0\0\0'})], REFUSE)
case('pax-garbage', 'a PAX record with a wrong length', [header(b'p', b'x', 12) + padded(b'99 path=abc\n') + file('x', '1')], REFUSE)
case('pax-dangling', 'a PAX header that describes nothing', [file('x', '1') + pax({'path': 'y'})], REFUSE)
case('dir-size', 'a directory with a size has no data', [header(b'd/', b'5', 512) + file('d/x', '1')], {'d/x': 'f:1'})

# --- metadata
CAP = bytes.fromhex('0100000200200000000000000000000000000000')
XATTR = 'SCHILY.xattr.'
case('xattr-cap', 'capabilities, values with NUL and newline', [file('x', '1', records={XATTR + 'security.capability': CAP, XATTR + 'user.k': b'a=b\nc\0d'})],
     {'x': 'f:1,x:security.capability=' + CAP.hex() + ',x:user.k=' + b'a=b\nc\0d'.hex()})
case('xattr-dir', 'attributes of directories and symlinks\' neighbours', [dir('d', records={XATTR + 'user.k': b'v'}) + file('d/x', '1', records={XATTR + 'user.k': b'v'})],
     {'d': 'd,x:user.k=76', 'd/x': 'f:1,x:user.k=76'})
case('xattr-acl', 'ACLs cannot be stored: left out', [file('x', '1', records={XATTR + 'system.posix_acl_access': le32(2) + b'\1\0\7\0\xff\xff\xff\xff', XATTR + 'user.k': b'v'}) +
     dir('d', records={XATTR + 'system.posix_acl_default': b'\2\0\0\0', XATTR + 'com.apple.quarantine': b'q'})], {'x': 'f:1,x:user.k=76', 'd': 'd'})
case('xattr-host', 'what belongs to a host is left out', [file('x', '1', records={XATTR + 'trusted.overlay.origin': b'o', XATTR + 'user.overlay.opaque': b'y',
     XATTR + 'security.selinux': b's', XATTR + 'user.k': b'v'})], {'x': 'f:1,x:user.k=76,-x:trusted.overlay.origin,-x:user.overlay.opaque,-x:security.selinux'})
case('xattr-gone', 'a newer entry without attributes has none', [A + file('a/x', '1', records={XATTR + 'user.k': b'v'}) + dir('a/d', records={XATTR + 'user.k': b'v'}),
     A + file('a/x', '1') + dir('a/d')], {'a/x': 'f:1,-x:user.k', 'a/d': 'd,-x:user.k'})
case('devices', 'device numbers of 12 and 20 bits, fifos, special modes', [device('c', b'3', 0xabc, 0x12345) + device('b', b'4', 8, 1) + fifo('p', mode=0o600) +
     file('s', '1', mode=0o6755) + dir('t', 0o1777)], {'c': 'c:2748:74565', 'b': 'b:8:1', 'p': 'p,mode=600', 's': 'f:1,mode=6755', 't': 'd,mode=1777'})
case('device-range', 'a device number that no kernel has', [device('c', b'3', 5000, 1)], REFUSE)
case('big-ids', 'owners beyond 2097151', [file('x', '1', uid=3000000000, gid=4000000000) + file('y', '2', records={'uid': '3000000001', 'gid': '4294967294'})],
     {'x': 'f:1,uid=3000000000,gid=4000000000', 'y': 'f:2,uid=3000000001,gid=4294967294'})
case('id-range', 'an owner that cannot be', [file('x', '1', records={'uid': '4294967295'})], REFUSE)
case('many-ids', 'more owners than squashfs can hold', [b''.join(header(b'f%d' % i, uid=100000 + i) for i in range(65600))], REFUSE)
case('names-vs-ids', 'user names are not looked up', [header(b'x', b'0', 1, uid=1234, gid=1234, patch={265: b'root', 297: b'root'}) + padded(b'1')], {'x': 'f:1,uid=1234,gid=1234'})
case('mtime', 'fractions, before 1970, after 2106', [file('x', '1', records={'mtime': '1234567890.987654321'}) + file('y', '2', records={'mtime': '-5.5'}) +
     file('z', '3', mtime=-86400) + file('w', '4', records={'mtime': '5000000000'})],
     {'x': 'f:1,mtime=1234567890', 'y': 'f:2,mtime=0', 'z': 'f:3,mtime=0', 'w': 'f:4,mtime=4294967295'})
case('many-entries', 'more than 65535 names in a directory', [dir('d') + b''.join(header(b'd/f%05d' % i) for i in range(66000))], {'d/f00000': 'f,size=0', 'd/f65999': 'f,size=0'})
case('many-dirs', 'a directory with many directories', [b''.join(header(b'd/%04d/' % i, b'5', mode=0o755) for i in range(3000))], {'d': 'd,nlink=3002', 'd/2999': 'd,nlink=2'})

# --- sparse files: 1024 bytes "A" at 1 MiB, 2 MiB in all, in every encoding
DATA = b'A' * 1024
SPARSE = {'s': f'f,size={2 * MIB},sha256=' + sha(bytes(MIB) + DATA + bytes(MIB - 1024)), 'y': 'f:2'}
case('sparse-gnu', 'GNU', [header(b's', b'S', 1024, magic=b'ustar  \0', patch={386: sparse_field(MIB, 1024) + sparse_field(2 * MIB, 0), 483: number(2 * MIB, 12)}) +
     padded(DATA) + file('y', '2')], SPARSE)
HOLES = [(i * 8192, 512) for i in range(30)]
HOLED = b''.join(bytes([65 + i % 26]) * 512 + bytes(7680) for i in range(30))
HOLED_SPEC = {'s': f'f,size={len(HOLED)},sha256={sha(HOLED)}', 'y': 'f:2'}
CONT = b''.join(sparse_field(*h) for h in HOLES[4:25])
CONT2 = b''.join(sparse_field(*h) for h in HOLES[25:]) + sparse_field(len(HOLED), 0)
case('sparse-gnu-more', 'GNU, with continuation blocks', [header(b's', b'S', 512 * 30, magic=b'ustar  \0',
     patch={386: b''.join(sparse_field(*h) for h in HOLES[:4]), 482: b'\1', 483: number(len(HOLED), 12)}) + CONT + b'\1' + bytes(7) +
     CONT2.ljust(504, b'\0') + bytes(8) + b''.join(bytes([65 + i % 26]) * 512 for i in range(30)) + file('y', '2')], HOLED_SPEC)
case('sparse-pax-00', 'PAX 0.0', [entry('s', b'0', DATA, records=[('GNU.sparse.size', str(2 * MIB)), ('GNU.sparse.numblocks', '1'), ('GNU.sparse.offset', str(MIB)),
     ('GNU.sparse.numbytes', '1024')]) + file('y', '2')], SPARSE)
case('sparse-pax-01', 'PAX 0.1', [entry('GNUSparseFile.1/s', b'0', DATA, records={'GNU.sparse.size': str(2 * MIB), 'GNU.sparse.numblocks': '1',
     'GNU.sparse.map': f'{MIB},1024', 'GNU.sparse.name': 's'}) + file('y', '2')], SPARSE)
MAP = padded(f'2\n{MIB}\n1024\n{2 * MIB}\n0\n'.encode())
case('sparse-pax-10', 'PAX 1.0', [entry('GNUSparseFile.1/s', b'0', MAP + DATA, records={'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.name': 's',
     'GNU.sparse.realsize': str(2 * MIB)}) + file('y', '2')], SPARSE)
case('sparse-overlap', 'pieces that overlap', [entry('s', b'0', DATA * 2, records=[('GNU.sparse.size', '4096'), ('GNU.sparse.offset', '0'), ('GNU.sparse.numbytes', '1024'),
     ('GNU.sparse.offset', '512'), ('GNU.sparse.numbytes', '1024')])], REFUSE)
case('sparse-short', 'pieces that do not add up', [entry('s', b'0', DATA, records={'GNU.sparse.size': '4096', 'GNU.sparse.map': '0,512'})], REFUSE)
case('sparse-huge', 'a lastlog of 423 GB', [entry('s', b'0', DATA, records={'GNU.sparse.size': str(423 << 30), 'GNU.sparse.map': '0,1024'}) + file('y', '2')],
     {'s': f'f,size={423 << 30}', 'y': 'f:2'})
case('sparse-too-large', 'a hole larger than a kernel reads', [entry('s', b'0', DATA, records={'GNU.sparse.size': str((1 << 63) - 1), 'GNU.sparse.map': '0,1024'})], REFUSE)
case('sparse-too-many', 'holes of several files that are too large together', [b''.join(entry('s%d' % i, b'0', DATA, records={'GNU.sparse.size': str(3 << 40), 'GNU.sparse.map': '0,1024'})
     for i in range(3))], REFUSE)
PIECES = [(i * 1024, 512) for i in range(300000)]
PIECES_MAP = padded((f'{len(PIECES)}\n' + ''.join(f'{o}\n{n}\n' for o, n in PIECES)).encode())
case('sparse-pieces', '300000 pieces', [entry('s', b'0', PIECES_MAP + b'B' * 512 * len(PIECES), records={'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.name': 's',
     'GNU.sparse.realsize': str(1024 * len(PIECES))}) + file('y', '2')], {'s': f'f,size={1024 * len(PIECES)}', 'y': 'f:2'})


def sparse_file(name, pieces, size):
    """With its content; pieces are (offset, bytes)."""
    whole = bytearray(size)
    for at, data in pieces:
        whole[at:at + len(data)] = data
    return entry(name, b'0', b''.join(d for _, d in pieces), records={'GNU.sparse.size': str(size), 'GNU.sparse.map': ','.join(f'{o},{len(d)}' for o, d in pieces)}), bytes(whole)


def sparse_shapes():
    """Holes that begin and end before, at and after the blocks of squashfs."""
    tar, expect, k = b'', {}, 128 << 10
    for i, (at, n, size) in enumerate((a, n, s) for a in (0, 1, k - 1, k, k + 1, 3 * k) for n in (0, 1, k, k + 5, 2 * k) for s in (a + n, a + n + 1, 4 * k, 6 * k + 7) if a + n <= s):
        e, whole = sparse_file('s%d' % i, [(at, bytes([i % 255 + 1]) * n), (size, b'')], size)
        tar += e
        expect['s%d' % i] = f'f,size={size},sha256=' + hashlib.sha256(whole).hexdigest()
    return tar, expect


case('sparse-shapes', 'holes around block borders', [sparse_shapes()[0]], sparse_shapes()[1])
case('zeros', 'a file of zeros', [file('s', bytes(3 * MIB + 5)) + file('y', '2')], {'s': f'f,size={3 * MIB + 5},sha256=' + sha(bytes(3 * MIB + 5)), 'y': 'f:2'})
BIG = bytes(i * i >> 7 & 255 for i in range(700000))
case('content', 'files of every size around a block', [b''.join(file(f'f{n}', BIG[:n]) for n in (0, 1, 511, 512, 513, 131071, 131072, 131073, 262144, 700000))],
     {f'f{n}': f'f,size={n},sha256=' + sha(BIG[:n]) for n in (0, 1, 511, 512, 513, 131071, 131072, 131073, 262144, 700000)})
case('same-content', 'files with the same content are stored once and stay two files', [file('x', BIG) + file('y', BIG) + file('z', BIG[:1000]) + file('w', BIG[:1000])],
     {'x': 'f,ino=A,sha256=' + sha(BIG), 'y': 'f,ino=B,sha256=' + sha(BIG), 'z': 'f,ino=C,sha256=' + sha(BIG[:1000]), 'w': 'f,ino=D'})

# --- blobs
X, Y = file('x', '1'), file('y', '2')
T, U = X + END, Y + END


def gz(data):
    return gzip.compress(data, mtime=0)


case('layer-0', 'gzip of nothing', [X, Blob(gz(b''), b'')], {'x': 'f:1'})
case('layer-empty-blob', 'no bytes at all', [X, Blob(b'', b'', PLAIN)], {'x': 'f:1'})
case('layer-empty', '1024 and 10240 zero bytes', [X, b'', Blob(gz(bytes(10240)), bytes(10240))], {'x': 'f:1'})
case('image-empty', 'nothing but empty layers', [b''], {'': 'd,mode=755'})
case('image-no-layers', 'no layers', [], {'': 'd,mode=755'})
case('gz-members', 'gzip of several members', [Blob(gz(X) + gz(Y) + gz(END), X + Y + END)], {'x': 'f:1', 'y': 'f:2'})
Q = file('x', b'q' * 5000)
case('gz-midfile', 'a member ends inside a file', [Blob(gz(Q[:700]) + gz(Q[700:] + Y + END), Q + Y + END)], {'x': 'f:' + 'q' * 5000, 'y': 'f:2'})
case('gz-many-members', '3000 members', [Blob(b''.join(gz(file('f%d' % i, str(i))) for i in range(3000)) + gz(END), b''.join(file('f%d' % i, str(i)) for i in range(3000)) + END)],
     {'f0': 'f:0', 'f2999': 'f:2999'})
case('gz-header', 'gzip with name, comment and extra field', [Blob(b'\x1f\x8b\x08\x1c' + bytes(6) + b'\x04\0abcd' + b'name\0' + b'comment\0' + gz(T)[10:], T)], {'x': 'f:1'})
def gz_crc(data, flags=2):
    """With the checksum of the header that few writers write."""
    head = b'\x1f\x8b\x08' + bytes([flags]) + bytes(6) + (b'\2\0ab' if flags & 4 else b'') + (b'n\0' if flags & 8 else b'')
    return head + (zlib.crc32(head) & 0xffff).to_bytes(2, 'little') + gz(data)[10:]


case('gz-header-members', 'headers with names and checksums between members', [Blob(gz_crc(X) + gz_crc(b'', 14) + gz_crc(Y, 6) + gz_crc(END), X + Y + END)], {'x': 'f:1', 'y': 'f:2'})
case('gz-header-checksum', 'a wrong checksum of the header', [Blob(gz_crc(T)[:10] + bytes(2) + gz_crc(T)[12:], T)], REFUSE)
case('gz-padding', 'zeros after the gzip data', [Blob(gz(T) + bytes(512), T)], {'x': 'f:1'})
case('gz-garbage', 'something else after the gzip data', [Blob(gz(T) + b'garbage', T)], REFUSE)
RANDOM = b''.join(hashlib.sha256(str(i).encode()).digest() for i in range(700))
case('gz-truncated', 'gzip cut short', [Blob(gz(file('x', RANDOM) + END)[:9000], b'')], REFUSE)
case('gz-no-trailer', 'gzip without its checksum', [Blob(gz(T)[:-8], T)], REFUSE)
case('gz-checksum', 'gzip with a wrong checksum', [Blob(gz(T)[:-8] + bytes(4) + gz(T)[-4:], T)], REFUSE)
case('zst', 'zstd', [Blob(squeeze(T, 'zstd'), T, ZSTD)], {'x': 'f:1'})
case('zst-frames', 'zstd of several frames, with skippable ones', [Blob(squeeze(X, 'zstd') + le32(0x184D2A50, 5) + b'hello' + squeeze(Y, 'zstd') + squeeze(END, 'zstd') +
     le32(0x184D2A5E, 4) + b'toc!', X + Y + END, ZSTD)], {'x': 'f:1', 'y': 'f:2'})
case('zst-skippable-first', 'a skippable frame comes first', [Blob(le32(0x184D2A51, 3) + b'abc' + squeeze(T, 'zstd'), T, ZSTD)], {'x': 'f:1'})
case('zst-window-128', 'a window of 128 MiB', [Blob(squeeze(T, 'zstd', '--zstd=wlog=27'), T, ZSTD)], {'x': 'f:1'})
case('zst-window', 'a window of 256 MiB', [Blob(squeeze(file('x', bytes(300 * MIB)) + END, 'zstd', '--long=28', '--zstd=wlog=28'), file('x', bytes(300 * MIB)) + END, ZSTD)], REFUSE)
case('zst-truncated', 'zstd cut short', [Blob(squeeze(file('x', RANDOM) + END, 'zstd')[:-100], b'', ZSTD)], REFUSE)
case('bzip2', 'bzip2', [Blob(squeeze(T, 'bzip2'), T, PLAIN + '+bzip2')], {'x': 'f:1'})
case('xz', 'xz', [Blob(squeeze(T, 'xz'), T, PLAIN + '+xz')], {'x': 'f:1'})
case('bzip2-streams', 'bzip2 of several streams, one of them empty', [Blob(squeeze(X, 'bzip2') + squeeze(b'', 'bzip2') + squeeze(Y + END, 'bzip2'), X + Y + END, PLAIN + '+bzip2')],
     {'x': 'f:1', 'y': 'f:2'})
case('xz-streams', 'xz of several streams, one of them empty', [Blob(squeeze(X, 'xz') + squeeze(b'', 'xz') + squeeze(Y + END, 'xz'), X + Y + END, PLAIN + '+xz')], {'x': 'f:1', 'y': 'f:2'})
case('bzip2-nothing', 'bzip2 and xz of nothing are empty layers', [X, Blob(squeeze(b'', 'bzip2'), b'', PLAIN), Blob(squeeze(b'', 'xz'), b'', PLAIN)], {'x': 'f:1'})
case('bzip2-garbage', 'something else after the bzip2 data', [Blob(squeeze(T, 'bzip2') + b'garbage', T, PLAIN)], REFUSE)
case('xz-window', 'xz with a window of 256 MiB', [Blob(squeeze(T, 'xz', '--lzma2=preset=0,dict=256MiB'), T, PLAIN)], REFUSE)
case('plain', 'not compressed', [Blob(T, T, PLAIN)], {'x': 'f:1'})
case('lie-gzip', 'called gzip, is zstd', [Blob(squeeze(T, 'zstd'), T, GZIP)], {'x': 'f:1'})
case('lie-zstd', 'called zstd, is gzip', [Blob(gz(T), T, ZSTD)], {'x': 'f:1'})
case('lie-plain', 'called gzip, is not compressed', [Blob(T, T, GZIP)], {'x': 'f:1'})
DOCKER = 'application/vnd.docker.image.rootfs.'
case('docker-types', 'Docker\'s media types', [Blob(gz(T), T, DOCKER + 'diff.tar.gzip'), Blob(squeeze(U, 'zstd'), U, DOCKER + 'diff.tar.zstd'), Blob(gz(file('z', '3') + END), file('z', '3') + END, DOCKER + 'foreign.diff.tar.gzip')],
     {'x': 'f:1', 'y': 'f:2', 'z': 'f:3'})
case('nondistributable', 'a layer that is not distributed', [Blob(gz(T), T, TYPE + 'layer.nondistributable.v1.tar+gzip')], {'x': 'f:1'})
case('type-encrypted', 'an encrypted layer', [Blob(gz(T), T, GZIP + '+encrypted')], REFUSE)
case('type-nydus', 'a nydus layer', [Blob(gz(T), T, 'application/vnd.oci.image.layer.nydus.blob.v1')], REFUSE)
case('type-erofs', 'an erofs layer', [Blob(gz(T), T, 'application/vnd.erofs.layer.v1')], REFUSE)
case('no-end', 'tar without end blocks', [Blob(gz(X), X)], {'x': 'f:1'})
case('no-padding', 'tar without the padding of its last file', [Blob(gz(X[:513]), X[:513])], {'x': 'f:1'})
case('one-end', 'tar with one end block', [Blob(gz(X + bytes(512)), X + bytes(512))], {'x': 'f:1'})
case('lone-zero', 'tar that goes on after one end block', [Blob(gz(X + bytes(512) + Y), X + bytes(512) + Y)], REFUSE)
case('after-end', 'bytes after the end of the tar', [Blob(gz(T + b'signature' + Y), T + b'signature' + Y)], {'x': 'f:1'}, ['y'])
case('tar-truncated', 'tar cut inside a file', [Blob(gz(Q[:2000]), Q[:2000])], REFUSE)
case('tar-truncated-header', 'tar cut inside a header', [Blob(gz(X + Y[:100]), X + Y[:100])], REFUSE)
case('not-tar', 'something that is no tar', [Blob(gz(RANDOM), RANDOM)], REFUSE)
case('diffid', 'a layer that unpacks to something else than the config says', [Blob(gz(T), U)], REFUSE)
case('same-layer-twice', 'one layer twice', [T[:-1024], T[:-1024]], {'x': 'f:1'})
case('same-layer-between', 'one layer twice, another between', [A + file('a/x', '1'), A + whiteout('a/x') + file('a/y', '2'), A + file('a/x', '1')], {'a/x': 'f:1', 'a/y': 'f:2'})
case('same-layer-linked', 'one layer twice, what it brought linked between', [A + file('a/x', '1'), A + hardlink('a/y', 'a/x'), A + file('a/x', '1')],
     {'a/x': 'f:1,ino=A', 'a/y': 'f:1,ino=B'})
case('many-layers', '130 layers', [dir('d') + file('d/f%d' % i, str(i)) + (whiteout('d/f%d' % (i - 2)) if i % 3 == 2 else b'') for i in range(130)],
     {'d/f129': 'f:129', 'd/f1': 'f:1', 'd/f2': 'f:2'}, ['d/f0', 'd/f3', 'd/f126'])
