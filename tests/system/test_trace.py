"""The trace: it has all work of the stages, in a possible order."""
import json
from collections import defaultdict

import pytest

from launch import FAULTY, run
from matrices import multiply, operands

STAGES = {"read": "read", "cache": "cache", "receive": "network", "copy in": "in", "multiply": "gemm",
          "copy out": "out", "write": "write"}
OPTIONS = ["--beta", 2, "--gpu-memory", "60K", "--host-memory", "30M"]


@pytest.fixture(params=[(0, 1), (3, 3), (3, 1)], ids=["alone", "one node", "three nodes"])
def traced(tmp_path, device, request):
    """The events and the report of an out-of-core run, on `ranks` ranks with `node` of them per node."""
    ranks, node = request.param
    source, trace = tmp_path / "input.h5", tmp_path / "trace.json"
    operands(source, 150, 170, 190)
    report = multiply(source, *OPTIONS, "--trace", trace, ranks=ranks, device=device,
                      OMP_NUM_THREADS="2", DGEMM_OOC_TEST_NODE=str(node))
    assert not list(tmp_path.glob("*.part"))
    return json.loads(trace.read_text())["traceEvents"], report


def test_spans_add_up_to_the_report(traced):
    events, report = traced
    amounts = defaultdict(int)
    for event in events:
        if event["ph"] == "X" and event["name"] != "check":
            action = event["name"].removesuffix(" A").removesuffix(" B").removesuffix(" C")
            amounts[STAGES[action]] += sum(event["args"].values())
    assert (amounts["cache"] > 0) != report["machine"]["files_in_memory"]
    for key, amount in amounts.items():
        stage = report["stages"][key]
        assert amount == stage["flops" if key == "gemm" else "bytes"], key


def test_lanes_are_named_and_do_one_thing_at_a_time(traced):
    events, report = traced
    lanes, names = defaultdict(list), {}
    for event in events:
        lane = event["pid"], event.get("tid")
        if event["ph"] == "X":
            lanes[lane].append((event["ts"], event["ts"] + event["dur"]))
        elif event["name"] == "thread_name":
            names[lane] = event["args"]["name"]
    assert {pid for pid, _ in lanes} == set(range(report["machine"]["ranks"]))
    assert lanes.keys() == names.keys()
    assert {name.rsplit(" ", 1)[0] for name in names.values()} == {
        "reader", "copy in", "compute", "copy out", "writer",
        *["network"] * (report["plan"]["sent_bytes"] > 0)}
    for spans in lanes.values():
        spans.sort()
        assert spans[0][0] >= 0
        for (_, end), (begin, _) in zip(spans, spans[1:]):
            assert begin >= end - 2  # microseconds: two clocks, rounded


def test_a_copy_behind_another_takes_one_event(tmp_path):
    """Its start is the end of the other, which the lanes above show; events of a GPU's link take time from it."""
    source, trace, log = tmp_path / "input.h5", tmp_path / "trace.json", tmp_path / "log"
    operands(source, 600, 500, 4000)
    done = run(FAULTY, source, "--tile", "300x500x2000", "--host-memory", "44M", "--trace", trace,
               DGEMM_OOC_TEST_FAULTS="copy:delay@1+", DGEMM_OOC_TEST_FAULT_LOG=str(log))
    assert done.returncode == 0, done.stderr
    names = [event["name"] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    copies = sum(name.startswith("copy") for name in names)
    records = next(int(line.split()[1]) for line in log.read_text().splitlines() if line.startswith("record "))
    assert copies > 200 and records < 1.7 * copies  # products and parts of C take some


@pytest.mark.singly
@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("spoiled", ["report", "trace", "page"])
def test_c_is_complete_when_one_of_its_papers_cannot_be_written(tmp_path, spoiled, ranks):
    source = tmp_path / "input.h5"
    operands(source, 30, 20, 10)
    done = run(FAULTY, source, "--report", tmp_path / "report", "--trace", tmp_path / "trace",
               "--html", tmp_path / "page", "--device", "cpu", ranks=ranks,
               DGEMM_OOC_TEST_FAULTS="open:eacces@1+", DGEMM_OOC_TEST_FAULT_FILE=f"/{spoiled}.")
    assert done.returncode == 1 and f"cannot write the {spoiled}" in done.stderr
    assert "RESULT: C complete" in done.stdout and (tmp_path / "input-C.h5").exists()
    for other in {"report", "trace"} - {spoiled}:
        json.loads((tmp_path / other).read_text())
    assert spoiled == "page" or (tmp_path / "page").read_text().endswith("</html>\n")
    assert {path.name for path in tmp_path.iterdir()} == {
        "input.h5", "input-C.h5", *({"report", "trace", "page"} - {spoiled})}
