"""What the exact variance of a score costs, beside listing every pair of vectors.

    python bench/lab_exact_variance.py

Entries are +1 or -1. Listing counts 4^head_dim pairs; the lab gives the same distribution, and so
the same variance, by raising the polynomial of one product to a power in whole numbers. Seconds of
processor time in this run; where listing is out of reach its time is what one pair took, times the
number of pairs.
"""

from __future__ import annotations

import argparse
import math
import time
from fractions import Fraction

from rootdk.lab.lattice import Distribution, dot_product, dot_product_by_listing, entry

MOST_LISTED = 8
MOST_SECONDS = 1.0
AT = 1024


def timed(call: object, *arguments: object) -> tuple[Distribution, float]:
    start = time.process_time()
    found = call(*arguments)  # type: ignore[operator]
    return found, time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 2, 4, 6, 8, 64, 256, 1024])
    given = parser.parse_args()
    signs = entry((-1, 1))
    each = math.nan
    print(f"{'head_dim':>8}  {'pairs':>10}  {'variance':>8}  {'exact s':>9}  listing s")
    for width in given.widths:
        found, spent = timed(dot_product, signs, width)
        if found.variance != Fraction(width):
            raise SystemExit(f"the variance at head_dim {width} is {found.variance}")
        if width <= MOST_LISTED:
            listed, listing = timed(dot_product_by_listing, signs, width)
            if listed != found:
                raise SystemExit(f"listing gives another distribution at head_dim {width}")
            each, beside = listing / 4**width, f"{listing:.4f}, and the same counts"
        else:
            beside = f"10^{width * math.log10(4) + math.log10(each):.0f} at that rate"
        pairs = f"10^{width * math.log10(4):.0f}" if width > 12 else f"{4**width}"
        print(f"{width:>8}  {pairs:>10}  {found.variance!s:>8}  {spent:>9.4f}  {beside}")
        if width == AT and spent > MOST_SECONDS:
            raise SystemExit(f"head_dim {AT} took {spent:.2f} s; {MOST_SECONDS:g} was the aim")


if __name__ == "__main__":
    main()
