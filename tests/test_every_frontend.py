"""What holds for every frontend, found by walking the folder."""

import pytest
from frameworks import FRAMEWORKS
from fresh_interpreter import assert_light

from rootdk._lib import discovery
from rootdk._lib.errors import ArgumentError
from rootdk.frontends import Frontend, trace

FRONTENDS = discovery.subclasses("rootdk.frontends", Frontend, allow_modules_without=True)


def test_there_is_one_for_torch() -> None:
    assert "torch.nn.Module" in {kind.name for kind in FRONTENDS}


@pytest.mark.parametrize("kind", FRONTENDS, ids=[kind.__name__ for kind in FRONTENDS])
@pytest.mark.parametrize(
    "model",
    [object(), None, 3, "model", lambda x: x],
    ids=["object", "None", "number", "string", "function"],
)
def test_it_refuses_what_is_no_model(kind: type[Frontend], model: object) -> None:
    assert kind().accepts(model) is False


def test_names_differ() -> None:
    names = [kind.name for kind in FRONTENDS]
    assert len(names) == len(set(names))


def test_asking_imports_no_framework() -> None:
    code = (
        "from rootdk.frontends import Frontend; from rootdk._lib import discovery\n"
        "found = discovery.subclasses('rootdk.frontends', Frontend, allow_modules_without=True)\n"
        "assert [kind().accepts(object()) for kind in found] == [False] * len(found)"
    )
    assert_light(code, forbidden=FRAMEWORKS)


def test_what_no_frontend_accepts_is_said_with_what_is_accepted() -> None:
    with pytest.raises(ArgumentError) as error:
        trace(object())
    assert str(error.value) == (
        "model is a builtins.object, which no frontend accepts; expected one of: "
        + ", ".join(sorted(kind.name for kind in FRONTENDS))
    )
