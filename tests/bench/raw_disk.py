"""Measure the read and write throughput of a folder with plain large preads and pwrites.

The I/O bypasses the page cache (O_DIRECT) where the file system supports that, and goes through it, like
the program's; with one thread and with several.  Every block has the size of a slot of the program."""
import mmap
import os
import time
from concurrent.futures import ThreadPoolExecutor

PAGE, MOST = 4096, 1 << 30


def drop(path):
    """Drop the file from the page cache, so that the next read comes from the disk."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def move(call, fd, size, block, threads):
    """Seconds to apply `call` to every block of the file, dealt round-robin to the threads."""
    buffers = [mmap.mmap(-1, block) for _ in range(threads)]
    for buffer in buffers:
        buffer.write(os.urandom(PAGE) * (block // PAGE))

    def work(i):
        for offset in range(i * block, size, threads * block):
            call(fd, [buffers[i]], offset)

    start = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return time.monotonic() - start


def extent(size, block):
    """The bytes to move, at most MOST, and the block: whole blocks that O_DIRECT can move."""
    block = min(block, max(PAGE, size // PAGE * PAGE))
    return max(block, min(size, MOST) // block * block), block


def read_rate(path, block, threads, flags, cold):
    size, block = extent(os.path.getsize(path), block)
    if cold:
        drop(path)
    fd = os.open(path, os.O_RDONLY | flags)
    try:
        return size / move(os.preadv, fd, size, block, threads)
    finally:
        os.close(fd)


def write_rate(path, size, block, threads, flags):
    """The rate of writes to a preallocated file, including the fdatasync."""
    size, block = extent(size, block)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
        seconds = move(os.pwritev, fd, size, block, threads)
        start = time.monotonic()
        os.fdatasync(fd)
        return size / (seconds + time.monotonic() - start)
    finally:
        os.close(fd)
        os.unlink(path)


def rates(measure, cpus):
    """Call measure(threads, flags) for every method that works here: {"direct, 1 thread": bytes/s, ...}."""
    found = {}
    for mode, flags in (("direct", os.O_DIRECT), ("buffered", 0)):
        for threads in sorted({1, min(8, cpus)}):
            try:
                found[f"{mode}, {threads} thread{'s'[:threads > 1]}"] = measure(threads, flags)
            except OSError:
                if not flags:
                    raise
    return found
