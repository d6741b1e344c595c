"""The demonstration behind ``asterism demo``: from a known network to a picture of its posterior.

Four switches drive one another in a chain. We simulate one course, look at it a few times
through noise, and ask the exact method what the switches did in between. The folder it writes
holds the network, the posterior probabilities and a picture with the truth beside them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.inference.infer import infer
from asterism.inference.simulate import observe, simulate
from asterism.model.emissions import Gaussian
from asterism.model.generators import glauber

if TYPE_CHECKING:
    import xarray as xr

DURATION = 10.0
N_OBSERVATIONS = 12
N_TIMES = 201
PARENTS: dict[str, list[str]] = {"A": [], "B": ["A"], "C": ["B"], "D": ["C"]}


def run_demo(output: str | Path, force: bool = False, seed: int = 1) -> Path:
    """Write the demonstration to the folder ``output`` and return its path.

    An existing folder is replaced only with ``force``. Everything is written beside it first and
    renamed at the end, so an interrupted run leaves no half-filled folder under that name.
    """
    folder = Path(output)
    if folder.exists() and not force:
        raise FileExistsError(f"{folder} exists already; choose another folder or use --force")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write(unfinished, seed)
        unfinished.chmod(0o755)  # mkdtemp makes it private
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return folder


def _write(folder: Path, seed: int) -> None:
    network = glauber(PARENTS, a=1.0, b=1.0)
    paths = simulate(network, n_trajectories=1, duration=DURATION, seed=seed)
    emission = Gaussian(means=(-1.0, 1.0), scale=0.5)
    observations = observe(paths, emission, n_observations=N_OBSERVATIONS, seed=seed + 1)
    posterior = infer(network, observations, emission, method="exact")
    marginals = posterior.marginals(np.linspace(0.0, DURATION, N_TIMES))

    network.save(folder / "network.json")
    marginals.to_netcdf(folder / "posterior.nc", engine="h5netcdf")
    _draw(folder / "posterior.png", paths, observations, marginals)


def _draw(
    path: Path, paths: Trajectories, observations: Observations, marginals: xr.DataArray
) -> None:
    """One panel per node: the measurements, the probability of "on" given them, and the truth."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    nodes = list(marginals["node"].values)
    figure = Figure(figsize=(7.0, 1.4 * len(nodes)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(nodes), 1, sharex=True, squeeze=False)[:, 0]
    times = marginals["time"].values
    truth = paths.state_at(times)
    measured = observations.to_frame()
    for n, (panel, node) in enumerate(zip(panels, nodes)):
        probability = marginals.isel(trajectory=0, state=-1).sel(node=node).values
        panel.fill_between(times, probability, color="#8fb8de", label="P(on | measurements)")
        panel.step(times, truth[0, :, n], where="post", color="black", label="truth")
        # off and on are measured as −1 and +1: shown on the scale of the probabilities
        heights = (measured[str(node)] + 1.0) / 2.0
        panel.plot(measured["time"], heights, "o", color="#c8553d", ms=4, label="measured")
        panel.set(ylabel=str(node), yticks=(0, 1))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    panels[-1].set_xlabel("time")
    figure.savefig(path, dpi=150)
