"""The JSON report: its shape is the published schema's, and it is JSON everywhere."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from report.diagnoses import everything, healthy

from rootdk._lib.errors import ArgumentError
from rootdk.report import renderer_named
from rootdk.report.json import json_schema, render, to_plain


def strict(text: str) -> Any:
    """Parse JSON, refusing the bare NaN and Infinity that Python would let through."""

    def refuse(word: str) -> float:
        raise AssertionError(f"bare {word}")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def validator() -> jsonschema.Draft202012Validator:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_documents_satisfy_the_published_schema(
    tmp_path: Path, validator: jsonschema.Draft202012Validator
) -> None:
    for diagnosis in (healthy(), everything(tmp_path)):
        validator.validate(strict(render(diagnosis)))


def test_every_member_that_is_written_is_published(tmp_path: Path) -> None:
    schema = json_schema()
    unknown = set(undeclared(strict(render(everything(tmp_path))), schema, schema, "$"))
    assert unknown == set()


def test_the_check_for_unpublished_members_can_fail() -> None:
    schema = json_schema()
    assert list(undeclared({"schema": 1, "surprise": 2}, schema, schema, "$")) == ["$.surprise"]


def undeclared(value: Any, schema: Any, root: Any, where: str) -> Iterator[str]:
    """Yield the members of objects that the schema does not name."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for option in schema.get("anyOf", ()):
        if isinstance(value, dict | list) and option.get("type") != "null":
            yield from undeclared(value, option, root, where)
            return
    if isinstance(value, dict):
        names = schema.get("properties", {})
        if schema.get("type") == "object" and not names:
            return
        for name, member in value.items():
            if name not in names:
                yield f"{where}.{name}"
            else:
                yield from undeclared(member, names[name], root, f"{where}.{name}")
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            yield from undeclared(item, schema["items"], root, f"{where}[]")


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("schema",), 2),
        (("state",), "fine"),
        (("findings", 0, "severity"), "fatal"),
        (("findings", 0, "code"), "E101"),
        (("sites", 0, "effective_scale"), "0.1"),
        (("sites", 0, "statistics", "spread"), 3.0),
        (("sites", 0, "factors", 0, "place"), "nowhere"),
    ],
)
def test_the_schema_refuses_what_is_wrong(
    tmp_path: Path, validator: jsonschema.Draft202012Validator, place: tuple[Any, ...], wrong: Any
) -> None:
    document = strict(render(everything(tmp_path)))
    parent = document
    for step in place[:-1]:
        parent = parent[step]
    parent[place[-1]] = wrong
    assert not validator.is_valid(document)


def test_what_the_contract_names_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = strict(render(everything(tmp_path)))
    assert document["schema"] == 1
    assert (document["target"], document["state"]) == ("model.py:build", "trained")
    first = document["sites"][0]
    assert first["source"] == "model.py:2"
    assert first["frames"] == ["model.py:2 attend", "model.py:1 forward"]
    assert (first["num_heads"], first["num_kv_heads"], first["head_dim"]) == (4, 2, 64)
    assert (first["effective_scale"], first["scale_ratio"]) == (1 / 64, 0.125)
    assert first["factors"][0]["source"] == "model.py:2"
    assert first["statistics"]["spread"] == [1.0, 1.2, 20.0, "NaN"]
    assert first["addends"][0]["fill"] == "-Infinity"
    assert document["sites"][1]["statistics"] == {}
    error = document["findings"][0]
    assert (error["code"], error["severity"], error["source"]) == ("RDK606", "error", None)
    assert error["evidence"] == {"score": "NaN", "limit": "Infinity", "place": "model.py:2"}
    assert document["findings"][1]["related"] == ["model.py:2"]
    assert document["findings"][1]["source_text"] == "scores = scores * 0.125"


def test_numbers_per_head_stand_on_one_line() -> None:
    lines = [line.strip() for line in render(healthy(1)).splitlines()]
    assert '"spread": [1.0, 1.1, 1.2, 1.3],' in lines


def test_to_plain_leaves_nothing_that_json_lacks() -> None:
    values = {"a": {1}, "b": object, "c": math.inf, 3: (Path("x"), None, True)}
    json.dumps(to_plain(values), allow_nan=False)
    assert to_plain(values)["3"] == ["x", None, True]


def test_saving_as_json_writes_the_same(tmp_path: Path) -> None:
    diagnosis = healthy()
    assert diagnosis.save(tmp_path / "a.json").read_text(encoding="utf-8") == render(diagnosis)


def test_another_record_is_refused() -> None:
    with pytest.raises(ArgumentError, match="the format json shows a Diagnosis"):
        renderer_named("json").render("x")
