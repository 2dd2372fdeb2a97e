"""``[tool.rootdk]`` of a project, and options over it."""

from pathlib import Path

import pytest

from rootdk._lib.errors import ArgumentError
from rootdk.check import CheckOptions, Expectation, Settings, find_pyproject, read_settings

SETTINGS = """
[tool.rootdk]
select = ["RDK1", "RDK6"]
ignore = ["RDK203"]
fail-on = "error"
state = "init"
[tool.rootdk.expect]
"blocks.*.attn" = "1/sqrt(hidden)"
"head" = { scale = 1.0, softcap = 30 }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    file = tmp_path / "pyproject.toml"
    file.write_text(SETTINGS)
    return file


def test_every_setting_is_read(project: Path) -> None:
    assert read_settings(project) == Settings(
        path=project,
        expect={
            "blocks.*.attn": Expectation(scale="1/sqrt(hidden)"),
            "head": Expectation(scale=1.0, softcap=30),
        },
        select=("RDK1", "RDK6"),
        ignore=("RDK203",),
        fail_on="error",
        state="init",
    )


def test_a_file_without_the_table_sets_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text("[project]\nname = 'x'\n")
    assert read_settings(file) == Settings(path=file)


def test_the_nearest_file_upward_is_found(project: Path) -> None:
    below = project.parent / "a" / "b"
    below.mkdir(parents=True)
    assert find_pyproject(below) == project.resolve()
    (below / "pyproject.toml").write_text("")
    assert find_pyproject(below) == (below / "pyproject.toml").resolve()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.rootdk]\nfail_on = 'error'", "has fail_on; expected only expect, select, ignore"),
        ("[tool.rootdk]\nfail-on = 'all'", "fail-on is 'all'; expected one of error, warning"),
        ("[tool.rootdk]\nstate = 'new'", "state is 'new'; expected one of auto, init, trained"),
        ("[tool.rootdk]\nselect = 101", "select is 101; expected rule codes"),
        ("[tool.rootdk]\nexpect = 3", "expect is 3; expected a mapping"),
        ("[tool]\nrootdk = 3", "is 3; expected a table"),
        ("[tool.rootdk", "cannot be read"),
    ],
)
def test_a_wrong_setting_is_named_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    with pytest.raises(ArgumentError) as caught:
        read_settings(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot be read"):
        read_settings(tmp_path / "pyproject.toml")


def test_options_stand_over_settings(project: Path) -> None:
    options = CheckOptions(
        settings=project, select="RDK3", ignore="RDK305, RDK306", expect={"head": 2.0}
    ).merged()
    assert options.select == ("RDK3",)
    assert options.ignore == ("RDK203", "RDK305", "RDK306")
    assert options.state == "init"
    assert options.settings is None
    assert list(options.expect.items()) == [
        ("blocks.*.attn", Expectation(scale="1/sqrt(hidden)")),
        ("head", Expectation(scale=2.0)),
    ]
    assert CheckOptions(settings=project, state="trained").merged().state == "trained"
    assert CheckOptions(settings=project).merged().select == ("RDK1", "RDK6")


def test_settings_are_read_only_when_asked_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    assert CheckOptions().merged().select == ()
    assert CheckOptions(settings=False).merged().select == ()
    assert CheckOptions(settings=True).merged().select == ("RDK1", "RDK6")
    assert CheckOptions(settings=str(project)).merged().select == ("RDK1", "RDK6")
    assert CheckOptions(settings=Settings(select=("RDK2",))).merged().select == ("RDK2",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selct": ["RDK1"]}, "rootdk has the option selct; expected only expect, state, select"),
        ({"state": "new"}, "state is 'new'; expected one of auto, init, trained"),
        ({"rows": 0}, "rows is 0; expected a whole number above 0"),
        ({"rows": True}, "rows is True; expected a whole number above 0"),
        ({"seed": "x"}, "seed is 'x'; expected a whole number from 0"),
        ({"select": 3}, "select is 3; expected rule codes"),
        ({"settings": 3}, "settings is 3; expected a path, True or None"),
        (3, "rootdk is 3; expected a CheckOptions or a mapping"),
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: object, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        CheckOptions.of(options).merged()  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
