"""The page of a run: well-formed, true to the report, and fit to be seen in a browser."""
import functools
import html
import json
import os
import re
import shutil
import signal
import subprocess
from xml.etree import ElementTree

import numpy as np
import pytest

from launch import run, start
from matrices import multiply, operands, part_of, wait_until, write

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
STAGES = {"disk read": "read", "host cache": "cache", "network": "network", "host to device": "in",
          "multiply": "gemm", "online check": "check", "device to host": "out", "disk write": "write"}
OUT_OF_CORE = ["--beta", 2, "--gpu-memory", "60K", "--host-memory", "30M"]
# ranks, type, options, environment
RUNS = {
    "alone": (0, "f4", OUT_OF_CORE, {}),
    "three nodes": (3, "f8", OUT_OF_CORE, {"DGEMM_OOC_TEST_NODE": "1"}),
    "k split": (4, "f8", ["--split-k", 2, "--transa", "T", "--alpha", 3], {}),
    "not checked": (6, "f8", ["--verify", "off", "--tile", "16x32x64"], {}),
    "groups of ranks": (33, "f4", ["--tile", "16x16x190", "--grid", "3x11"], {}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Of a run by its name: the page, its elements, and the report."""
    @functools.cache
    def make(name):
        ranks, dtype, options, env = RUNS[name]
        folder = tmp_path_factory.mktemp("page")
        source, page = folder / "input.h5", folder / "page.html"
        operands(source, 150, 170, 190, dtype, "TN" if "--transa" in options else "NN")
        report = multiply(source, *options, "--html", page, ranks=ranks, **env)
        return page, parse(page), report
    return make


@pytest.fixture(params=RUNS)
def shown(made, request):
    return made(request.param)


def parse(page):
    """Its elements, without the name space in their names."""
    doctype, text = page.read_text("utf-8").split("\n", 1)
    assert doctype == "<!DOCTYPE html>"
    root = ElementTree.fromstring(text)
    for element in root.iter():
        element.tag = element.tag.split("}")[-1]
    return root


def section(root, name):
    return next(s for s in root.iter("section") if s.get("id") == name)


def text_of(element):
    return " ".join("".join(element.itertext()).split())


def lanes(root):
    """(first rank, last rank, lane): seconds of each of these ranks."""
    seconds = {}
    for title in section(root, "timeline").iter("title"):
        first, last, lane, busy = re.fullmatch(
            r"ranks? (\d+)(?: to (\d+))?, ([\w ]+): (\S+) s, \S+ % of the time", title.text).groups()
        seconds[int(first), int(last or first), lane] = float(busy)
    return seconds


def cells(root):
    """(row, end, column, end), rank, residual or None, elements not finite; of the map by residual."""
    maps = [[rect.find("title").text for rect in svg.iter("rect") if rect.find("title") is not None]
            for svg in section(root, "map").iter("svg")]
    assert maps[0] == maps[1]
    for title in maps[0]:
        row, last_row, col, last_col, rank, residual, rows = re.fullmatch(
            r"rows (\d+) to (\d+), columns (\d+) to (\d+): rank (\d+), (?:not checked|residual (\S+) of its limit)"
            r"(?:, (\d+) elements NaN or Inf)?", title).groups()
        yield ((int(row), int(last_row) + 1, int(col), int(last_col) + 1), int(rank),
               float(residual) if residual else None, int(rows or 0))


def test_busy_seconds_are_those_of_the_report(shown):
    _, root, report = shown
    seconds, ranks = lanes(root), report["machine"]["ranks"]
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


def test_the_device_waits_when_it_does_nothing_else(shown):
    _, root, report = shown
    seconds = lanes(root)
    whole = [waits + seconds[first, last, "multiply"] + seconds.get((first, last, "online check"), 0)
             for (first, last, lane), waits in seconds.items() if lane == "device waits"]
    assert whole == pytest.approx([whole[0]] * len(whole), 1e-3)
    assert max(seconds.values()) <= 1.0001 * whole[0] < report["wall_s"] + report["startup_s"]


def test_tiles_are_those_of_the_plan(shown):
    _, root, report = shown
    rows, cols = report["plan"]["tile"]
    painted = np.zeros((150, 170), int)
    ranks, residuals = set(), []
    for (row, row_end, col, col_end), rank, residual, not_finite in cells(root):
        assert row % rows == col % cols == 0
        assert (row_end - row, col_end - col) == (min(rows, 150 - row), min(cols, 170 - col))
        painted[row:row_end, col:col_end] += 1
        ranks.add(rank)
        residuals.append(residual)
        assert not_finite == 0
    assert (painted == 1).all()
    assert ranks == set(range(report["machine"]["ranks"] // report["plan"]["layers"]))
    if report["checked"]:
        assert max(residuals) == pytest.approx(report["residual"], 1e-5)
    else:
        assert residuals == [None] * len(residuals)


def test_measured_is_the_report(shown):
    _, root, report = shown
    found = {}
    for title in section(root, "plan").iter("title"):
        name, planned, measured = re.fullmatch(r"(.+): planned (\S+) s, measured (\S+) s", title.text).groups()
        found[name] = float(measured)
        if name == "wall":
            assert float(planned) == pytest.approx(report["plan"]["wall_s"], 1e-5)
    assert found.pop("wall") == pytest.approx(report["wall_s"], 1e-5)
    for name, measured in found.items():
        assert measured == pytest.approx(report["stages"][STAGES[name]]["busy_max_s"], 1e-5, 1e-9)
    assert {STAGES[name] for name in found} == {
        key for key, stage in report["stages"].items()
        if key not in ("cache", "check") and (stage.get("bytes") or stage.get("flops"))}


def test_charts_are_of_the_report(shown):
    _, root, report = shown
    stages = report["stages"]
    for circle in section(root, "roofline").iter("circle"):
        name, intensity = re.match(r"(.+): (\S+) flop for each byte", circle.find("title").text).groups()
        expected = stages["gemm"]["flops"] / stages[STAGES[name]]["bytes"]
        assert float(intensity) == pytest.approx(expected, 1e-3), name
    curves = [path.get("d") for path in section(root, "progress").iter("path")
              if path.get("class").startswith("curve")]
    assert len(curves) == 3
    for curve in curves:  # from 0 to all of it
        heights = [float(y) for y in re.findall(r" ([\d.]+)", curve)]
        assert heights[0] == 246 and heights[-1] == 12 and heights == sorted(heights, reverse=True)


def test_verdict(shown):
    _, root, report = shown
    verdict = text_of(root.find(".//header"))
    assert "C 150 × 170, k = 190" in verdict
    if report["checked"]:
        assert f"PASSED an error of {report['detectable']:.2g} of a typical element" in verdict
    else:
        assert "C was not checked" in verdict and "PASSED" not in verdict


# In a frame of its own for each page and width: what is how large, and in which colours.
FRAME = """<iframe style="border:0;width:{width}px;height:900px" srcdoc="{page}"></iframe>"""
HARNESS = """<!DOCTYPE html><meta charset="utf-8"><body>{frames}<script>
onload = () => {{ for (const frame of document.querySelectorAll("iframe")) {{
    const page = frame.contentDocument, root = page.documentElement;
    const size = e => e.getBoundingClientRect();
    const svgs = [...page.querySelectorAll("svg")].map(size);
    frame.setAttribute("data-measured", JSON.stringify({{
        window: frame.contentWindow.innerWidth,
        right: Math.max(root.scrollWidth, ...[...page.querySelectorAll("*")].map(e => size(e).right)),
        svgs: svgs.length,
        least: Math.min(...svgs.map(b => Math.min(b.width, b.height))),
        colours: ["body", "p", "dt", "small", "td", "h3"].map(
            name => frame.contentWindow.getComputedStyle(page.querySelector(name)).color),
        paper: frame.contentWindow.getComputedStyle(page.body).backgroundColor}})) }}
    document.querySelectorAll("iframe").forEach(frame => frame.removeAttribute("srcdoc")) }}
</script></body>"""


def browse(path, scheme):
    """What Chromium makes of it, without a network; it must have nothing to say."""
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--dump-dom",
         f"--user-data-dir={path.parent / 'profile'}", "--virtual-time-budget=1000",
         f"--blink-settings=preferredColorScheme={scheme}", path.as_uri()],
        capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(path.parent)})
    assert done.returncode == 0 and "CONSOLE" not in done.stderr, done.stderr
    return [json.loads(html.unescape(text)) for text in re.findall(r'data-measured="([^"]*)"', done.stdout)]


def luminance(colour):
    """As WCAG defines it, of "rgb(r, g, b)"."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


@pytest.mark.skipif(not CHROMIUM, reason="no chromium here: make setup")
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_in_a_browser(made, tmp_path, scheme):
    """Nothing is wider than its window, every picture is there, and all text can be told from the paper."""
    pages = [(page, root, width) for page, root, _ in map(made, RUNS) for width in (1280, 400)]
    frames = "".join(FRAME.format(width=width, page=html.escape(page.read_text("utf-8")))
                     for page, _, width in pages)
    harness = tmp_path / "harness.html"
    harness.write_text(HARNESS.format(frames=frames), "utf-8")
    measured = browse(harness, ["dark", "light"].index(scheme))
    assert len(measured) == len(pages)
    for seen, (_, root, width) in zip(measured, pages):
        assert seen["window"] == width >= seen["right"]
        assert seen["svgs"] == len(list(root.iter("svg"))) and seen["least"] >= 10
        paper = luminance(seen["paper"])
        assert paper < 0.05 if scheme == "dark" else paper > 0.9
        for colour in seen["colours"]:
            darker, lighter = sorted([paper, luminance(colour)])
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (colour, seen["paper"])


def test_needs_nothing_from_elsewhere(shown):
    page, root, _ = shown
    assert not re.search(r"<script|<link|<img|\bsrc=|\bhref=|url\(|@import", page.read_text("utf-8"))
    assert page.stat().st_size < 1 << 20


@pytest.mark.parametrize("name, shows", [("""in<&"'ü\x1b\x85>.h5""", """in<&"'ü??>.h5"""),
                                         ("in\udcffü.h5", "in???.h5")])
def test_name_that_is_no_markup(tmp_path, name, shows):
    source, page = tmp_path / name, tmp_path / "page.html"
    operands(tmp_path / "input.h5", 30, 20, 10)
    (tmp_path / "input.h5").rename(source)
    assert run("dgemm_ooc", source, "-q", "--html", page).returncode == 0
    root = parse(page)
    rows = {row.find("th").text: text_of(row.find("td")) for row in section(root, "details").iter("tr")}
    assert rows["A"].startswith(f"{tmp_path / shows}:A, 30 × 10") or shows in rows["A"]
    assert shows in root.find(".//title").text and shows in rows["command"]
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", page.read_text("utf-8"))


def test_rows_that_are_not_finite(tmp_path):
    source, page = tmp_path / "input.h5", tmp_path / "page.html"
    a, b = np.ones((96, 40)), np.ones((40, 64))
    a[3, 5] = a[80, 7] = np.nan
    a[32:64] = np.inf
    write(source, A=a, B=b)
    report = multiply(source, "--tile", "32x32x16", "--html", page)
    found = list(cells(parse(page)))
    assert sum(elements for *_, elements in found) == report["elements_not_finite"] == 34 * 64
    assert [residual for _, _, residual, _ in found].count(None) == 2  # the tiles of Inf alone
    assert "2176 elements are NaN or Inf" in text_of(parse(page).find(".//header"))


def test_run_that_went_on(tmp_path):
    """The page and the trace show what this process did, all of its pieces."""
    source, page, trace = (tmp_path / name for name in ("input.h5", "page.html", "trace.json"))
    operands(source, 700, 600, 800)
    with start("dgemm_ooc", source, "--tile", "40x40x16") as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
        process.send_signal(signal.SIGUSR2)
        process.communicate(timeout=60)
    assert process.returncode == 75
    path = source.with_suffix(".json")
    done = run("dgemm_ooc", source, "--tile", "40x40x16", "--html", page, "--trace", trace,
               "--report", path)
    assert done.returncode == 0, done.stderr
    root, report = parse(page), json.loads(path.read_text())
    assert re.search(r"\((planned .*?)\)", done.stdout)[1] in text_of(root.find(".//header"))
    part = report["stages"]["gemm"]["flops"] / (2 * 700 * 600 * 800)
    percent, pieces = re.search(r"multiplied (\S+) % of the product, in (\d+) pieces?",
                                text_of(root.find(".//header"))).groups()
    assert 0 < part < 1 and float(percent) == pytest.approx(100 * part, abs=0.051) and int(pieces) >= 1
    assert lanes(root)[0, 0, "multiply"] == pytest.approx(report["stages"]["gemm"]["busy_avg_s"], 1e-4)
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
