"""Cost of one simulated jump in a small and in a large network.

A Glauber tree (a = 1, b = 0.6) of 10 and of 1,000 nodes; the larger may cost at most twice as
much per jump. Run: python benchmarks/simulation.py
"""

from __future__ import annotations

from itertools import count

from common import best_of, option_parser

import asterism as am

JUMPS = 400_000
REPEATS = 7


def nanoseconds_per_jump(n_nodes: int) -> float:
    """Best of several runs, in one trajectory of many jumps."""
    tree = {n: [(n - 1) // 2] if n else [] for n in range(n_nodes)}
    network = am.glauber(tree, a=1.0, b=0.6)
    am.simulate(network, n_transitions=1000, seed=0)
    seeds = count()

    def simulate() -> None:
        paths = am.simulate(network, n_transitions=JUMPS, seed=next(seeds))
        assert paths.n_jumps == JUMPS

    return best_of(simulate, REPEATS) / JUMPS * 1e9


def main() -> None:
    option_parser(__doc__).parse_args()
    small, large = nanoseconds_per_jump(10), nanoseconds_per_jump(1000)
    print(f"   10 nodes: {small:6.0f} ns per jump")
    print(f"1,000 nodes: {large:6.0f} ns per jump")
    print(f"ratio {large / small:.2f} (at most 2.00 asked for)")


if __name__ == "__main__":
    main()
