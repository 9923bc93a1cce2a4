"""The HTML page of a run: it agrees with the report, is safe against names in it, and works in a browser."""
import functools
import json
import os
import re
import signal
import time

import numpy as np
import pytest

from launch import PATIENCE, run, start
from matrices import multiply, operands, part_of, wait_until, write

STAGES = {"disk read": "read", "host cache": "cache", "network": "network", "copies in": "in",
          "multiply": "gemm", "online check": "check", "copies out": "out", "disk write": "write"}
OUT_OF_CORE = ["--beta", 2, "--gpu-memory", "60K", "--host-memory", "30M"]
# ranks, type, options, environment
RUNS = {
    "alone": (0, "f4", OUT_OF_CORE, {}),
    "three nodes": (3, "f8", OUT_OF_CORE, {"DGEMM_OOC_TEST_NODE": "1"}),
    "layers": (4, "f8", ["--transa", "T", "--alpha", 3], {"DGEMM_OOC_TEST_BLOCK": "48", "DGEMM_OOC_TEST_LAYERS": "2"}),
    "not checked": (6, "f8", ["--verify", "off", "--tile", "16x32x64"], {}),
    "groups of ranks": (33, "f4", ["--tile", "16x16x190", "--grid", "3x11"], {}),
}


@pytest.fixture
def show(browser):
    """Show a page, which must print no messages and request no other files."""
    tabs = []

    def open(page, errors=False, **how):
        tab = browser.open(page, **how)
        tabs.append(tab)
        assert bool(tab.all(".error")) == errors
        return tab
    yield open
    for tab in tabs:
        assert tab.said == [] and len(tab.requests) == 1, (tab.said, tab.requests)
        tab.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Returns a function from the name of a run to its page and report."""
    @functools.cache
    def make(name):
        ranks, dtype, options, env = RUNS[name]
        folder = tmp_path_factory.mktemp("page")
        source, page = folder / "input.h5", folder / "page.html"
        operands(source, 150, 170, 190, dtype, "TN" if "--transa" in options else "NN")
        return page, multiply(source, *options, "--html", page, ranks=ranks, **env)
    return make


@pytest.fixture(params=RUNS)
def shown(made, show, request):
    page, report = made(request.param)
    return show(page), report


def embedded(page):
    """The JSON values in the page: the report, and the timeline data."""
    found = re.findall(r'<script type="application/json" id="(\w+)-json">(.*?)</script>',
                       page.read_text("utf-8"), re.S)
    assert [name for name, _ in found] == ["report", "course"]
    return [json.loads(value) for _, value in found]


def with_values(page, path, report, course):
    """Copy a page with other values."""
    values = iter([report, course])
    text = re.sub(r'(<script type="application/json" id="\w+-json">).*?(?=</script>)',
                  lambda found: found[1] + json.dumps(next(values)), page.read_text("utf-8"), flags=re.S)
    path.write_text(text, "utf-8")
    return path


def tips(tab, section):
    return tab.all(f"#{section} [data-tip]", "e.dataset.tip")


def lanes(tab):
    """(first rank, last rank, lane): seconds of each of these ranks."""
    seconds = {}
    for text in tips(tab, "timeline"):
        first, last, lane, busy = re.fullmatch(
            r"ranks? (\d+)(?: to (\d+))?, ([\w ]+): (\S+) s, \S+ % of the time", text).groups()
        seconds[int(first), int(last or first), lane] = float(busy)
    return seconds


def cells(tab):
    """(row, end, column, end), rank, residual or None, elements not finite; of the map by residual."""
    maps = [[text for text in texts if text] for texts in tab.all(
        "#map .map", "[...e.querySelectorAll('rect')].map(r => r.dataset.tip)")]
    assert len(maps) == 2 and maps[0] == maps[1]
    for text in maps[0]:
        row, last_row, col, last_col, rank, residual, rows = re.fullmatch(
            r"rows (\d+) to (\d+), columns (\d+) to (\d+): rank (\d+), (?:not checked|residual (\S+) of its limit)"
            r"(?:, (\d+) elements NaN or Inf)?", text).groups()
        yield ((int(row), int(last_row) + 1, int(col), int(last_col) + 1), int(rank),
               float(residual) if residual else None, int(rows or 0))


@pytest.mark.parametrize("name", RUNS)
def test_the_report_is_in_it(made, name):
    page, report = made(name)
    (known, course), ranks = embedded(page), report["machine"]["ranks"]
    known["date"] = report["date"]  # the time of writing
    assert known == report
    assert len(course["rows"]) == min(ranks, 32) and sum(row["ranks"] for row in course["rows"]) == ranks
    for row in course["rows"]:
        for stage in row["stages"].values():
            assert len(stage["shares"]) == course["bins"] <= 512
            whole = sum(stage["shares"]) * course["width_s"] / 1000
            assert whole == pytest.approx(stage["busy_s"], 0.01, course["bins"] * course["width_s"] / 1000)
    for stage, amounts in course["amounts"].items():
        amount = report["stages"][stage]["flops" if stage == "gemm" else "bytes"]
        assert sum(amounts) == pytest.approx(amount, 1e-5)


def test_busy_seconds_are_those_of_the_report(shown):
    tab, report = shown
    seconds, ranks = lanes(tab), report["machine"]["ranks"]
    for name, key in STAGES.items():
        stage = report["stages"][key]
        rows = [(last - first + 1, busy) for (first, last, lane), busy in seconds.items() if lane == name]
        if not rows:
            assert stage["bytes"] == 0 and (key != "check" or not report["checked"]), key
            continue
        assert sum(count for count, _ in rows) == ranks and len(rows) == min(ranks, 32)
        mean = sum(count * busy for count, busy in rows) / ranks
        assert mean == pytest.approx(stage["busy_avg_s"], 1e-4, 1e-8), key
        if ranks <= 32:
            assert max(busy for _, busy in rows) == pytest.approx(stage["busy_max_s"], 1e-4, 1e-8), key


def test_threads_wait_when_they_do_nothing_else(shown):
    tab, report = shown
    seconds = lanes(tab)
    whole = [waits + seconds[first, last, "multiply"] + seconds.get((first, last, "online check"), 0)
             for (first, last, lane), waits in seconds.items() if lane == "threads wait"]
    assert whole == pytest.approx([whole[0]] * len(whole), 1e-3)
    assert max(seconds.values()) <= 1.0001 * whole[0] < report["wall_s"] + report["startup_s"]


def test_tiles_are_those_of_the_plan(shown):
    tab, report = shown
    rows, cols = report["plan"]["tile"]
    painted = np.zeros((150, 170), int)
    ranks, residuals = set(), []
    for (row, row_end, col, col_end), rank, residual, not_finite in cells(tab):
        assert row % rows == col % cols == 0
        assert (row_end - row, col_end - col) == (min(rows, 150 - row), min(cols, 170 - col))
        painted[row:row_end, col:col_end] += 1
        ranks.add(rank)
        residuals.append(residual)
        assert not_finite == 0
    assert (painted == 1).all()
    assert ranks == set(range(report["machine"]["ranks"] // report["plan"]["layers"]))
    scale = [float(text) for text in tab.all(".scale text")]
    if report["checked"]:
        assert max(residuals) == pytest.approx(report["residual"], 1e-5)
        assert scale == pytest.approx([0, report["residual"] / 2, report["residual"]], 5e-3)
    else:
        assert residuals == [None] * len(residuals) and scale == []


def test_measured_is_the_report(shown):
    tab, report = shown
    found = {}
    for text in tips(tab, "plan"):
        name, planned, measured = re.fullmatch(r"(.+): planned (\S+) s, measured (\S+) s", text).groups()
        found[name] = float(measured)
        expected = (report["planned_wall_s"] if name == "wall"
                    else report["stages"][STAGES[name]]["planned_busy_s"])
        assert float(planned) == pytest.approx(expected, 1e-5)
    assert found.pop("wall") == pytest.approx(report["wall_s"], 1e-5)
    for name, measured in found.items():
        assert measured == pytest.approx(report["stages"][STAGES[name]]["busy_max_s"], 1e-5, 1e-9)
    assert {STAGES[name] for name in found} == {
        key for key, stage in report["stages"].items()
        if key not in ("cache", "check") and (stage.get("bytes") or stage.get("flops"))}


def test_charts_are_of_the_report(shown):
    tab, report = shown
    stages = report["stages"]
    for text in tips(tab, "roofline"):
        name, intensity = re.match(r"(.+): (\S+) operations for each byte", text).groups()
        expected = stages["gemm"]["flops"] / stages[STAGES[name]]["bytes"]
        assert float(intensity) == pytest.approx(expected, 1e-3), name
    curves = tab.all("#progress path.curve", "e.getAttribute('d')")
    assert len(curves) == 3
    for curve in curves:  # from 0 to the total
        heights = [float(y) for y in re.findall(r" ([\d.]+)", curve)]
        assert heights[0] == 246 and heights[-1] == 12 and heights == sorted(heights, reverse=True)


def test_verdict(shown):
    tab, report = shown
    verdict = tab.evaluate("document.querySelector('header').innerText")
    assert "C 150 × 170, k = 190" in verdict
    if report["checked"]:
        assert "PASSED" in verdict
        assert f"an error of {report['detectable']:.2g} of a typical element" in verdict
    else:
        assert "C was not checked" in verdict and "PASSED" not in verdict


def test_places(shown):
    tab, report = shown
    assert tab.all("#ranks tbody tr") == []
    tab.click("#ranks summary")
    tab.wait("document.querySelector('#ranks tbody tr')")
    assert tab.all("#ranks tbody tr", "[...e.children].map(c => c.textContent)") == [
        [str(rank), *(place[key] for key in ("host", "numa", "cpus", "bound_by"))]
        for rank, place in enumerate(report["ranks"])]
    tab.click("#find")
    tab.call("Input.insertText", text="nowhere")
    assert tab.all("#ranks tbody tr") == []


def luminance(colour):
    """Relative luminance as WCAG defines it, of "rgb(r, g, b)"."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


def assert_legible(tab, dark):
    """All text has enough contrast to the background."""
    colours = [tab.evaluate(f"getComputedStyle(document.querySelector('{name}')).color")
               for name in ("body", "p", "dt", "small", "td", "h2", "#details th", "svg text")]
    paper = luminance(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert paper < 0.05 if dark else paper > 0.9
    for colour in colours:
        darker, lighter = sorted([paper, luminance(colour)])
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, colour


@pytest.mark.singly
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_in_a_window(shown, scheme):
    """Nothing is wider than the window, and every image is there; print is always light."""
    tab, _ = shown
    for opened in range(2):
        for width in 1280, 768, 360:
            tab.resize(width)
            tab.paint(scheme)
            tab.wait(f"document.documentElement.dataset.scheme === '{scheme}'")
            right = tab.evaluate("Math.max(document.documentElement.scrollWidth, ...[...document."
                                 "querySelectorAll('body :not(.scroll *)')].map("
                                 "e => e.getBoundingClientRect().right))")
            assert right <= width
            sizes = tab.all("svg", "[e.getBoundingClientRect().width, e.getBoundingClientRect().height]")
            assert len(sizes) > 10 and np.min(sizes) >= 10
            assert_legible(tab, scheme == "dark")
        if not opened:
            tab.click("#timeline summary")
            tab.click("#ranks summary")
    tab.paint(scheme, "print")
    assert_legible(tab, False)
    assert not any(tab.all("button, select, summary", "e.checkVisibility()"))
    tab.paint(scheme)
    tab.click("#scheme")
    assert_legible(tab, scheme != "dark")


def course_of(page, rank, lane):
    """The utilization of a rank's lane over time."""
    return np.array(embedded(page)[1]["rows"][rank]["stages"][lane]["shares"]) / 1000


def in_view(tab):
    """The first and last bin that the timeline shows."""
    begin, _, count, _ = map(float, tab.all("svg.lanes", "e.getAttribute('viewBox')")[0].split())
    return int(begin), int(begin + count)


def names(tab):
    """The headings of the timeline."""
    return tab.all("#lanes h3", "e.firstChild.data")


def test_pointing_tells_values(made, show):
    page, report = made("three nodes")
    tab, course = show(page), embedded(page)[1]
    lane = tips(tab, "timeline").index(next(text for text in tips(tab, "timeline")
                                            if text.startswith("rank 1, network")))
    left, top, width, height = tab.box("#timeline g", lane)
    for part in 0.001, 0.1, 0.7, 0.999:
        tab.mouse("mouseMoved", left + part * width, top + height / 2)
        deadline, bin = time.monotonic() + PATIENCE, np.inf
        while abs(bin - part * course["bins"]) >= 2:  # until the page has moved the tip
            assert time.monotonic() < deadline
            said, at = tab.evaluate("tip.textContent").splitlines()
            begin, end, share = map(float, re.fullmatch(r"(\S+) to (\S+) milliseconds: (\S+) %", at).groups())
            bin = round(begin / 1e3 / course["width_s"])
        assert said == tips(tab, "timeline")[lane] and 0 <= bin < course["bins"]
        assert [begin, end] == pytest.approx([1e3 * i * course["width_s"] for i in (bin, bin + 1)], 1e-4)
        assert share == pytest.approx(100 * course_of(page, 1, "network")[bin], abs=0.11)
    tab.point("#roofline circle")
    assert tab.evaluate("tip.textContent") in tips(tab, "roofline")
    tab.point("#plan td.bars", 2)
    assert tab.evaluate("tip.textContent") == tips(tab, "plan")[2]
    tab.point("#progress rect[data-tip]", at=(0.999, 0.5))
    assert re.search(r"read 100.0 %, at \S+ .?B/s\n", tab.evaluate("tip.textContent"))
    tab.point("#map rect[data-cell='4']", at=(0.3, 0.3))
    assert tab.evaluate("tip.textContent") == tips(tab, "map")[4]
    assert tab.all(".pointed", "e.dataset.cell") == ["4", "4"]  # in both maps
    tab.point("h1")
    assert tab.evaluate("tip.hidden") and tab.all(".pointed") == []


def test_zoom(made, show):
    page, report = made("three nodes")
    tab, bins = show(page), embedded(page)[1]["bins"]
    whole = [tips(tab, "timeline"), tab.all("#lanes .shares span"), tab.all("#progress text")]
    curves = tab.all("#progress path.curve", "e.getAttribute('d')")
    assert in_view(tab) == (0, bins) and tab.all(".controls button", "e.disabled").count(True) == 4
    tab.drag("svg.lanes", 0.25, 0.5, index=1)
    begin, end = in_view(tab)
    assert begin == pytest.approx(bins / 4, abs=2) and end == pytest.approx(bins / 2, abs=2)
    for (first, _, lane), seconds in lanes(tab).items():
        if lane in STAGES:
            shares = course_of(page, first, STAGES[lane])[begin:end]
            assert seconds == pytest.approx(shares.sum() * embedded(page)[1]["width_s"], 1e-4, 1e-9)
    assert tab.all("#progress path.curve", "e.getAttribute('d')") != curves
    assert float(tab.all(".axis span")[0]) > 0
    for button, view in (("later", (begin + (end - begin) / 2, end + (end - begin) / 2)),
                         ("earlier", (begin, end)), ("out", (begin - (end - begin) / 2, end + (end - begin) / 2)),
                         ("in", (begin, end))):
        tab.click(f"#{button}")
        assert in_view(tab) == pytest.approx(view, abs=2)
    for _ in range(10):
        tab.click("#in")
    assert np.diff(in_view(tab)) == 4 and tab.evaluate("document.getElementById('in').disabled")
    tab.click("#all")
    assert whole == [tips(tab, "timeline"), tab.all("#lanes .shares span"), tab.all("#progress text")]
    tab.drag("svg.lanes", 0.5, 0.501)  # a click
    assert in_view(tab) == (0, bins)


def test_ranks_can_be_hidden(made, show):
    tab = show(made("three nodes")[0])
    waiting = tab.all("#waiting")
    assert names(tab) == ["rank 0", "rank 1", "rank 2"]
    tab.click("#timeline summary")
    tab.click("#timeline input", 1)
    assert names(tab) == ["rank 0", "rank 2"] and tab.all("#shown") == ["Ranks shown: 2 of 3"]
    assert {first for first, _, _ in lanes(tab)} == {0, 2}
    tab.evaluate("order.value = 'stage', order.dispatchEvent(new Event('change'))")
    assert "disk read" in names(tab) and {first for first, _, _ in lanes(tab)} == {0, 2}
    tab.click("#timeline details button", 1)
    assert tab.all("#lanes p") == ["No rank is shown."] and tab.all("#waiting") == [""]
    tab.click("#timeline details button", 0)
    assert len(lanes(tab)) % 3 == 0 and tab.all("#waiting") == waiting


def test_without_scripts(made, show):
    page, report = made("alone")
    tab = show(page, scripts=False)
    text = tab.evaluate("document.body.innerText")
    assert "this browser runs none" in text and '"verdict": "PASSED"' in text
    assert f'"wall_s": {report["wall_s"]}'[:16] in text and '"shares"' not in text


def test_many_ranks_and_tiles(made, show, tmp_path):
    """The page has the largest possible numbers of ranks and tiles."""
    page, report = made("groups of ranks")
    _, course = embedded(page)
    draw = np.random.default_rng(0)
    report["machine"]["ranks"] = 16384
    report["ranks"] = [report["ranks"][0] | {"host": f"node{rank // 8}"} for rank in range(4096)]
    course["bins"] = 512
    for i, row in enumerate(course["rows"]):
        row |= {"rank": 512 * i, "ranks": 512, "stages": {
            stage: {"busy_s": 256 * course["width_s"], "shares": draw.integers(0, 1001, 512).tolist()}
            for stage in STAGES.values()}}
    course["amounts"] = {stage: draw.random(512).tolist() for stage in course["amounts"]}
    course["tiles"] = {"merged": 7, "cells": [[row, col, 2, 2, row, 1e-3, 0] for row in range(0, 128, 2)
                                              for col in range(0, 128, 2)]}
    tab = show(with_values(page, tmp_path / "page.html", report, course))
    assert (tmp_path / "page.html").stat().st_size < 3 << 20
    assert len(tips(tab, "timeline")) == 32 * 9 and len(list(cells(tab))) == 4096
    tab.click("#in")
    assert in_view(tab) == (128, 384)
    text = tab.evaluate("document.body.innerText")
    assert "16384 ranks in 32 groups" in text and "Up to 7 × 7 tiles make one cell" in text
    assert "4096 ranks on 512 hosts" in text and "the first of 16384 ranks" in text
    tab.click("#ranks summary")
    tab.wait("document.querySelectorAll('#ranks tbody tr').length === 4096")


def test_needs_nothing_from_elsewhere(made):
    for name in RUNS:
        page = made(name)[0]
        text = page.read_text("utf-8")
        assert not re.search(r"<script src|<link|<img|\bsrc=|\bhref=|url\(|@import|https?://(?!www.w3.org/2000/svg)",
                             text)
        assert page.stat().st_size < 1 << 20


def test_the_network_is_forbidden(browser, made):
    tab = browser.open(made("alone")[0])
    for address in ("data:text/plain,x", "http://127.0.0.1:1/x", "page.html"):
        assert tab.evaluate(f"fetch('{address}').then(() => 'got', () => 'refused')") == "refused"
    assert tab.evaluate("new Promise(done => { const image = new Image(); image.onload = () => done('got');"
                        "image.onerror = () => done('refused'); image.src ="
                        "'data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=' })") == "refused"
    assert len(tab.said) >= 4 and all("Content Security Policy" in json.dumps(said) for said in tab.said)
    tab.close()


HOSTILE = ["""in<&"'ü\x1b\x85>""", "in\udcffü", "in</script><script>ran=1</script>", "<!--<script>",
           "\u2028ran=1//\u2029\u202e", """"}];ran=1;//\\""", "@COURSE@", "`${ran=1}`", "<img src=x onerror=ran=1>"]


@pytest.mark.parametrize("name", HOSTILE)
def test_name_that_is_no_markup(tmp_path, show, name):
    source, page = tmp_path / f"{name}.h5", tmp_path / "page.html"
    source.parent.mkdir(parents=True, exist_ok=True)
    operands(tmp_path / "input.h5", 30, 20, 10)
    (tmp_path / "input.h5").rename(source)
    assert run("dgemm_ooc", source, "-q", "--html", page, "--device", "cpu").returncode == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", page.read_text("utf-8"))
    tab = show(page)
    rows = dict(tab.all("#details tr", "[e.children[0].textContent, e.children[1].textContent]"))
    shown = re.sub("[\x00-\x1f\x7f-\x9f\u2028-\u202e]", "?", str(source))
    if "\udcff" in name:  # not UTF-8
        shown = re.sub(rb"[\x80-\xff]", b"?", os.fsencode(source)).decode()
    assert rows["A"].startswith(f"{shown}:A, 30 × 10"), rows["A"]
    assert shown in tab.evaluate("document.title") and shown in rows["command"]
    assert tab.evaluate("typeof ran") == "undefined" and len(tab.all("script")) == 3
    assert tab.all("img") == []


def test_rows_that_are_not_finite(tmp_path, show):
    source, page = tmp_path / "input.h5", tmp_path / "page.html"
    a, b = np.ones((96, 40)), np.ones((40, 64))
    a[3, 5] = a[80, 7] = np.nan
    a[32:64] = np.inf
    write(source, A=a, B=b)
    report = multiply(source, "--tile", "32x32x16", "--html", page)
    tab = show(page)
    found = list(cells(tab))
    assert sum(elements for *_, elements in found) == report["elements_not_finite"] == 34 * 64
    assert [residual for _, _, residual, _ in found].count(None) == 2  # only the tiles with Inf
    assert "2176 elements are NaN or Inf" in tab.all("header")[0]


def test_run_that_went_on(tmp_path, show):
    """The page and the trace show the work of this process, with all of its pieces."""
    source, page, trace = (tmp_path / name for name in ("input.h5", "page.html", "trace.json"))
    operands(source, 700, 600, 800)
    with start("dgemm_ooc", source, "--tile", "40x40x16") as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
        process.send_signal(signal.SIGUSR2)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    path = source.with_suffix(".json")
    done = run("dgemm_ooc", source, "--tile", "40x40x16", "--html", page, "--trace", trace,
               "--report", path)
    assert done.returncode == 0, done.stderr
    tab, report = show(page), json.loads(path.read_text())
    head = tab.all("header")[0]
    assert "planned " + re.search(r"\(predicted (.*?)\) after", done.stdout)[1] in head
    part = report["stages"]["gemm"]["flops"] / (2 * 700 * 600 * 800)
    percent, pieces = re.search(r"multiplied (\S+) % of the product, in (\d+) pieces?", head).groups()
    assert 0 < part < 1 and float(percent) == pytest.approx(100 * part, abs=0.051) and int(pieces) >= 1
    assert lanes(tab)[0, 0, "multiply"] == pytest.approx(report["stages"]["gemm"]["busy_avg_s"], 1e-4)
    assert trace.read_text().count('"name": "multiply"') > 0
    flops = sum(map(int, re.findall(r'"flops": (\d+)', trace.read_text())))
    assert flops == report["stages"]["gemm"]["flops"]


def test_says_where_it_is(tmp_path):
    source, page = tmp_path / "input.h5", tmp_path / "page.html"
    operands(source, 30, 20, 10)
    done = run("dgemm_ooc", source, "--html", page)
    assert done.returncode == 0 and f"Page        {page}\n" in done.stdout
    quiet = run("dgemm_ooc", source, "--html", page, "-q", "--force")
    assert quiet.returncode == 0 and len(quiet.stdout.splitlines()) == 1


# The page of a saved report.

def page_of(report, page, code=0):
    done = run("dgemm_ooc", "--from-report", report, "--html", page)
    assert done.returncode == code and done.stdout == "" and (code or done.stderr == ""), done.stderr
    return done.stderr


def test_of_a_saved_report(made, show, tmp_path):
    """It has everything except the timeline."""
    page, report = made("three nodes")
    at_once, later = show(page), tmp_path / "later.html"
    page_of(page.with_name("input.json"), later)
    assert embedded(later) == [report, None]
    tab = show(later)
    for section in ("roofline", "plan", "ranks"):
        assert tab.all(f"#{section}", "e.innerText") == at_once.all(f"#{section}", "e.innerText")
    assert tab.all("#timeline, #progress, #map", "e.innerHTML") == ["", "", ""]
    assert "made from a saved report" in tab.all("header")[0]
    assert tab.all("dd") == at_once.all("dd")


@pytest.mark.parametrize("words, code, says", [(["--dry-run"], 0, ["predicted time", "copies in"]),
                                               (["--check-only"], 0, ["checked", "PASSED", "files read back"]),
                                               (["--check-only"], 3, ["failed"]),
                                               (["--output", "/nowhere/C.h5"], 3, ["failed"])])
def test_of_what_was_no_run(show, tmp_path, words, code, says):
    source, report, page = (tmp_path / name for name in ("input.h5", "report.json", "page.html"))
    operands(source, 30, 20, 10)
    if "PASSED" in says:
        assert run("dgemm_ooc", source).returncode == 0
    assert run("dgemm_ooc", source, *words, "--report", report).returncode == code
    page_of(report, page)
    text = show(page, errors=code != 0).evaluate("document.body.innerText")
    for each in says + json.loads(report.read_text())["errors"]:
        assert each in text


def test_of_a_saved_report_alone():
    for words, says in (["x.json"], "name the page with --html"), (["x.json", "--html", "x", "--dry-run"], "alone"):
        done = run("dgemm_ooc", "--from-report", *words)
        assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1


def test_of_no_report(made, tmp_path):
    page = made("alone")[0]
    report, other = page.with_name("input.json"), tmp_path / "other.html"
    old = tmp_path / "old.json"
    old.write_text(report.read_text().replace('"schema": 4', '"schema": 3'))
    before = report.read_bytes()
    assert "cannot read the report" in (said := page_of(page, other, 3)) and "not JSON: " in said
    assert "cannot read the report" in (said := page_of(tmp_path / "none.json", other, 3)) and said.count("none.json") == 1
    assert "is no report of this version" in page_of(old, other, 3)
    assert "the page" in page_of(report, report, 3) and report.read_bytes() == before
    assert "is no page" in page_of(report, page.with_name("input.h5"), 3)
    assert not other.exists()
