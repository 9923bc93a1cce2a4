"""The table of measurements, tests/bench/runs.csv: what is appended is read again, and each line can be read."""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))
import runs  # noqa: E402


def test_what_is_appended_is_read(tmp_path):
    table = tmp_path / "runs.csv"
    about = {"question": "x, y", "command": "dgemm_ooc a.h5 -b A", "shape": (3, 4, 5), "ranks": 2}
    runs.append(table, [about | {"seconds": 1.5, "phi": "normal"}, about | {"seconds": 2.25, "read_bytes": 1 << 40}])
    runs.append(table, [{"question": "z", "gemm_s": 0.125}])
    first, second = runs.lines(path=table)
    assert (first["shape"], first["repeats"], first["ranks"], first["note"]) == ("3x4x5", 2, "2", "")
    assert first["seconds"] == [1.5, 2.25] and first["read_bytes"] == [None, 2.0**40] and first["gemm_s"] == [None] * 2
    assert first["phi"] == ["normal", None] and runs.typical(first) == 1.875 and runs.typical(first, "out_s") is None
    assert second["gemm_s"] == [0.125] and list(runs.lines("z", table)) == [second]
    assert [run["seconds"] for run in runs.single("x, y", table)] == [1.5, 2.25]


def test_recorded_runs():
    lines = list(runs.lines())
    assert len(lines) > 1800 and sum(line["repeats"] for line in lines) > 3300
    for line in lines:
        assert line["question"] and re.fullmatch(r"\d{4}-\d\d-\d\d", line["date"]) and line["host"] and line["command"]
        assert all(value is None or isinstance(value, float) for name in runs.MEASURED for value in line[name])
        assert all(value is None or value > 0 for value in line["seconds"])
    assert {line["question"] for line in lines} >= {"file to file", "disk", "growth", "kernels", "check power"}
