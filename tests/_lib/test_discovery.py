import json
import sys
import zlib
from importlib.metadata import EntryPoint

import pytest

from rootdk._lib import discovery
from rootdk._lib.discovery import instances, modules, named, subclasses
from rootdk._lib.errors import DiscoveryError, RootdkError


@pytest.fixture
def package(tmp_path, monkeypatch, request):
    """Write a package under a fresh name: package({"a.py": source, …}) returns the name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(files):
        name = f"zoo_{zlib.crc32(request.node.nodeid.encode())}"
        for path, source in {"__init__.py": "", "base.py": "", **files}.items():
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source.replace("ZOO", name))
        return name

    yield write
    for name in [name for name in sys.modules if name.startswith("zoo_")]:
        del sys.modules[name]


@pytest.fixture
def plug_in(monkeypatch):
    """Pretend that some distribution has these entry points."""

    def install(**values):
        entries = [EntryPoint(name, value, "rootdk.tests") for name, value in values.items()]
        monkeypatch.setattr(
            discovery,
            "entry_points",
            lambda *, group: entries if group == "rootdk.tests" else pytest.fail(group),
        )

    return install


# Members derive from a class of the standard library, so that the packages need no base.
ANIMAL = "import json\nclass {0}(json.JSONEncoder):\n    name = '{0}'\n"


def names(found):
    return [member.__name__ for member in found]


def test_modules_come_by_dotted_name_with_sub_packages_in_their_place(package):
    name = package(
        {
            "b.py": "",
            "a/__init__.py": "",
            "a/z.py": "",
            "a/_hidden.py": "raise AssertionError",
            "_private/x.py": "raise AssertionError",
            "c/no_init.py": "",
            "notes/readme.txt": "",
        }
    )
    below = [module.__name__.removeprefix(name) for module in modules(name)]
    assert below == ["", ".a", ".a.z", ".b", ".base", ".c", ".c.no_init"]


def test_subclasses_are_those_that_a_module_defines_and_could_make(package):
    name = package(
        {
            "a.py": ANIMAL.format("Ape"),
            "b.py": "from ZOO.a import Ape\nclass Bee(Ape): pass\nclass Ant(Ape): pass\n"
            "class _Helper(Ape): pass\n",
            "c.py": "import abc, json\nclass Abstract(json.JSONEncoder, abc.ABC):\n"
            "    @abc.abstractmethod\n    def f(self): ...\nclass Cat(json.JSONEncoder): pass\n",
        }
    )
    found = subclasses(name, json.JSONEncoder, allow_modules_without=True)
    assert names(found) == ["Ape", "Bee", "Ant", "Cat"]


def test_instances_count_once_however_many_modules_hold_them(package):
    name = package(
        {"a.py": "A = 1.5\n_HIDDEN = 2.5\n", "b.py": "from ZOO.a import A\nB, C = 0.5, 3.5\n"}
    )
    assert instances(name, float, allow_modules_without=True) == (1.5, 0.5, 3.5)


def test_named_objects_are_found_by_their_name(package):
    name = package({"b.py": "FORMAT = 'b'\n", "a.py": "FORMAT = 'a'\nOTHER = 1\n"})
    assert named(name, "FORMAT", allow_modules_without=True) == ("a", "b")


def test_a_file_that_defines_nothing_is_an_error_unless_allowed(package):
    name = package({"a.py": ANIMAL.format("Ape"), "empty.py": "", "base.py": ANIMAL.format("Base")})
    with pytest.raises(DiscoveryError) as caught:
        subclasses(name, json.JSONEncoder)
    assert str(caught.value) == (
        f"{name}.empty defines nothing; expected a subclass of JSONEncoder "
        "(a name that starts with an underscore would be skipped)"
    )
    allowed = subclasses(name, json.JSONEncoder, allow_modules_without=True)
    assert names(allowed) == ["Ape", "Base"]


def test_a_broken_module_is_named_with_its_cause(package):
    name = package({"a.py": "1 / 0\n"})
    with pytest.raises(DiscoveryError) as caught:
        modules(name)
    assert str(caught.value) == (
        f"{name}.a cannot be imported: ZeroDivisionError: division by zero"
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_module_is_no_registry():
    with pytest.raises(DiscoveryError) as caught:
        modules("json.decoder")
    assert str(caught.value) == (
        "json.decoder is a module; expected a package, whose folder to walk"
    )


def test_two_members_with_one_key_are_named_with_their_places(package):
    name = package({"a.py": ANIMAL.format("Ape"), "b.py": ANIMAL.format("Ape")})
    with pytest.raises(DiscoveryError) as caught:
        subclasses(name, json.JSONEncoder, key=lambda c: c.name, allow_modules_without=True)
    assert str(caught.value) == (
        f"Ape is defined twice: in {name}.a and in {name}.b; expected once"
    )


def test_plug_ins_follow_by_name_and_may_be_objects_or_modules(package, plug_in):
    name = package(
        {
            "in/a.py": ANIMAL.format("Ape"),
            "out_b.py": ANIMAL.format("Bee"),
            "out_c.py": ANIMAL.format("Cat") + ANIMAL.format("Cod"),
        }
    )
    plug_in(second=f"{name}.out_c", first=f"{name}.out_b:Bee")
    found = subclasses(f"{name}.in", json.JSONEncoder, group="rootdk.tests", key=lambda c: c.name)
    assert names(found) == ["Ape", "Bee", "Cat", "Cod"]


def test_a_plug_in_may_name_what_the_folder_holds_already(package, plug_in):
    name = package({"in/a.py": ANIMAL.format("Ape")})
    plug_in(again=f"{name}.in.a:Ape")
    found = subclasses(f"{name}.in", json.JSONEncoder, group="rootdk.tests", key=lambda c: c.name)
    assert names(found) == ["Ape"]


@pytest.mark.parametrize(
    ("value", "end"),
    [
        pytest.param(
            "no_such_module:X",
            "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'",
            id="missing",
        ),
        pytest.param(
            "math:pi",
            "is 3.141592653589793; expected a subclass of JSONEncoder, or a module with one",
            id="something-else",
        ),
    ],
)
def test_a_broken_plug_in_is_named_with_its_cause(value, end, package, plug_in):
    name = package({"in/a.py": ANIMAL.format("Ape")})
    plug_in(bad=value)
    with pytest.raises(DiscoveryError) as caught:
        subclasses(f"{name}.in", json.JSONEncoder, group="rootdk.tests")
    assert str(caught.value) == f"plug-in bad ({value}, from an unknown distribution) {end}"


def test_named_and_instances_take_plug_ins_too(package, plug_in):
    name = package({"in/a.py": "FORMAT = 'a'\n", "out.py": "FORMAT = 'b'\n"})
    plug_in(b=f"{name}.out")
    assert named(f"{name}.in", "FORMAT", group="rootdk.tests") == ("a", "b")
    assert instances(f"{name}.in", str, group="rootdk.tests") == ("a", "b")


def test_a_discovery_error_is_rootdks():
    assert issubclass(DiscoveryError, RootdkError)
