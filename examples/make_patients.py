"""Makes the table of the tutorial on many conditions: simulated patients, so the truth is known.

    python examples/make_patients.py

Four chronic conditions, noted about once a year. Diabetes makes kidney disease four times as
frequent; high blood pressure and kidney disease each make heart failure three times as frequent.
Age at entry makes everything more frequent, by a factor of 1.3 every ten years.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

TARGET = Path(__file__).resolve().parents[1] / "src" / "asterism" / "report" / "demo_data"
CONDITIONS = ("pressure", "diabetes", "kidney", "heart")
#: new cases per year among those with none of the conditions that matter
RATES = {"pressure": 0.10, "diabetes": 0.07, "kidney": 0.03, "heart": 0.025}
FACTORS = {("diabetes", "kidney"): 4.0, ("pressure", "heart"): 3.0, ("kidney", "heart"): 3.0}
PATIENTS, YEARS, PER_DECADE = 400, 10.0, 1.3


def main() -> None:
    rng = np.random.default_rng(20)
    rows: list[tuple[object, ...]] = []
    for patient in range(1, PATIENTS + 1):
        age = int(rng.integers(45, 75))
        begun = dict.fromkeys(CONDITIONS, np.inf)
        for name, share in zip(CONDITIONS, (0.25, 0.15, 0.04, 0.02)):
            if rng.uniform() < share:
                begun[name] = 0.0
        time = 0.0
        while True:
            open_ = [name for name in CONDITIONS if begun[name] > time]
            rates = [_rate(name, begun, time, age) for name in open_]
            if not open_:
                break
            time += float(rng.exponential(1.0 / sum(rates)))
            if time > YEARS:
                break
            begun[str(rng.choice(open_, p=np.array(rates) / sum(rates)))] = time
        last = rng.uniform(4.0, YEARS)
        visit = 0.0
        while visit < last:
            states = ["yes" if begun[name] <= visit else "no" for name in CONDITIONS]
            rows.append((patient, round(visit, 2), *states, age))
            visit += float(rng.uniform(0.7, 1.3))
    table = pd.DataFrame(rows, columns=["patient", "years", *CONDITIONS, "age"])
    table.to_csv(TARGET / "patients.csv", index=False)
    print(f"{len(table)} visits of {PATIENTS} patients")


def _rate(name: str, begun: dict[str, float], time: float, age: int) -> float:
    rate = RATES[name] * PER_DECADE ** ((age - 60) / 10.0)
    for (parent, child), factor in FACTORS.items():
        if child == name and begun[parent] <= time:
            rate *= factor
    return rate


if __name__ == "__main__":
    main()
