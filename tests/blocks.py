"""The commands that a document shows."""
import re


def blocks(text):
    """Indented blocks, as they would be typed."""
    for block in re.findall(r"(?:^    .*\n)+", text, re.M):
        yield re.sub(r"^    ", "", block, flags=re.M)


def first_hour(readme):
    """From the first command on an empty machine to a product on two ranks."""
    typed = list(blocks(readme))
    first = next(i for i, block in enumerate(typed) if re.search(r"apt-get install|make setup", block))
    last = next(i for i, block in enumerate(typed) if "mpirun -n 2" in block)
    return typed[first:last + 1]
