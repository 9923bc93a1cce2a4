"""Every text of the page, for products and runs of all kinds: the heading is the product's formula, words are words,
and numbers are those of the report."""
import json
import re
import signal

import numpy as np
import pytest

from launch import BUILD, PATIENCE, ROOT, built, run, start
from matrices import operands, part_of, random, wait_until, write

M, N, K = 60, 70, 80  # A has M rows and K columns where it is not transposed
GRAM = ["--product", "gram"]
NODES = {"DGEMM_OOC_TEST_NODE": "1"}
TYPES = {"f8": "double", "f4": "float", "c16": "complex double", "c8": "complex float", "i2": "int64"}
# Heading, type, options, and what differs from a run on the CPU, alone, that succeeds and writes its own page.
CASES = {
    "plain": ("C = A B", "f8", [], {}),
    "floats": ("C = A B", "f4", [], {}),
    "integers": ("C = A B", "i2", [], {}),
    "complex": ("C = A B", "c16", [], {}),
    "complex floats": ("C = A B", "c8", [], {}),
    "alpha 1": ("C = A B", "f8", ["--alpha=1"], {}),
    "alpha 2": ("C = 2 A B", "f8", ["--alpha=2"], {}),
    "alpha -1": ("C = −A B", "f8", ["--alpha=-1"], {}),
    "alpha -0.5": ("C = −0.5 A B", "f8", ["--alpha=-0.5"], {}),
    "alpha 0": ("C = 0 A B", "f8", ["--alpha=0"], {}),
    "alpha 0, beta 1": ("C = 0 A B + C0", "f8", ["--alpha=0", "--beta=1"], {}),
    "alpha with many digits": ("C = 0.333333 A B", "f8", ["--alpha=0.33333333333333"], {}),
    "alpha imaginary": ("C = i A B", "c16", ["--alpha=1i"], {}),
    "alpha -2i": ("C = −2i A B", "c16", ["--alpha=-2i"], {}),
    "alpha complex": ("C = (1 − 2i) A B", "c16", ["--alpha=1-2i"], {}),
    "alpha complex, negative": ("C = (−1 + 0.5i) A B", "c8", ["--alpha=-1+0.5i"], {}),
    "alpha 2, complex": ("C = 2 A B", "c16", ["--alpha=2"], {}),
    "beta 0": ("C = A B", "f8", ["--beta=0"], {}),
    "beta 1": ("C = A B + C0", "f8", ["--beta=1"], {}),
    "beta 2": ("C = 3 A B + 2 C0", "f8", ["--alpha=3", "--beta=2"], {}),
    "beta -1": ("C = A B − C0", "f8", ["--beta=-1"], {}),
    "beta -0.25": ("C = −A B − 0.25 C0", "f4", ["--alpha=-1", "--beta=-0.25"], {}),
    "beta imaginary": ("C = A B + 2i C0", "c16", ["--beta=2i"], {}),
    "beta complex": ("C = (1 − 2i) A B + (3 − i) C0", "c16", ["--alpha=1-2i", "--beta=3-1i"], {}),
    "A transposed": ("C = AT B", "f8", ["--transa=T"], {}),
    "B transposed": ("C = A BT", "f8", ["--transb=T"], {}),
    "both transposed": ("C = 2 AT BT + C0", "f8", ["--transa=T", "--transb=T", "--alpha=2", "--beta=1"], {}),
    "A conjugated": ("C = AH B", "c16", ["--transa=C"], {}),
    "B conjugated": ("C = AT BH", "c16", ["--transa=T", "--transb=C"], {}),
    "C of real numbers": ("C = AT B", "f8", ["--transa=C"], {}),
    "gram": ("C = A AT", "f8", GRAM, {}),
    "gram of columns": ("C = AT A", "f8", [*GRAM, "--transa=T"], {}),
    "gram, scaled": ("C = 2 A AT", "f4", [*GRAM, "--alpha=2", "--symmetric=on"], {}),
    "lower half": ("C = A AT", "f8", ["-b", "A", "--transb=T", "--symmetric=lower"], {}),
    "Hermitian": ("C = A AH", "c16", ["-b", "A", "--transb=C"], {}),
    "Hermitian of columns": ("C = AH A", "c16", ["-b", "A", "--transa=C"], {}),
    "covariance": ("C = A AT / 79, rows of A centred", "f8", ["--product=cov"], {}),
    "covariance of columns": ("C = AT A / 59, columns of A centred", "f8", ["--product=cov", "--transa=T"], {}),
    "correlation": ("C = A AT / 79, rows of A centred and scaled", "f8", ["--product=cor"], {}),
    "centred": ("C = A AT, rows of A centred", "f8", [*GRAM, "--center=rows"], {}),
    "scaled": ("C = AT A, columns of A scaled", "f8", [*GRAM, "--transa=T", "--scale=cols"], {}),
    "centred and scaled": ("C = 3 A AT, rows of A centred and scaled", "f8",
                           [*GRAM, "--alpha=3", "--center=rows", "--scale=rows"], {}),
    "residues": ("C = A B", "f8", ["--algo=ozaki"], {}),
    "residues on a GPU": ("C = −A B", "f4", ["--algo=ozaki", "--alpha=-1"], {"device": "gpu"}),
    "GPU": ("C = A B + 2 C0", "f8", ["--beta=2", "--verify=full"], {"device": "gpu"}),
    "two ranks with GPUs": ("C = (1 + i) AH B", "c16", ["--transa=C", "--alpha=1+1i"],
                            {"device": "gpu", "ranks": 2}),
    "integers on a GPU": ("C = A B", "i2", [], {"device": "gpu"}),
    "out of core": ("C = A B + 2 C0", "f4", ["--beta=2", "--gpu-memory=24K", "--host-memory=30M"], {}),
    "three nodes": ("C = AT B", "f8", ["--transa=T", "--gpu-memory=24K"], {"ranks": 3, "env": NODES}),
    "more ranks than tiles": ("C = A B", "f8", ["--tile=60x70x80"], {"ranks": 3}),
    "not checked": ("C = A B", "f8", ["--verify=off", "--tile=16x32x64"], {}),
    "read back": ("C = A B", "f8", ["--verify=full"], {}),
    "NOT CHECKED": ("C = 1e300 A B", "f8", ["--alpha=1e300", "--verify=full"], {"size": 1e10, "code": 6}),
    "dry run": ("C = A B", "f8", ["--dry-run"], {"saved": True}),
    "dry run of a cluster": ("C = AT B", "f4", ["--dry-run", "--transa=T", "--ranks=8", "--ranks-per-node=4",
                                                f"--machine={ROOT}/jobs/machines/cluster-64.json"], {"saved": True}),
    "saved report": ("C = 2 A B", "f8", ["--alpha=2"], {"saved": True}),
    "saved report of a GPU": ("C = A B", "f8", [], {"saved": True, "device": "gpu"}),
    "no input": ("dgemm_ooc", "f8", ["-a", "nothing"], {"saved": True, "code": 3}),
    "no place for C": ("C = A B", "f8", ["--output=/nowhere/C.h5"], {"saved": True, "code": 3}),
    "a disk that flips a bit": ("C = A B", "f8", ["--verify=full"], {"saved": True, "code": 5, "env": {
        "DGEMM_OOC_TEST_FAULTS": "pwrite:flip@1", "DGEMM_OOC_TEST_FAULT_FILE": "input-C.h5.part"}}),
}

STAGES = {"cpu": {"read": "disk read", "cache": "host cache", "network": "network", "in": "copies in",
                  "gemm": "multiply", "check": "online check", "out": "copies out", "write": "disk write"}}
STAGES["gpu"] = STAGES["cpu"] | {"in": "host to device", "out": "device to host"}
WORK = {"cpu": {"read": "reading the files", "cache": "copies in memory", "network": "the network",
                "in": "copies in memory", "gemm": "multiplying", "check": "the check", "out": "copies in memory",
                "write": "writing C"}}
WORK["gpu"] = WORK["cpu"] | {"cache": "copies in host memory", "in": "copies to the GPU", "out": "copies from the GPU"}
RESOURCES = {"disk read": "read", "disk to node": "read", "network send": "network", "network receive": "network",
             "host cache": "cache", "host to device": "in", "multiply": "gemm", "device to host": "out",
             "node to disk": "write", "disk write": "write"}

# All text of the page, [text, whether a number may stand there alone]; and of attributes.
TEXTS = """(() => {
    const found = [], walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
    const alone = "svg, .axis, h1 sub, th sub, #ranks td, #ranks th, #simulated td";
    while (walker.nextNode())
        if (!walker.currentNode.parentElement.closest("script, style, noscript"))
            found.push([walker.currentNode.data, Boolean(walker.currentNode.parentElement.closest(alone))]);
    return found;
})()"""
ATTRIBUTES = """[...document.querySelectorAll("body, body *")].flatMap(e => [...e.attributes].map(a => a.value))"""
POINTED = """[...document.querySelectorAll("[data-tip]")].filter(e => places.has(e)).flatMap(e => {
    const box = e.getBoundingClientRect();
    return [0.01, 0.5, 0.99].map(part => places.get(e)({ clientX: box.left + part * box.width }));
})"""
# Texts that overlap others or that are cut off, of those that have places of their own.
CROWDED = """(() => {
    const crowded = [];
    for (const picture of document.querySelectorAll("svg, .axis, .figures, header")) {
        const around = picture.getBoundingClientRect();
        const texts = [...picture.querySelectorAll(":scope > text, :scope > span, :scope > div, :scope > p, button, h1")];
        const boxes = texts.map(e => {
            const inside = document.createRange();
            inside.selectNodeContents(e);
            return { text: e.textContent, ...inside.getBoundingClientRect().toJSON() };
        });
        boxes.forEach((box, i) => {
            if (box.left < around.left - 9 || box.right > around.right + 9)
                crowded.push(`${box.text} is cut off`);
            for (const other of boxes.slice(0, i))
                if (Math.min(box.right, other.right) - Math.max(box.left, other.left) > 0.5 &&
                    Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 0.5)
                    crowded.push(`${box.text} on ${other.text}`);
        });
    }
    return crowded;
})()"""
UNITS = {"%": 0.01, "µs": 1e-6, "ms": 1e-3, "s": 1, "B": 1}
UNITS |= {f"{prefix}iB": 1024.0 ** (i + 1) for i, prefix in enumerate("KMGTPE")}
UNITS |= {prefix + unit: 1000.0 ** i for i, prefix in enumerate(["", *"kMGTPEZ"]) for unit in ("B/s", "FLOP/s", "FLOP")}


def stored(options, name):
    """How the operand is stored."""
    return "T" if {f"--trans{name}=T", f"--trans{name}=C"} & set(options) else "N"


def symmetric(options):
    return "-b" in options or any(option.startswith("--product") for option in options)


def make(folder, dtype, options, device="cpu", ranks=0, code=0, env=None, saved=False, size=1):
    """Run the program; the page and the report."""
    source, page, report = (folder / name for name in ("input.h5", "page.html", "report.json"))
    program = built("dgemm_ooc", device, env or {})
    if not program.exists():
        pytest.skip(f"{program.name} is not built: make test")
    trans = "NN" if symmetric(options) else stored(options, "a") + stored(options, "b")
    operands(source, M, N, K, dtype, trans, lambda *args: (size * random(*args[:1], seed=args[2])).astype(args[1]))
    page_of_run = [] if saved else ["--html", page]
    done = run(program.relative_to(BUILD), source, *options, "--report", report, *page_of_run, ranks=ranks,
               DGEMM_OOC_DEVICE=device, **(env or {}))
    assert done.returncode == code, done.stdout + done.stderr
    if saved:
        assert run("dgemm_ooc", "--from-report", report, "--html", page).returncode == 0
    return page, json.loads(report.read_text())


def opened(browser, page):
    """The page with all of it drawn."""
    tab = browser.open(page)
    tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    tab.wait("!document.querySelector('#ranks details') || document.querySelector('#ranks tbody tr')")
    assert tab.said == [] and len(tab.requests) == 1, (tab.said, tab.requests)
    return tab


def assert_words(tab, report):
    """Every text is one: nothing is shown that JavaScript has for what is not there."""
    texts, attributes = tab.evaluate(TEXTS), tab.evaluate(ATTRIBUTES)
    said = [text for text, _ in texts] + attributes + tab.evaluate(POINTED)
    assert len(said) > 30
    for text in said:
        plain = re.sub(r"NaN (or|and) Inf|NaN is|--nan\b", "", text)
        assert not re.search(r"\b(undefined|NaN|null|Infinity|true|false)\b|\[object", plain), text
    for text, alone in texts:
        assert alone or not re.fullmatch(r"\s*[-−]?[.\d]+(e[-+]?\d+)?\s*", text), text
    if report["machine"]["device"] == "cpu":
        for text in said:
            if text != report["command"]:
                plain = text.replace(report.get("advice") or "-", "")
                assert not re.search(r"\bdevices?\b|\bGPUs?\b", plain) or text in report["errors"], text


def quantity(text):
    """The value of "9.69 MFLOP", "1:02:03" or "<1 %" in its base unit, and how far it may be off."""
    if clock := re.fullmatch(r"(\d+):(\d\d):(\d\d)", text):
        hours, minutes, seconds = map(int, clock.groups())
        return 3600 * hours + 60 * minutes + seconds, 1
    less, number, unit = re.fullmatch(r"(<?)(\d+(?:\.\d+)?(?:e-?\d+)?)[ \u00a0](\S+)", text).groups()
    last = 10.0 ** -len(number.partition(".")[2])
    value = float(number) / (2 if less else 1)
    return value * UNITS[unit], 0.501 * last * UNITS[unit]


def assert_says(text, value):
    shown, rounding = quantity(text)
    assert shown == pytest.approx(value, rel=1e-6, abs=rounding), (text, value)


def assert_all_say(texts, values):
    assert len(texts) == len(values), (texts, values)
    for text, value in zip(texts, values):
        assert_says(text, value)


def matching(pattern, text):
    """The groups of the pattern, which is all of the text."""
    found = re.fullmatch(pattern, text)
    assert found, (pattern, text)
    return list(found.groups())


QUANTITY = r"((?:<?[\d.]+(?:e-?\d+)?[ \u00a0][µ%\w/]+)|\d+:\d\d:\d\d)"


def assert_limit(tab, report, device):
    """One sentence says first what limited the run."""
    found = tab.all("header .limit")
    if report["status"] == "simulated":
        predicted = report["predicted"]
        work = WORK[device][RESOURCES[predicted["limit"]]]
        share, = matching(rf"It would be limited by {work}, busy {QUANTITY} of the time\.", found[0])
        assert_says(share, predicted["resources"][predicted["limit"]]["busy_max_s"] / predicted["wall_s"])
    elif "wall_s" in report:
        busy = report["stages"][report["busiest_stage"]]["busy_max_s"] / report["wall_s"]
        work = WORK[device][report["busiest_stage"]]
        advice = f" Faster: {re.escape(report['advice'])}\\." if report.get("advice") else ""
        longest = f"no single part of the work: the longest, {work}, took" if busy < 0.5 else f"{work}, busy"
        share, = matching(rf"Limited by {longest} {QUANTITY} of the time\.{advice}", found[0])
        assert_says(share, busy)
    else:
        assert found == []


def assert_figures(tab, report, device):
    """C, time, check and memory."""
    parts = "[e.children[0].textContent, e.children[1].firstChild.data, e.querySelector('small').textContent]"
    figures = {what: (value, note) for what, value, note in tab.all(".figures div", parts)}
    value, note = figures.pop("C")
    assert value == report["status"]
    if report["status"] == "complete":
        assert note == "{file}:{dataset}".format(**report["matrices"]["C"])
    elif report["status"] == "simulated":
        assert note == "nothing was multiplied"
        assert_says(figures.pop("predicted time")[0], report["predicted"]["wall_s"])
    else:
        assert_says(matching(rf"{QUANTITY} is done and saved", note)[0], report["done"])
    if "wall_s" in report:
        value, note = figures.pop("time")
        rate = report["stages"]["gemm"]["flops"] / report["wall_s"]
        assert_says(value, report["wall_s"])
        assert_all_say(matching(f"planned {QUANTITY}; {QUANTITY}", note), [report["planned_wall_s"], rate])
        assert_memory(*figures.pop("memory"), report, device)
    full = report.get("full_check")
    checked = report if report.get("checked") and not (full and full["elements_not_judged"]) else full
    if report["status"] != "simulated":
        value, note = figures.pop("check")
        assert value == (checked and checked["verdict"] or "none")
        assert (value == "NOT CHECKED") == (report["exit_status"] == 6)
        assert note == "; ".join([checked["finding"]] + ["files read back"] * ("full_check" in report)
                                 if checked else ["C was not checked"])
    assert figures == {}


def assert_memory(value, note, report, device):
    limits = [report["machine"]["host_memory_bytes"]]
    pattern = f"of {QUANTITY} allowed"
    if device == "gpu":
        pattern += f"; GPU {QUANTITY} of {QUANTITY}"
        limits += [report["device_peak_bytes"], report["machine"]["device_memory_bytes"]]
    if report["machine"]["ranks"] > 1:
        pattern += ", on the rank that used most"
    assert_says(value, report["host_peak_bytes"])
    assert_all_say(matching(pattern, note), limits)


def table(tab, selector):
    return tab.all(f"{selector} tbody tr", "[...e.children].map(cell => cell.textContent)")


def assert_plan(tab, report, device):
    tables = len(tab.all("#plan table"))
    if "wall_s" not in report:
        assert tables == 0
        return
    names, stages, plan = STAGES[device], report["stages"], report["plan"]
    times, amounts = table(tab, "#plan .pair > :nth-child(1)"), table(tab, "#plan .pair > :nth-child(2)")
    shown = [key for key in names if names[key] in [row[0] for row in times]]
    assert [row[0] for row in times] == [*(names[key] for key in shown), "wall"]
    for row, key in zip(times, shown):
        assert_all_say(row[1:3], [stages[key]["planned_busy_s"], stages[key]["busy_max_s"]])
    assert_all_say(times[-1][1:3], [report["planned_wall_s"], report["wall_s"]])
    memory = [("memory, a rank", plan["host_bytes"], report["host_peak_bytes"])]
    if device == "gpu":
        memory.insert(0, ("GPU memory, a rank", plan["device_bytes"], report["device_peak_bytes"]))
    rows = [(names[key], stages[key][f"planned_{unit}"], stages[key][unit]) for key in shown
            for unit in ["flops" if key == "gemm" else "bytes"]] + memory
    assert [row[0] for row in amounts] == [row[0] for row in rows]
    for (_, *texts), (_, *values) in zip(amounts, rows):
        assert_all_say(texts, values)


def assert_roofline(tab, report, device):
    legend = tab.all("#roofline .legend li")
    if not legend:
        assert "wall_s" not in report or report["stages"]["gemm"]["flops"] == 0
        return
    machine, flops, ranks = report["machine"], report["stages"]["gemm"]["flops"], report["machine"]["ranks"]
    nodes = -(-ranks // machine["ranks_per_node"])
    peak = report["plan"]["gemm_flops_per_s"] * ranks
    who, sources = device.upper() + "s" * (ranks > 1), "(?:given|measured|assumed)"
    assert_says(matching(rf"{who}: at most {QUANTITY} \({sources}\)", legend[0])[0], peak)
    roofs = {"read": ("disk_read", 1), "network": ("network", nodes), "in": ("in", ranks), "write": ("disk_write", 1)}
    roofs = {key: roof for key, roof in roofs.items() if report["stages"][key]["bytes"] > 0}
    for text, (key, (link, count)) in zip(legend[1:], roofs.items(), strict=True):
        rate = count * machine[f"{link}_bytes_per_s"]
        most = min(peak, flops / report["stages"][key]["bytes"] * rate)
        source = machine["sources"][f"{link}_bytes_per_s"]
        shown = matching(rf"{STAGES[device][key]}: {QUANTITY} \({source}\) allow {QUANTITY}; reached {QUANTITY}", text)
        assert_all_say(shown[:2], [rate, most])
        assert quantity(shown[2])[0] == pytest.approx(flops / report["wall_s"] / most, rel=0.06)


def whole_run(course):
    """What each row's lanes did, in thousandths of each bin, with the waits."""
    for row in course["rows"]:
        shares = {key: np.array(stage["shares"]) for key, stage in row["stages"].items()}
        busy = {key: stage["busy_s"] for key, stage in row["stages"].items()}
        none = np.zeros(course["bins"], int)
        work = shares.get("gemm", none) + shares.get("check", none)
        seconds = course["bins"] * course["width_s"]
        shares["waits"] = np.maximum(0, 1000 - work)
        busy["waits"] = max(0, seconds - busy.get("gemm", 0) - busy.get("check", 0))
        yield shares, busy


def assert_timeline(tab, course, device):
    if course is None:
        assert tab.all("#timeline, #progress, #map", "e.innerHTML") == ["", "", ""]
        return
    rows, seconds = list(whole_run(course)), course["bins"] * course["width_s"]
    who = {"cpu": "threads wait", "gpu": "GPU waits"}[device]
    names = STAGES[device] | {"waits": who}
    used = [key for key in ("read", "cache", "network", "in", "gemm", "check", "waits", "out", "write")
            if any(key in busy for _, busy in rows)]
    found = tab.all("#timeline [data-tip]", "e.dataset.tip")
    shares = tab.all("#lanes .shares span")
    for i, (row, key) in enumerate([(row, key) for row in range(len(rows)) for key in used]):
        busy = rows[row][1].get(key, 0)
        shown = matching(rf"rank {row}, {names[key]}: (\S+) s, {QUANTITY} of the time", found[i])
        assert float(shown[0]) == pytest.approx(busy, rel=1e-5, abs=1e-9)
        assert_all_say([shown[1], shares[i]], [busy / seconds] * 2)
    assert len(found) == len(shares) == len(rows) * len(used)
    assert tab.all("#lanes .names span") == [names[key] for key in used] * len(rows)
    idle = sum(shares["waits"].sum() for shares, _ in rows)
    others = [key for key in used if key not in ("gemm", "check", "waits")]
    texts = ", ".join(f"{names[key]} {QUANTITY}" for key in others)
    waiting, = tab.all("#waiting")
    subject = {"cpu": "The threads that multiply", "gpu": "The GPU"}[device]
    parts = [sum((shares["waits"] * shares[key]).sum() for shares, _ in rows if key in shares) / idle / 1000
             for key in others] if idle else []
    meanwhile = f"; in that time others were at work: {texts}" if parts else ""
    ranks = [f"rank {rank}" for rank in range(len(rows))]
    assert tab.all("#map .legend li") == (ranks if len(rows) > 1 else [])
    assert_all_say(matching(rf"{subject} waited {QUANTITY} of the time{meanwhile}\.", waiting),
                   [idle / 1000 / course["bins"] / len(rows), *parts])


def assert_progress(tab, report, course):
    if course:
        shown = [matching(rf"(\w+): {QUANTITY}", text) for text in tab.all("#progress .legend li")]
        assert [name for name, _ in shown] == ["read", "multiplied", "written"]
        stages = report["stages"]
        assert_all_say([text for _, text in shown],
                       [stages["read"]["bytes"], stages["gemm"]["flops"], stages["write"]["bytes"]])


def assert_simulated(tab, report, device):
    rows = table(tab, "#simulated")
    if report["status"] != "simulated":
        assert rows == []
        return
    predicted = report["predicted"]
    busy = {resource: used for resource, used in predicted["resources"].items() if used["busy_max_s"] > 0}
    for (name, count, amount, share), (resource, used) in zip(rows, busy.items(), strict=True):
        stage = RESOURCES[resource]
        assert name == (STAGES[device][stage] if stage in ("in", "out") else resource)
        assert int(count) == used["count"]
        assert_all_say([amount, share], [used.get("flops", used.get("bytes")), used["busy_max_s"] / predicted["wall_s"]])


def assert_details(tab, report):
    rows = dict(table(tab, "#details"))
    for name, matrix in report.get("matrices", {}).items():
        turned = name in "AB" and report["problem"][f"trans_{name.lower()}"]
        way = f", {report['io'].get(name, 'not read')}" if "io" in report else ""
        assert rows.pop(name) == (f"{matrix['file']}:{matrix['dataset']}, {matrix['rows']} × {matrix['cols']}"
                                  f"{' transposed' * turned}{way}")
    machine = report["machine"]
    assert rows.pop("machine") == machine["name"]
    if "wall_s" in report:
        assert rows.pop("kernel").startswith(f"{report['algorithm']}: ")
        assert_says(rows.pop("start-up"), report["startup_s"])
    if plan := report.get("plan"):
        grid, tile, rounds = (" × ".join(map(str, plan[key])) for key in ("grid", "tile", "super_blocks"))
        assert rows.pop("ranks").startswith(
            f"{machine['ranks']}, {machine['ranks_per_node']} on a node, in a grid of {grid}")
        slab = min(plan["slab"], report["problem"]["k"]) if plan["slabs"] else 0
        assert rows.pop("tile") == f"{tile}, {slab} of k in a step, {rounds} rounds of a tile on each rank"
    if full := report.get("full_check"):
        shown = matching(rf"{QUANTITY} in {QUANTITY}: ([A-Z ]+), (.*)", rows.pop("files read back"))
        assert_all_say(shown[:2], [full["bytes"], full["busy_s"]])
        assert shown[2:] == [full["verdict"], full["finding"]]
    assert rows.pop("date") == report["date"].replace("T", " ").replace("Z", " UTC")
    assert rows == {"command": report["command"], "directory": report["directory"],
                    "version": f"{report['program']} {report['built']}"}


def assert_page(tab, page, heading, problem):
    """All of it: the page is of this report, and says what it holds."""
    (report, course) = (json.loads(tab.evaluate(f"document.getElementById('{name}-json').textContent"))
                        for name in ("report", "course"))
    device = report["machine"]["device"]
    assert tab.all("h1") == [heading]
    about = report["matrices"]["A"]["file"] if problem else report["status"]
    assert tab.evaluate("document.title") == f"dgemm_ooc: {about}"
    assert tab.all("header > p:not(.limit)")[:len(problem)] == problem
    assert tab.all(".error") == report["errors"]
    assert_words(tab, report)
    assert_limit(tab, report, device)
    assert_figures(tab, report, device)
    assert_plan(tab, report, device)
    assert_roofline(tab, report, device)
    assert_timeline(tab, course, device)
    assert_progress(tab, report, course)
    assert_simulated(tab, report, device)
    assert_details(tab, report)
    for width in 1280, 400:
        tab.resize(width)
        assert tab.evaluate(CROWDED) == []
    return report


def shape(options):
    """m, n and k of the product."""
    if not symmetric(options):
        return M, N, K
    return (K, K, M) if stored(options, "a") == "T" else (M, M, K)


@pytest.mark.parametrize("name", CASES)
def test_every_text(browser, tmp_path, name):
    heading, dtype, options, how = CASES[name]
    page, saved = make(tmp_path, dtype, options, **how)
    tab = opened(browser, page)
    m, n, k = shape(options)
    known = heading.startswith("C =")
    report = assert_page(tab, page, heading, [f"{TYPES[dtype]}, C {m} × {n}, k = {k}"] if known else [])
    assert report | {"date": 0} == saved | {"date": 0}
    tab.close()


def test_every_text_of_a_run_that_was_stopped_and_resumed(browser, tmp_path):
    source, page, report = (tmp_path / name for name in ("input.h5", "page.html", "report.json"))
    operands(source, 700, 600, 800)
    words, problem = [source, "--tile", "40x40x16", "--report", report], ["double, C 700 × 600, k = 800"]
    with start("dgemm_ooc", *words) as process:
        wait_until(lambda: part_of(source).exists() and part_of(source).stat().st_blocks, process)
        process.send_signal(signal.SIGUSR2)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    assert run("dgemm_ooc", "--from-report", report, "--html", page).returncode == 0
    tab = opened(browser, page)
    stopped = assert_page(tab, page, "C = A B", problem)
    assert stopped["status"] == "stopped" and 0 < stopped["done"] < 1
    tab.close()
    assert run("dgemm_ooc", *words, "--html", page).returncode == 0
    tab = opened(browser, page)
    resumed = assert_page(tab, page, "C = A B", problem)
    part = resumed["stages"]["gemm"]["flops"] / (2 * 700 * 600 * 800)
    share, pieces = re.search(rf"This process multiplied {QUANTITY} of the product, in (\d+) pieces?\.",
                              tab.all("header")[0]).groups()
    assert_says(share, part)
    assert 0 < part < 1 and int(pieces) == resumed["pieces"]
    tab.close()


def test_every_text_where_numbers_are_not_finite(browser, tmp_path):
    source, page = tmp_path / "input.h5", tmp_path / "page.html"
    a = random((M, K))
    a[3, 5], a[50] = np.nan, np.inf
    write(source, A=a, B=random((K, N), seed=1))
    assert run("dgemm_ooc", source, "--tile=16x16x16", "--html", page).returncode == 0
    tab = opened(browser, page)
    assert tab.all("h1") == ["C = A B"] and "; 140 elements are NaN or Inf" in tab.all(".figures")[0]
    assert_words(tab, json.loads(tab.evaluate("document.getElementById('report-json').textContent")))
    tab.close()


def test_only_words_are_text(browser, tmp_path):
    """What `count && words` leaves where the count is 0, and what a sum of what is missing is, is never drawn."""
    tab = browser.open(make(tmp_path, "f8", [])[0])

    def tell(expression):
        return tab.evaluate(f"(() => {{ try {{ return {expression}; }} catch (error) {{ return error.message; }} }})()")
    for child in ("0", "1", "NaN", "Infinity", "true", "{}", "['words', [0]]"):
        assert tell(f"html('p', {{}}, {child}).outerHTML").endswith("is not text"), child
    assert tell("svg('rect', { x: 0 / 0 }).outerHTML") == "NaN is not a number"
    assert tell("html('p', { title: null }, null, false, undefined, 'words').outerHTML") == "<p>words</p>"
    for text in ("bytesText", "flopsText", "timeText", "countText", "percent", "(x => digits(x, 3))"):
        for value in ("undefined", "null", "NaN", "1 / 0", "'1'"):
            assert tell(f"{text}({value})").endswith("is not a number"), (text, value)
    tab.close()
