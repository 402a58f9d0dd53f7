# SPDX-License-Identifier: MIT
"""The content of a disk that forgets all that was not flushed.

strace(1) records each call by which a node changes its data directory; this
replays them onto two copies of it. The one has all that was written, the other
only what a crash of the machine must leave: bytes that were flushed (fsync,
fdatasync, RWF_DSYNC, O_DSYNC), and names in a folder that was flushed after
they were made, changed or removed. Real disks keep more than that, and not
always the same; this one keeps the least.

A line counts from the moment the call had returned, a flush covers what was
written before it began.
"""

import os
import re

CALLS = (
    "openat,close,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,"
    "rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,ftruncate,"
    "fallocate,io_submit,io_getevents,sendto,sendmsg,io_uring_setup,msync,link"
)
STRING = r'"((?:\\x[0-9a-f]{2})*)"'


def wrapper(trace):
    """Runs a program with its trace in that file; it stays our child."""
    return [
        "strace", "-D", "-f", "-qq", "-yy", "-xx", "-s", "4194304",
        "-o", trace, "-e", "trace=" + CALLS, "-e", "signal=none",
    ]  # fmt: skip


def raw(text):
    return bytes.fromhex(text.replace("\\x", ""))


def strings(arguments):
    """The bytes of all strings among the arguments, one after the other."""
    return b"".join(raw(part) for part in re.findall(STRING, arguments))


def lines(path):
    """Yields (began, ended, call, arguments, result): places in the file."""
    open_calls = {}
    with open(path, encoding="latin-1") as file:
        for number, line in enumerate(file):
            pid, _, rest = line.rstrip("\n").partition(" ")
            rest = rest.strip()
            if rest.endswith("<unfinished ...>"):
                open_calls[pid] = (number, rest[: -len("<unfinished ...>")])
                continue
            began = number
            resumed = re.match(r"<\.\.\. \w+ resumed>", rest)
            if resumed:
                began, head = open_calls.pop(pid)
                rest = head + rest[resumed.end() :]
            found = re.match(r"(\w+)\((.*)\)\s+= (-?\d+|\?)", rest, re.S)
            if found and found.group(3) != "?":
                yield (began, number, found.group(1), found.group(2).rstrip(),
                       int(found.group(3)))


class File:
    def __init__(self):
        self.written, self.flushed = bytearray(), bytearray()
        self.pending = []  # (place, offset, data or None, size)

    def write(self, place, offset, data):
        end = offset + len(data)
        if len(self.written) < end:
            self.written.extend(bytes(end - len(self.written)))
        self.written[offset:end] = data
        self.pending.append((place, offset, bytes(data), None))

    def truncate(self, place, size):
        self.written = (self.written + bytes(max(0, size - len(self.written))))[
            :size
        ]
        self.pending.append((place, None, None, size))

    def flush(self, before):
        """Makes durable what was done before that place in the trace."""
        left = []
        for change in self.pending:
            place, offset, data, size = change
            if place >= before:
                left.append(change)
            elif data is None:
                self.flushed = (
                    self.flushed + bytes(max(0, size - len(self.flushed)))
                )[:size]
            else:
                end = offset + len(data)
                if len(self.flushed) < end:
                    self.flushed.extend(bytes(end - len(self.flushed)))
                self.flushed[offset:end] = data
        self.pending = left


class Folder:
    def __init__(self):
        self.names, self.flushed = {}, {}


class ShadowDisk:
    """The tree below 'root', which was empty when the trace began."""

    def __init__(self, root):
        self.root = os.path.realpath(root)
        self.folders = {self.root: Folder()}
        self.in_flight = []  # Calls of io_submit, in their order.
        self.offsets = {}
        self.dsync = set()  # Descriptors that were opened with O_DSYNC.
        self.seen = set()

    # --- The calls ---------------------------------------------------------

    def apply(self, event):
        began, ended, call, arguments, result = event
        handler = getattr(self, "call_" + call, None)
        if handler is not None and result >= 0:
            self.seen.add(call)
            handler(began, ended, arguments, result)

    def path(self, text):
        """A descriptor as -yy prints it: 14</path>."""
        found = re.search(r"\d+<(/[^<>]*)>", raw_paths(text))
        return found.group(1) if found else None

    def place(self, arguments, at=0):
        """(folder, name) of the nth pair of folder and relative name, or of an
        absolute one."""
        pairs = re.findall(
            r"(?:(?:AT_FDCWD|\d+)(?:<([^<>]*)>)?, )?" + STRING, arguments
        )
        folder, name = pairs[at]
        name = raw(name).decode()
        if not name.startswith("/"):
            name = os.path.join(decoded(folder), name)
        return os.path.split(os.path.normpath(name))

    def file(self, path):
        folder, name = os.path.split(path)
        if folder in self.folders:
            return self.folders[folder].names.get(name)
        return None

    def call_openat(self, began, ended, arguments, result):
        folder, name = self.place(arguments)
        flags = arguments.rpartition('"')[2]
        path = os.path.join(folder, name)
        key = int(result)
        self.offsets[key] = 0
        self.dsync.discard(key)
        if "O_DSYNC" in flags or re.search(r"\bO_SYNC", flags):
            self.dsync.add(key)
        if folder in self.folders and "O_CREAT" in flags:
            names = self.folders[folder].names
            if name not in names:
                names[name] = File()
            elif "O_TRUNC" in flags:
                names[name].truncate(ended, 0)
        elif path in self.folders:
            return

    def call_mkdir(self, began, ended, arguments, result):
        folder, name = self.place(arguments)
        if folder in self.folders:
            path = os.path.join(folder, name)
            self.folders[path] = Folder()
            self.folders[folder].names[name] = self.folders[path]

    call_mkdirat = call_mkdir

    def write_at(self, began, ended, arguments, result, offset, is_durable):
        file = self.file(self.path(arguments) or "")
        if isinstance(file, File):
            file.write(began, offset, strings(arguments)[:result])
            if is_durable or self.descriptor(arguments) in self.dsync:
                file.flush(ended + 1)

    def descriptor(self, arguments):
        return int(re.match(r"(\d+)", arguments).group(1))

    def call_write(self, began, ended, arguments, result):
        key = self.descriptor(arguments)
        offset = self.offsets.get(key, 0)
        self.write_at(began, ended, arguments, result, offset, False)
        self.offsets[key] = offset + result

    call_writev = call_write

    def call_pwrite64(self, began, ended, arguments, result):
        offset = int(arguments.rpartition(", ")[2])
        self.write_at(began, ended, arguments, result, offset, False)

    call_pwritev = call_pwrite64

    def call_pwritev2(self, began, ended, arguments, result):
        found = re.search(r"\], \d+, (\d+), (\w+(?:\|\w+)*)$", arguments)
        is_durable = "RWF_DSYNC" in found.group(2) or "RWF_SYNC" in found[2]
        self.write_at(
            began, ended, arguments, result, int(found.group(1)), is_durable
        )

    def call_io_submit(self, began, ended, arguments, result):
        for block in re.findall(r"\{aio_data=.*?aio_resfd=[^}]*\}", arguments):
            file = self.file(
                decoded(re.search(r"aio_fildes=\d+<([^<>]*)>", block)[1])
            )
            offset = int(re.search(r"aio_offset=(\d+)", block)[1])
            data = raw(re.search("aio_buf=" + STRING, block)[1])
            is_durable = "RWF_DSYNC" in block or "RWF_SYNC" in block
            if isinstance(file, File):
                file.write(began, offset, data)
            self.in_flight.append((file, began, is_durable))

    def call_io_getevents(self, began, ended, arguments, result):
        for _ in range(result):
            file, wrote, is_durable = self.in_flight.pop(0)
            if isinstance(file, File) and is_durable:
                # This write alone, and not what others did meanwhile.
                others = [c for c in file.pending if c[0] != wrote]
                file.pending = [c for c in file.pending if c[0] == wrote]
                file.flush(wrote + 1)
                file.pending = others

    def call_fsync(self, began, ended, arguments, result):
        path = self.path(arguments)
        if path in self.folders:
            folder = self.folders[path]
            folder.flushed = dict(folder.names)
            return
        file = self.file(path or "")
        if isinstance(file, File):
            file.flush(began)

    call_fdatasync = call_fsync

    def call_ftruncate(self, began, ended, arguments, result):
        file = self.file(self.path(arguments) or "")
        if isinstance(file, File):
            file.truncate(began, int(arguments.rpartition(", ")[2]))

    def call_rename(self, began, ended, arguments, result):
        (old_folder, old), (new_folder, new) = (
            self.place(arguments, 0), self.place(arguments, 1)
        )  # fmt: skip
        if old_folder in self.folders and new_folder in self.folders:
            moved = self.folders[old_folder].names.pop(old, None)
            if moved is not None:
                self.folders[new_folder].names[new] = moved

    call_renameat = call_renameat2 = call_rename

    def call_unlink(self, began, ended, arguments, result):
        folder, name = self.place(arguments)
        if folder in self.folders:
            self.folders[folder].names.pop(name, None)

    call_unlinkat = call_rmdir = call_unlink

    def call_io_uring_setup(self, *_):
        raise AssertionError("strace does not see what io_uring writes")

    # --- What is left ------------------------------------------------------

    def unflushed(self, name):
        """True if bytes of a file of the root folder, by name, or the name
        itself would be lost."""
        folder = self.folders[self.root]
        file = folder.names.get(name)
        return file is not None and (
            bool(file.pending) or folder.flushed.get(name) is not file
        )

    def write_out(self, target, folder=None):
        """Makes the tree that a crash leaves below 'target', which must not
        exist."""
        folder = folder or self.folders[self.root]
        os.mkdir(target, 0o700)
        for name, entry in folder.flushed.items():
            path = os.path.join(target, name)
            if isinstance(entry, Folder):
                self.write_out(path, entry)
            else:
                with open(path, "wb") as file:
                    file.write(entry.flushed)
                os.chmod(path, 0o600)


def decoded(text):
    return re.sub(
        r"(?:\\x[0-9a-f]{2})+", lambda found: raw(found[0]).decode(), text
    )


def raw_paths(text):
    """The first argument, with the path of its descriptor in clear."""
    return decoded(text.partition(",")[0])
