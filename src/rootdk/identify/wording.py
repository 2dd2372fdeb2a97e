"""What the facts are in words and symbols: the formula, and numbers as a person writes them."""

from __future__ import annotations

from rootdk.identify.notebook import Notebook

__all__ = ["formula_of", "number", "scale_text", "signed"]


def number(value: float, digits: int = 4) -> str:
    """Return a number with a few significant digits, without trailing zeros.

    Examples
    --------
    >>> number(0.125), number(50.00001), number(1e-7)
    ('0.125', '50', '1e-07')
    """
    return f"{value:.{digits}g}"


def scale_text(notebook: Notebook) -> str | None:
    """Return the scale in symbols, or as a number with the sizes it holds for."""
    value = notebook.get("scale.value")
    if value is None:
        return None
    law = notebook.get("scale.law")
    if law is not None and law.name is not None:
        return str(law.name)
    return number(value) if law is None else "scale(sizes)"


def formula_of(notebook: Notebook) -> str:
    """Return what the function computes in one line."""
    note = notebook
    left = "cos(query, key)" if note.get("scale.normalised") else "query·keyᵀ"
    scale = scale_text(note) or "?"
    varies = note.get("scale.varies", ())
    if note.get("scale.apart"):
        scores = f"scale(sizes)·{left}"
    elif varies:
        scores = f"scale({varies[0].along})·{left}"
    elif scale == "1":
        scores = left
    elif scale.startswith("1/"):
        inner = scale[2:]
        scores = (
            f"{left}/{inner}" if "·" not in inner or inner.startswith("√(") else f"({scale})·{left}"
        )
    else:
        scores = f"{scale}·{left}"
    cap = note.get("softcap.value")
    if cap is not None:
        written = number(cap)
        scores = (
            f"clip({scores}, ±{written})"
            if note.get("softcap.form") == "clamp"
            else f"{written}·tanh({scores} / {written})"
        )
    kind = note.get("bias.kind", "none")
    if kind != "none":
        scores += {"alibi": " + slope(head)·key", "relative": " + bias(key − query)"}.get(
            kind, " + bias(query, key)"
        )
    if note.get("mask.always_causal"):
        scores += " where key ≤ query"
    return _normalised(note, scores)


def _normalised(note: Notebook, scores: str) -> str:
    axis = note.get("softmax.axis")
    over = "" if axis == "keys" else f" over {axis}"
    inner = f"softmax({scores}){over}"
    if note.get("softmax.renormalised"):
        inner = f"rows of [{inner}] divided by their sum"
    sink = note.get("softmax.sink")
    if sink is not None:
        plus = "1" if max(abs(s) for s in sink) < 1e-3 else "e^sink(head)"
        inner = f"exp({scores}) / ({plus} + Σ exp({scores}))"
    if note.get("softmax.times", 1) == 2:
        inner = f"softmax({inner})"
    factor = note.get("softmax.factor")
    if factor is not None:
        law = note.get("softmax.factor_law")
        inner = f"{law.name if law is not None and law.name else number(factor)} · {inner}"
    return f"{inner} · value"


def signed(value: float) -> str:
    """Return an exponent with three decimals and its sign; what rounds to 0 has none.

    Examples
    --------
    >>> signed(-0.5000001), signed(1e-9)
    ('−0.500', '0')
    """
    if abs(value) < 5e-4:
        return "0"
    return f"{value:+.3f}".replace("-", "−").replace("+", "")
