"""Every link between our pages leads somewhere, and every page can be found from the README."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
_FENCED = re.compile(r"```.*?```", re.S)


def prose(page):
    return _FENCED.sub("", page.read_text())


def links(page):
    """Each link to a page of ours: where it leads, and the heading it names there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if not re.match(r"[a-z]+:", target):
            path, _, heading = target.partition("#")
            yield (page.parent / path).resolve() if path else page, heading


def anchors(page):
    """The headings of a page as links spell them."""
    for title in re.findall(r"^#+ (.*)$", prose(page), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        yield re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    for path, heading in links(page):
        assert path.exists(), path
        assert not heading or path.suffix != ".md" or heading in set(anchors(path)), heading


def test_every_howto_and_spec_is_linked_from_the_readme():
    told = {path for path, _ in links(README)}
    pages = {page for page in PAGES if page.parent.name in ("howto", "specs")}
    assert sorted(pages - told) == []
