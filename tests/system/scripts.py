"""The job scripts of jobs/, as a user has them: copied, with the variables at their top edited."""
import re
import signal
from pathlib import Path

from launch import BUILD, ROOT
from matrices import catches, multiply, operands, output_of, read


def made(folder, size):
    """Operands in a folder, and the bits of their product."""
    source = folder / "input.h5"
    operands(source, *size)
    multiply(source)
    return source, read(output_of(source)).tobytes()


def edited(name, folder, **variables):
    """Copy a script into a folder."""
    variables = {"DGEMM_OOC": ROOT, "PROGRAM": BUILD / "dgemm_ooc", **variables}
    text = (ROOT / "jobs" / name).read_text()
    for variable, value in variables.items():
        text, count = re.subn(rf"^{variable}=(\([^)]*\)|.*).*$", f"{variable}={value}", text,
                              flags=re.MULTILINE)
        assert count == 1, f"{name} has no {variable}"
    script = folder / name
    script.write_text(text)
    script.chmod(0o755)
    return script


def are_at_work(source):
    """Whether two ranks multiply this and would save at a signal."""
    ranks = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[0] == bytes(BUILD / "dgemm_ooc") and bytes(source) in words:
                ranks.append(catches(process.name, signal.SIGTERM))
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended
    return len(ranks) == 2 and all(ranks)
