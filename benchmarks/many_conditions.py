"""Patients with four conditions: which drives which, and by how much; the numbers of a tutorial.

Writes conditions_edges.csv and conditions_ratios.csv, which docs/tutorial-patients.md quotes:
python benchmarks/many_conditions.py -o benchmarks/results
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pandas as pd
from common import option_parser, write_table

import asterism as am

CONDITIONS = ["pressure", "diabetes", "kidney", "heart"]
#: what examples/make_patients.py simulated
TRUTH = {("diabetes", "kidney"): 4.0, ("pressure", "heart"): 3.0, ("kidney", "heart"): 3.0}


def main() -> None:
    options = option_parser(__doc__, "benchmarks/results").parse_args()
    table = pd.read_csv(str(files("asterism.report") / "demo_data" / "patients.csv"))
    obs = am.Observations.from_frame(
        table, trajectory="patient", time="years", covariates=["age"], unit="years"
    )
    chronic = {name: am.Transitions(progressive=True) for name in CONDITIONS}
    learner = am.StructureLearner(
        am.Exact(), method="star", max_parents=2, allowed_transitions=chronic
    ).fit(obs)
    edges = learner.edges_[["parent", "child", "probability", "in_graph"]]
    known = [TRUTH.get(pair) for pair in zip(edges["parent"], edges["child"])]
    edges = edges.assign(simulated=["yes" if factor else "" for factor in known])
    print(edges.to_string())
    write_table(edges, options.output / "conditions_edges.csv", digits=4)
    fit = am.ParameterLearner(
        learner.network_,
        allowed_transitions=chronic,
        covariates=[am.Effect("age", equal=True)],
    ).fit(obs)
    ratios = fit.edge_ratios_
    ratios["simulated"] = [TRUTH.get(p, np.nan) for p in zip(ratios["parent"], ratios["child"])]
    of_age = fit.effects_.rename(columns={"node": "child", "transitions": "transition"})
    columns = {"hazard_ratio_lower": "lower", "hazard_ratio_upper": "upper"}
    of_age = of_age.drop(columns=["lower", "upper"]).rename(columns=columns)
    of_age = of_age.assign(parent="age, per year", others="", simulated=1.3**0.1)
    kept = ["parent", "child", "others", "hazard_ratio", "lower", "upper", "simulated"]
    both = pd.concat([ratios[kept], of_age[kept]], ignore_index=True)
    print(both.to_string())
    write_table(both, options.output / "conditions_ratios.csv", digits=4)


if __name__ == "__main__":
    main()
