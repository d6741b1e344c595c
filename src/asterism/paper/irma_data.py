"""Reads the IRMA files: replicates, the authors' likelihoods, true edges, published scores.

IRMA is a network of five genes built into yeast (Cantone et al. 2009), with a known wiring. Two
experiments move it by a change of medium: switch-on and switch-off.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import asterism as am
from asterism.errors import DataError

GENES = ("CBF1", "GAL4", "SWI5", "GAL80", "ASH1")
TRUTHS = ("full8", "simplified6")


def data_file(folder: Path | None, name: str) -> Path:
    """A file of the data folder, or an error that says what is missing."""
    if folder is None:
        raise DataError(
            f"This reproduction reads measurements that asterism does not ship; give the folder "
            f"that holds {name!r} with --data."
        )
    path = folder / name
    if not path.is_file():
        raise DataError(f"The data folder {str(folder)!r} has no file {name!r}.")
    return path


def read_replicates(folder: Path | None, experiment: str, unit: float) -> am.Observations:
    """Log expression (−ΔCt) of every replicate; time in units of ``unit`` minutes.

    The row before the change of medium has no time and is left out.
    """
    table = pd.read_csv(data_file(folder, "irma_replicates_dct.csv"))
    own = table[(table["experiment"] == experiment) & (table["phase"] == "post")]
    wide = pd.DataFrame({"trajectory": own["replicate"], "time": own["time"] / unit})
    for gene in GENES:
        wide[gene] = -own[f"{gene}_dCt"]
    return am.Observations.from_frame(wide.reset_index(drop=True))


def read_likelihoods(folder: Path | None, unit: float) -> am.Observations:
    """The likelihoods of both states that the paper's authors gave to their own program."""
    table = pd.read_csv(data_file(folder, "irma_switch_off_linzner_likelihoods.csv"))
    times, likelihoods, names = [], [], []
    for replicate, own in table.groupby("replicate"):
        clock = np.sort(own["time"].unique())
        times.append(clock / unit)
        names.append(replicate)
        by_gene = {}
        for gene in GENES:
            rows = own[own["gene"] == gene].set_index("time").reindex(clock)
            by_gene[gene] = rows[["p_state1", "p_state2"]].to_numpy()
        likelihoods.append(by_gene)
    return am.Observations.from_likelihoods(times, likelihoods, trajectories=names)


def read_truth(folder: Path | None) -> dict[str, list[tuple[str, str]]]:
    """True edges by the name of the gold standard."""
    table = pd.read_csv(data_file(folder, "irma_truth.csv"))
    return {
        name: [
            (str(row.source), str(row.target))
            for row in table.itertuples()
            if getattr(row, name) == 1
        ]
        for name in TRUTHS
    }


def read_published(folder: Path | None) -> pd.DataFrame:
    """PPV and sensitivity that other papers report."""
    return pd.read_csv(data_file(folder, "irma_published_scores.csv"))
