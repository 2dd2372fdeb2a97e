"""``# rootdk: ignore[...]``: which findings it drops, and what is said of it."""

import linecache
from pathlib import Path

import pytest
from report.diagnoses import finding, site

from rootdk.check.comments import apply_comments, read_comments
from rootdk.records import Finding, Frame, Source

CODE = """\
def attend(query, key):
    scores = query @ key  # rootdk: ignore[RDK102] tuned so
    scores = scale(
        scores,
        0.125,
    )  # rootdk: ignore[RDK103, RDK104]: both on purpose
    # rootdk: ignore[RDK105] stands alone
    text = "# rootdk: ignore[RDK106] in a string"
    return scores.softmax(-1)  # rootdk: ignore[model-width-scale]
    return scores  # rootdk: ignore
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "model.py"
    file.write_text(CODE)
    linecache.checkcache()
    return file


NAMES = {"RDK102": "x", "RDK103": "model-width-scale", "RDK104": "y", "RDK105": "z"}


def meant(entry: str) -> set[str]:
    return {code for code, name in NAMES.items() if entry in (code, name)}


def at(*frames: tuple[Path | str, int]) -> Source:
    return Source(frames=tuple(Frame(file=str(f), line=n, function="f") for f, n in frames))


def applied(
    file: Path, *findings: Finding, judged: frozenset[str] = frozenset(NAMES)
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    return apply_comments(findings, [site(source=at((file, 1)))], meant=meant, judged=judged)


def test_comments_are_read_with_the_lines_of_their_statement(file: Path) -> None:
    found = [(c.line, c.first, c.last, c.entries, c.reason) for c in read_comments(str(file))]
    assert found == [
        (2, 2, 2, ("RDK102",), "tuned so"),
        (6, 3, 6, ("RDK103", "RDK104"), "both on purpose"),
        (7, 7, 7, ("RDK105",), "stands alone"),
        (9, 9, 9, ("model-width-scale",), ""),
        (10, 10, 10, (), ""),
    ]


def test_a_finding_on_the_line_is_dropped_and_counted(file: Path) -> None:
    guilty = finding(code="RDK102", source=at((file, 2)))
    elsewhere = finding(code="RDK102", source=at((file, 4)))
    other = finding(code="RDK101", name="missing-scale", source=at((file, 2)))
    kept, remarks = applied(file, guilty, guilty, elsewhere, other)
    assert kept == (elsewhere, other)
    assert remarks[0] == "model.py:2: 2 findings of RDK102 ignored: tuned so"


def test_a_comment_speaks_for_its_whole_statement(file: Path) -> None:
    kept, _ = applied(file, finding(code="RDK104", name="x", source=at((file, 3))))
    assert kept == ()


def test_a_related_place_and_the_innermost_own_frame_count(file: Path) -> None:
    related = finding(source=at((file, 9)), related=(at((file, 2)),))
    library = at(("/x/site-packages/lib/sdpa.py", 88), (file, 2), (file, 9))
    through = finding(source=library)
    outer = finding(source=at((file, 9), (file, 2)))
    kept, _ = applied(file, related, through, outer)
    assert kept == (outer,)


def test_a_name_works_like_its_code(file: Path) -> None:
    named = finding(code="RDK103", name="model-width-scale", source=at((file, 9)))
    kept, remarks = applied(file, named)
    assert kept == ()
    assert "model.py:9: 1 finding of model-width-scale ignored, without a reason" in remarks


def test_comments_that_ignore_nothing_are_reported(file: Path) -> None:
    _, remarks = applied(file)
    assert remarks == (
        "model.py:2: ignore[RDK102] ignores nothing",
        "model.py:6: ignore[RDK103] ignores nothing",
        "model.py:6: ignore[RDK104] ignores nothing",
        "model.py:7: ignore[RDK105] ignores nothing",
        "model.py:9: ignore[model-width-scale] ignores nothing",
        "model.py:10: the ignore comment names no code, so it ignores nothing",
    )


def test_a_rule_that_did_not_run_makes_no_comment_useless(file: Path) -> None:
    _, remarks = applied(file, judged=frozenset())
    assert remarks == ("model.py:10: the ignore comment names no code, so it ignores nothing",)


def test_files_that_cannot_be_read_have_no_comments(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("x = (  # rootdk: ignore[RDK1]\n")
    assert read_comments(str(broken)) == ()
    assert read_comments(str(tmp_path / "none.py")) == ()
    assert read_comments("<string>") == ()
