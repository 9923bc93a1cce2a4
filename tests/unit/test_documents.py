"""What the documents say of this tree: links lead somewhere, named files are there, and the README
stays short."""
import math
import re
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/bench")]
import runs  # noqa: E402
from cases import each  # noqa: E402

DOCUMENTS = [*(ROOT / folder / "README.md" for folder in (".", "src", "src/python", "io", "kernels", "jobs", "tests",
                                                          "tests/bench")), ROOT / "src/EXTENDING.md"]
PAGES = sorted((ROOT / "jobs/packages/man").glob("*.1"))
PLAIN = [*DOCUMENTS, *PAGES]  # in short sentences and lines
FOLDERS = ("src", "io", "kernels", "jobs", "tests")
LINES = {"README.md": 130, "tests/bench/README.md": 250, "src/EXTENDING.md": 200,  # at most
         "src/python/README.md": 174}
COLUMNS = 100
MEDIAN, MOST = 14, 25  # words of a sentence; nine of ten have at most so many
OTHERS = {"hdf5.h"}  # files of libraries
RATIOS = {"share", "gain", "A, B and C"}  # columns of what follows from others


def names(path):
    return str(path.relative_to(ROOT))


def anchors(path):
    """Of its headings, as GitHub makes them."""
    for heading in re.findall(r"^#+ (.*)", path.read_text(), re.M):
        yield re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@each("document", DOCUMENTS)
def test_links(document):
    for link in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@each("document", DOCUMENTS)
def test_named_files_are_there(document):
    """Paths from the top, from the document's folder, or, of a file alone, anywhere in the sources."""
    text = re.sub(r"^    .*", "", document.read_text(), flags=re.M)
    for name in re.findall(r"`([\w./*-]+\.(?:c|h|cu|cuh|cpp|py|sh|mk|json|svg|txt|1|def))`", text):
        if name in OTHERS:
            continue
        if name.startswith(FOLDERS):
            found = list(ROOT.glob(name))
        else:
            found = [*document.parent.glob(name), *(path for folder in FOLDERS
                                                    for path in (ROOT / folder).rglob(name))]
        assert found, name


@each("document", DOCUMENTS)
def test_named_functions_are_there(document):
    sources = "".join(path.read_text() for folder in FOLDERS for kind in ("*.[ch]", "*.cu", "*.cuh")
                      for path in (ROOT / folder).rglob(kind))
    for name in re.findall(r"`(\w+)\(\)`", document.read_text()):
        assert re.search(rf"^[\w ]+[ *]{name}\(", sources, re.M), name


@each("document", LINES)
def test_document_is_short(document):
    assert len((ROOT / document).read_text().splitlines()) <= LINES[document]


@each("document", PLAIN)
def test_commits_are_named_beside_measurements_alone(document):
    commits = re.findall(r"\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7}\b", document.read_text())
    assert bool(commits) == (document == ROOT / "tests/bench/README.md"), commits


def markdown(page):
    """The paragraphs of a manual page: what is bold or italic is code, and tags and examples are left out."""
    for pattern, to in ((r"^\.SH (?:NAME|SYNOPSIS|SEE ALSO)\n(?:(?!\.SH).*\n)*", ""),
                        (r"^\.(?:EX|nf)\n.*?^\.(?:EE|fi)\n", "\n"), (r"^\.T[PQ]\n.*\n", "\n"),
                        (r"^\.(?:TH|S[HS]|[IP]P|R[SE]|ta)\b.*", "\n"), (r"^\.[BIR]+ (.*?)(?: ([.,:;]))?$", r"`\1`\2"),
                        (r"\\f[BI](.*?)\\fR", r"`\1`"), (r"\\&|\\(?=-)", "")):
        page = re.sub(pattern, to, page, flags=re.M | (re.S if "EX" in pattern else 0))
    return page


def test_a_page_as_markdown():
    page = (".SH NAME\nx \\- y\n.SH TEXT\n.TP\n.B tag\nGive\n.BR \\-\\-all .\n\\fIFILE\\fR is\\-1.\n"
            ".EX\nx y\n.EE\n.IP \\(bu 2\nLast.\n.SH SEE ALSO\nnone\n")
    assert [" ".join(words) for words in sentences(markdown(page))] == ["Give X.", "X is-1.", "Last."]


def sentences(text):
    """Of paragraphs and lists, with code as one word and links without their targets."""
    text = re.sub(r"```.*?```", "\n", text, flags=re.S)
    text = re.sub(r"^(?:    |\||#).*", "\n", text, flags=re.M)
    for paragraph in re.split(r"\n\s*\n|^- ", text, flags=re.M):
        plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "X", " ".join(paragraph.split())))
        yield from (sentence.split() for sentence in re.split(r"(?<=[.:?])\s+(?=[A-Z*\[])", plain) if sentence)


@each("document", PLAIN)
def test_sentences_and_lines_are_short(document):
    text = document.read_text()
    assert not re.search(r"^\.", markdown(text) if document in PAGES else "", re.M)
    lengths = sorted(len(words) for words in sentences(markdown(text) if document in PAGES else text))
    assert lengths[len(lengths) // 2] <= MEDIAN and lengths[len(lengths) * 9 // 10] <= MOST
    assert [line for line in text.splitlines() if len(line) > COLUMNS and line[0] != "|"] == []


@each("document", [ROOT / "kernels/README.md", ROOT / "tests/bench/README.md"])
def test_what_the_check_finds_is_what_was_measured(document):
    """Rows of a k, and of another n than 1024 or what was said above the table: both types, made and read back."""
    table = list(runs.single("check power"))
    rows = re.findall(r"^\| (\d+)(?:, .*n = (\d+))? \|((?: [\d.e-]+ \|){4})$", document.read_text(), re.M)
    assert len(rows) >= 4
    for k, n, figures in rows:
        n = n or {"100000": "128", "1000000": "32"}.get(k, "1024")
        measured = [row[check] for kind in "ds" for check in ("online", "full") for row in table
                    if row["type"] == kind and row["shape"].endswith(f"x{n}x{k}")]
        assert [float(figure) for figure in figures.split("|")[:4]] == [float(f"{x:.2g}") for x in measured]


def values(lines):
    """What a table may say of runs: each value, and the median and the geometric mean of what was repeated."""
    for line in lines:
        for cell in line.values():
            numbers = [x for x in cell if isinstance(x, float)] if isinstance(cell, list) else []
            yield from numbers
            if numbers:
                yield median(numbers)
                yield math.exp(sum(map(math.log, numbers)) / len(numbers)) if min(numbers) > 0 else 0


def test_tables_say_what_runs_csv_says():
    """Of the tables behind `<!-- runs.csv: QUESTION, ... -->`, each figure with a point in a column that is no ratio: a
    value of a run of these questions, of the row's commits where it has some, or that over 1e9, rounded."""
    text = (ROOT / "tests/bench/README.md").read_text()
    tables = re.findall(r"^<!-- runs\.csv: (.*) -->\n((?:\|.*\n)+)", text, re.M)
    assert len(tables) >= 8
    for questions, table in tables:
        lines = [line for question in questions.split(", ") for line in runs.lines(question)]
        head, _, *rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()]
        for row in rows:
            commits = re.findall(r"\b(?=[0-9]*[a-f])[0-9a-f]{7}\b", " ".join(row))
            measured = set(values(line for line in lines if not commits or line["commit"] in commits))
            measured |= {value / 1e9 for value in measured if value > 1e7}
            for name, cell in zip(head[1:], row[1:]):
                for figure in re.findall(r"\b\d+\.\d+\b", cell):
                    near = 0.501 * 10.0 ** -len(figure.split(".")[1])
                    assert name in RATIOS or any(abs(value - float(figure)) <= near for value in measured), (row, figure)
