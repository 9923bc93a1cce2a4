"""Prints, of each source file, how many of its lines a build with --coverage has run.

    coverage.py BUILD
"""
import re
import subprocess
import sys
from pathlib import Path

build = Path(sys.argv[1]).resolve()
lines, ran = {}, {}
for folder in ("src", "src/*", "io", "kernels"):
    for notes in sorted(build.glob(f"{folder}/*.gcno")):
        done = subprocess.run(["gcov", "-n", notes], capture_output=True, text=True, cwd=build)
        for name, share, count in re.findall(r"File '([^']*)'\nLines executed:([\d.]+)% of (\d+)",
                                             done.stdout):
            if re.search(rf"(^|/)(src(/\w+)?|io|kernels)/\w+\.c$", name):
                lines[name] = int(count)
                ran[name] = round(float(share) * int(count) / 100)
for name in sorted(lines, key=lambda name: ran[name] / lines[name]):
    print(f"{100 * ran[name] / lines[name]:6.1f} % of {lines[name]:4d}  {name}")
print(f"{100 * sum(ran.values()) / sum(lines.values()):6.1f} % of {sum(lines.values())} lines")
