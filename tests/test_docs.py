"""What the documentation says is true: its examples run, its links lead somewhere."""

import importlib.util
import re
import runpy
from pathlib import Path
from types import ModuleType

import pytest
from frameworks import REPOSITORY
from markdown_examples import ExampleFailed, examples, run_page

from rootdk import lab

GENERATED = {"rules", "quantities", "datasheets"}
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted(
        page for page in (REPOSITORY / "docs").rglob("*.md") if page.parent.name not in GENERATED
    ),
]
LINKED = sorted({*PAGES, *(REPOSITORY / "docs").rglob("*.md")})


def relative(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


# ------------------------------------------------------------------ examples


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_examples_do_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    run_page(page, tmp_path)


def test_the_readme_has_examples() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert {"python", "pycon", "console"} <= {example.language for example in examples(readme)}


def write_page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def test_blocks_share_a_namespace_and_a_folder(tmp_path: Path) -> None:
    page = write_page(
        tmp_path,
        "```python\na = 2\n```\ntext\n```pycon\n>>> b = 3\n>>> a * b\n6\n```\n"
        "<!-- file: model.py -->\n```python\nraise SystemExit\n```\n"
        "```python\nassert b == 3\n```\n```bash\nfalse\n```\n"
        "<!-- not run: it is an example of what fails -->\n```python\n1 / 0\n```\n"
        "```console\n$ make demo\n$ rootdk --version\n...0.1.0\n```\n",
    )
    assert run_page(page, tmp_path) == 4
    assert (tmp_path / "model.py").read_text() == "raise SystemExit\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```pycon\n>>> 1 + 1\n3\n```\n", "Expected:\n    3"),
        ("```console\n$ rootdk --version\nanother\n```\n", "expected:\nanother"),
        ("<!-- exit: 3 -->\n```console\n$ rootdk --version\n```\n", "ended with 0; expected 3"),
        ("```console\n$ rootdk --no-such-option\n```\n", "ended with 2; expected 0"),
        ("<!-- not run: -->\n```python\n1 / 0\n```\n", "page.md:3: not run, without a reason"),
    ],
)
def test_an_example_that_is_wrong_fails(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ExampleFailed, match=re.escape(message)):
        run_page(write_page(tmp_path, text), tmp_path)


def test_an_example_that_raises_names_its_line(tmp_path: Path) -> None:
    page = write_page(tmp_path, "text\n\n```python\na = 1\na / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as error:
        run_page(page, tmp_path)
    assert (error.traceback[-1].path, error.traceback[-1].lineno + 1) == (page, 5)


# ------------------------------------------------------------------ links


def dead_links(page: Path) -> list[str]:
    """The relative links of a page that lead to no file, or to no heading in it."""
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(target)
    return dead


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings make: lower case, hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_the_search_for_dead_links_can_fail(tmp_path: Path) -> None:
    text = "# One heading\n[a](page.md#one-heading) [b](none.md) [c](#none) [d](https://x.example)"
    assert dead_links(write_page(tmp_path, text)) == ["none.md", "#none"]


# ------------------------------------------------------------------ generated pages


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", REPOSITORY / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_told_from_stale_missing_and_left_over_ones(
    generator: ModuleType, tmp_path: Path
) -> None:
    pages = {"rules/A.md": "a\n", "rules/B.md": "b\n"}
    generator.write(pages, tmp_path)
    assert generator.differences(pages, tmp_path) == []
    (tmp_path / "rules/A.md").write_text("edited by hand\n")
    (tmp_path / "rules/B.md").unlink()
    (tmp_path / "rules/C.md").touch()
    assert generator.differences(pages, tmp_path) == [
        "rules/A.md is out of date",
        "rules/B.md is missing",
        "rules/C.md has no source",
    ]
    generator.write(pages, tmp_path)
    assert generator.differences(pages, tmp_path) == []


def test_a_figure_is_the_same_if_its_digest_is(generator: ModuleType) -> None:
    drawn, undrawn, other = ("<svg/>\n<!-- digest: a1 -->\n", "<!-- digest: a1 -->\n",
                             "<svg/>\n<!-- digest: b2 -->\n")  # fmt: skip
    assert generator.same(drawn, undrawn)
    assert not generator.same(drawn, other)
    assert not generator.same(drawn, "<svg/>\n")
    assert generator.same("text\n", "text\n")
    assert not generator.same("text\n", "another\n")


def test_a_digest_sees_what_a_reader_would_see() -> None:
    digest = runpy.run_path(str(REPOSITORY / "docs" / "gallery.py"))["digest"]

    def sketch(height: float, label: str = "raw") -> lab.Sketch:
        line = lab.Line(label=label, x=(4.0,), y=(height,))
        panel = lab.Panel(title="t", x_label="x", y_label="y", marks=(line,))
        return lab.Sketch(title="a question?", panels=(panel,))

    assert digest(sketch(1.0)) == digest(sketch(1.0 + 2**-40))
    assert digest(sketch(1.0)) != digest(sketch(1.001))
    assert digest(sketch(1.0)) != digest(sketch(1.0, label="scaled"))


def test_a_docstring_becomes_markdown(generator: ModuleType) -> None:
    docstring = """The ``mean`` of :func:`values`.

    .. math::

        \\bar x = \\frac1n \\sum_i x_i

    Written out::

        sum(values) / len(values)

    Remedy
    ------
    Use more.

    >>> 1 + 1
    2

    The end.
    """
    assert generator.markdown(docstring) == (
        "The `mean` of `values`.\n\n"
        "```math\n\\bar x = \\frac1n \\sum_i x_i\n```\n\n"
        "Written out:\n\n```text\nsum(values) / len(values)\n```\n\n"
        "## Remedy\n\nUse more.\n\n"
        "```pycon\n>>> 1 + 1\n2\n```\n\n"
        "The end."
    )
    assert generator.first_sentence(docstring) == "The `mean` of `values`."
