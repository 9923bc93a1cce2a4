"""What the documents say of this tree: links lead somewhere, named files are there, and the README
stays short."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [ROOT / folder / "README.md" for folder in (".", "src", "jobs", "tests", "tests/bench")]
FOLDERS = ("src", "io", "kernels", "jobs", "tests")
README_LINES = 200
OTHERS = {"hdf5.h"}  # files of libraries


def names(path):
    return str(path.relative_to(ROOT))


def anchors(path):
    """Of its headings, as GitHub makes them."""
    for heading in re.findall(r"^#+ (.*)", path.read_text(), re.M):
        yield re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_links(document):
    for link in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_named_functions_are_there(document):
    sources = "".join(path.read_text() for folder in FOLDERS for kind in ("*.[ch]", "*.cu", "*.cuh")
                      for path in (ROOT / folder).rglob(kind))
    for name in re.findall(r"`(\w+)\(\)`", document.read_text()):
        assert re.search(rf"^[\w ]+[ *]{name}\(", sources, re.M), name


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES
