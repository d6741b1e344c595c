"""The heart-transplant and arthritis panels, from table to hazard ratio: the numbers of a page.

Writes panel_rates.csv, panel_hazard_ratios.csv and panel_fits.csv, which docs/panel-data.md and
RESULTS.md quote:
python benchmarks/panel_data.py [folder with msm_cav.csv and msm_psor.csv] -o benchmarks/results
"""

import argparse
import time
from pathlib import Path

import pandas as pd

import asterism as am

HERE = Path(__file__).resolve().parent
CAV = "1>2, 1>4, 2>1, 2>3, 2>4, 3>2, 3>4"
PSOR = (
    am.Effect("hieffusn", equal=True),
    am.Effect("ollwsdrt", "1>2, 2>3", equal=True),
    am.Effect("ollwsdrt", "3>4"),
)


def heart(folder: Path) -> am.Observations:
    table = pd.read_csv(folder / "msm_cav.csv").rename(columns={"years": "time", "state": "cav"})
    obs = am.Observations.from_frame(
        table[["PTNUM", "time", "cav", "sex", "dage"]],
        trajectory="PTNUM",
        labels=["cav"],
        covariates=["sex", "dage"],
    )
    return obs.with_exact_entries("cav", 4)


def arthritis(folder: Path) -> am.Observations:
    table = pd.read_csv(folder / "msm_psor.csv").dropna()
    return am.Observations.from_frame(
        table.rename(columns={"months": "time", "state": "joints"}),
        trajectory="ptnum",
        labels=["joints"],
        covariates=["hieffusn", "ollwsdrt"],
    )


def fits(folder: Path) -> dict[str, am.ParameterLearner]:
    data, joints = heart(folder), arthritis(folder)
    result = {}
    for name, obs, allowed, covariates in (
        ("cav", data, CAV, None),
        ("cav with sex", data, CAV, ["sex"]),
        ("cav with donor age", data, CAV, ["dage"]),
        ("psor", joints, "1>2, 2>3, 3>4", None),
        ("psor constrained", joints, "1>2, 2>3, 3>4", PSOR),
    ):
        begin = time.perf_counter()
        node = obs.nodes[0]
        result[name] = am.ParameterLearner(
            {node: []},
            method="exact",
            allowed_transitions={node: allowed},
            covariates=covariates,
        ).fit(obs)
        print(f"{name}: {time.perf_counter() - begin:.2f} s, {result[name].n_iter_} E-steps")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    shared = HERE.parent.parent / "shared" / "data"
    parser.add_argument("folder", nargs="?", type=Path, default=shared)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results")
    options = parser.parse_args()
    found = fits(options.folder)
    rates, ratios, models = [], [], []
    for name, learner in found.items():
        table = learner.rate_intervals_[["from", "to", "rate", "lower", "upper"]]
        rates.append(table.assign(model=name))
        if len(learner.effects_):
            columns = ["covariate", "transitions", "hazard_ratio", "hazard_ratio_lower",
                       "hazard_ratio_upper", "note"]  # fmt: skip
            ratios.append(learner.effects_[columns].assign(model=name))
        models.append(
            {
                "model": name,
                "minus2loglik": -2.0 * learner.log_evidence_given_first_,
                "parameters": learner.n_parameters_,
                "aic": learner.aic_,
                "parameters_given_first": learner.n_parameters_given_first_,
                "aic_given_first": learner.aic_given_first_,
            }
        )
    pairs = {("cav", "cav with sex"), ("cav", "cav with donor age"), ("psor", "psor constrained")}
    tests = {b: am.likelihood_ratio_test(found[a], found[b]) for a, b in pairs}
    for row in models:
        test = tests.get(row["model"])
        row["chi2"] = None if test is None else test.statistic
        row["df"] = None if test is None else test.degrees_of_freedom
        row["p"] = None if test is None else test.p_value
    options.output.mkdir(parents=True, exist_ok=True)
    for file, table in (
        ("panel_rates", pd.concat(rates, ignore_index=True)),
        ("panel_hazard_ratios", pd.concat(ratios, ignore_index=True)),
        ("panel_fits", pd.DataFrame(models)),
    ):
        table.to_csv(options.output / f"{file}.csv", index=False, float_format="%.8g")
        print(table.to_string())


if __name__ == "__main__":
    main()
