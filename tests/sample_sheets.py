"""Makes tables of the shapes in which people bring their data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

GENES = ("SWI5", "CBF1", "ASH1", "GAL4")


def courses(n_times: int, n_replicates: int, seed: int = 0) -> np.ndarray:
    """(replicates, times, genes): each gene follows the one before with a delay, in two levels."""
    rng = np.random.default_rng(seed)
    result = np.empty((n_replicates, n_times, len(GENES)))
    for r in range(n_replicates):
        state = rng.integers(0, 2, len(GENES))
        for t in range(n_times):
            flips = rng.random(len(GENES)) < 0.45
            flips[0] = rng.random() < 0.3
            state = np.where(flips, np.r_[1 - state[0], state[:-1]], state)
            result[r, t] = 2.0 * state - 1.0 + 0.25 * rng.normal(size=len(GENES))
    return result


def phases(path: Path) -> Path:
    """Genes in rows, two series of a cell cycle in the header, and a column of descriptions."""
    values = courses(10, 2)
    table = {"ORF": GENES, "description": ["factor"] * len(GENES)}
    for name, step, own in (("alpha", 7, values[0]), ("cdc15_", 10, values[1])):
        table |= {f"{name}{step * t}": own[t] for t in range(10)}
    pd.DataFrame(table).to_csv(path, index=False, float_format="%.3f")
    return path


def replicates(path: Path, n_genes: int = len(GENES)) -> Path:
    """Genes in rows, replicates as suffixes, counts."""
    values, hours = courses(6, 3), (0, 2, 4, 8, 12, 24)
    rng = np.random.default_rng(1)
    table: dict[str, object] = {"gene_id": [f"g{i}" for i in range(n_genes)]}
    for t, hour in enumerate(hours):
        for r in range(3):
            own = values[r, t, np.arange(n_genes) % len(GENES)]
            table[f"{hour}h_rep{r + 1}"] = rng.poisson(np.exp(4.0 + own))
    pd.DataFrame(table).to_csv(path, index=False, sep="\t")
    return path


def annotated(path: Path) -> Path:
    """A workbook: genes in rows under names of samples, and a sheet that says what these are."""
    values = courses(8, 2)
    names = [[f"GSM{40 + 8 * r + t}" for t in range(8)] for r in range(2)]
    table: dict[str, object] = {"Gene": GENES}
    table |= {names[r][t]: values[r, t] for r in range(2) for t in range(8)}
    notes = [
        (names[r][t], "WT" if r else "KO", f"{30 * t} min", "serum" if r and t > 3 else "")
        for r in range(2)
        for t in range(8)
    ]
    with pd.ExcelWriter(path) as book:
        pd.DataFrame(table).to_excel(book, sheet_name="expression", index=False)
        sheet = pd.DataFrame(notes, columns=["Sample", "Genotype", "Time", "Stimulus"])
        sheet.to_excel(book, sheet_name="samples", index=False)
    return path


def two_headers(path: Path) -> Path:
    """Genes in rows under a row of replicates, named once each, and a row of times."""
    values = courses(7, 2)
    first = ["gene", "rep A", *[""] * 6, "rep B", *[""] * 6]
    second = ["time (h)", *map(str, range(0, 14, 2)), *map(str, range(0, 14, 2))]
    rows = [
        [gene, *(f"{v:.3f}" for r in range(2) for v in values[r, :, g])]
        for g, gene in enumerate(GENES)
    ]
    path.write_text("\n".join(",".join(row) for row in [first, second, *rows]) + "\n")
    return path


def clinical(path: Path) -> Path:
    """One row per visit, many columns, the year of recruitment as a period."""
    rng = np.random.default_rng(2)
    rows = []
    for patient in range(12):
        state = rng.integers(0, 2)
        for visit in range(5):
            state = state if rng.random() < 0.7 else 1 - state
            rows.append(
                {
                    "patient_id": f"P{patient:02d}",
                    "year": "1995-1998" if patient % 2 else "1999-2002",
                    "months": 3 * visit,
                    "status": ("well", "ill")[state],
                    "crp": round(float(5 + 20 * state + rng.normal(0, 3)), 1),
                    "site": "north",
                }
            )
    pd.DataFrame(rows).to_csv(path, index=False)
    return path
