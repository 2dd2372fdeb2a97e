import sys

import pytest

from rootdk._lib.errors import MissingExtraError
from rootdk._lib.extras import is_loaded, require


def test_a_module_that_is_there_is_returned():
    import json.decoder

    assert require("json.decoder", extra="none", purpose="to test") is json.decoder


@pytest.mark.parametrize("name", ["no_such_package", "no_such_package.part", "json.no_such_part"])
def test_a_missing_module_names_package_and_extra(name):
    with pytest.raises(MissingExtraError) as caught:
        require(name, extra="lab", purpose="to draw a figure")
    package = name.partition(".")[0]
    assert str(caught.value) == (
        f"{package} is needed to draw a figure, and it cannot be imported; "
        "install it with: pip install 'rootdk[lab]'"
    )
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_package_that_lacks_something_itself_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import not_there_either\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_there_either") as caught:
        require("half_installed", extra="lab", purpose="to draw")
    assert not isinstance(caught.value, MissingExtraError)


def test_asking_whether_a_module_is_loaded_does_not_load_it(tmp_path, monkeypatch):
    (tmp_path / "never_loaded.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_loaded("never_loaded")
    assert "never_loaded" not in sys.modules
    assert is_loaded("sys")


def test_a_blocked_module_does_not_count_as_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "blocked", None)
    assert not is_loaded("blocked")
