"""Makes the trace and the forest plot of docs/sampling.md with ArviZ.

pip install arviz-plots
python examples/make_arviz_images.py
"""

from __future__ import annotations

from pathlib import Path

import arviz_plots

import asterism as am

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def main() -> None:
    """Fit the network of the page by sampling and draw what was drawn."""
    net = am.glauber({"A": [], "B": ["A"]}, a=1.0, b=0.8)
    noise = am.Gaussian((-1, 1), 0.7)
    obs = am.observe(am.simulate(net, 2, duration=3.0, seed=1), noise, 4, seed=2)
    fit = am.ParameterLearner(
        net.parents, emission=noise, method="sample", prior=am.GammaPrior(2, 2)
    ).fit(obs)
    draws = fit.to_arviz()
    trace = arviz_plots.plot_trace(
        draws, var_names="rates", backend="matplotlib", figure_kwargs={"figsize": (14, 6)}
    )
    forest = arviz_plots.plot_forest(draws, var_names="rates", backend="matplotlib")
    for name, figure in (("trace", trace), ("forest", forest)):
        figure.savefig(IMAGES / f"arviz-{name}.png", dpi=60, metadata={"Software": None})


if __name__ == "__main__":
    main()
