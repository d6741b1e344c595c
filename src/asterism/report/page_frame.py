"""What all pages share: template and scripts, how a run ended, methods and references.

Template, style and scripts lie in ``templates/``. Python decides what is shown and writes it as
JSON; JavaScript only draws it. The paragraph of methods says what the run's record holds; what it
does not hold is left out rather than guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from asterism.errors import counted
from asterism.report.page_data import fit_sentence, json_for_script
from asterism.results.run import Run
from asterism.results.summary import as_text, settings_rows

if TYPE_CHECKING:
    from jinja2 import Environment


def templates(package: str, folder: str = "templates") -> Environment:
    """The templates in a folder of a package; what they show is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )


def render_page(template: str, scripts: Sequence[str], data: Any, **context: Any) -> str:
    """A page as text: ``data`` is what its scripts read, ``context`` what its template shows."""
    from markupsafe import Markup

    environment = templates("asterism.report")
    environment.filters.update(number=number_text, rate=rate_text, share=share_text)
    folder = resources.files("asterism.report") / "templates"
    files = ("shared.js", "svg.js", *scripts, "start.js")
    return environment.get_template(template).render(
        style=Markup((folder / "report.css").read_text(encoding="utf-8")),
        data=Markup(json_for_script(data)),
        script=Markup("\n".join((folder / name).read_text(encoding="utf-8") for name in files)),
        **context,
    )


def number_text(value: float) -> str:
    """Three digits, or words where there is no number."""
    return f"{value:.3g}" if -float("inf") < value < float("inf") else "no limit"


def rate_text(row: Any) -> str:
    """A rate of a table; one that was found to be zero is shown as zero."""
    is_zero = str(row.get("note") or "").startswith("at zero")
    return "0" if is_zero else number_text(row["rate"])


def share_text(value: float) -> str:
    """A probability: three digits, and nothing below a millionth."""
    return "0" if value < 1e-6 else f"{value:.3g}"


def shared_context(run: Run, data: dict[str, Any]) -> dict[str, Any]:
    """What the pages of all runs show: how the run ended, courses, methods and settings."""
    return {
        "converged": run.run.get("converged"),
        "usable": run.run.get("usable"),
        "stop_reason": run.run.get("stop_reason") or "",
        "warnings": [w for w in run.run.get("warnings") or [] if not w.startswith(_ASKED)],
        "something_else": something_else(run),
        "notices": [*(run.run.get("notices") or []), *data["notices"]],
        "several": len(run.network.nodes) > 1,
        "has_courses": data["courses"] is not None,
        "fit": fit_sentence(data["fit"]),
        "methods": methods_paragraph(run),
        "references": references(run),
        "settings": settings_rows(run),
        "decisions": run.run.get("decisions") or [],
    }


#: how the sentences of checks begin, which have a heading of their own
_ASKED = "Could it be something else?"


#: checks by their names in run.json, and how it is said that they found nothing
_LOOKED_FOR = {
    "unmeasured_causes": "no unmeasured cause that explains a group of edges as well",
    "rate_factors": "no trajectories that differ in their rates, and no trend",
    "moving_together": "no nodes that move together without an edge",
}


def something_else(run: Run) -> list[str]:
    """What edges could stand for, what was looked for and not found, and what was not looked at."""
    asked = [w for w in run.run.get("warnings") or [] if w.startswith(_ASKED)]
    found = [line.removeprefix(_ASKED).lstrip() for line in asked]
    looked = [
        words
        for name, words in _LOOKED_FOR.items()
        if (made := run.run.get(name)) and not any(one.get("is_likely") for one in made)
    ]
    if looked:
        found.append(f"Looked for and not found: {'; '.join(looked)}.")
    return [*found, left_out] if (left_out := run.run.get("not_checked")) else found


# ---- a paragraph of methods and the references, ready to paste into a paper -------------------


LINZNER = (
    "Linzner D, Koeppl H. Cluster variational approximations for structure learning of "
    "continuous-time Bayesian networks from incomplete data. Advances in Neural Information "
    "Processing Systems 31, 2018."
)
COHN = (
    "Cohn I, El-Hay T, Friedman N, Kupferman R. Mean field variational approximation for "
    "continuous-time Bayesian networks. Journal of Machine Learning Research 11, 2010."
)
NODELMAN = (
    "Nodelman U, Shelton CR, Koller D. Learning continuous time Bayesian networks. Proceedings "
    "of the Nineteenth Conference on Uncertainty in Artificial Intelligence, 2003."
)

#: how a method of inference is called in a sentence, and what to cite besides; unknown ones go by
#: their own name
IN_WORDS = {
    "star": ("the star approximation (Linzner and Koeppl, 2018)", ()),
    "mean_field": ("naive mean field (Cohn et al., 2010)", (COHN,)),
    "exact": ("exact inference on the joint chain", ()),
    "clusters": ("a cluster variational approximation", ()),
    "sample": ("Markov chain Monte Carlo over paths", ()),
}


def methods_paragraph(run: Run) -> str:
    """What was done, in the past tense, with the numbers a reader of a paper asks for."""
    found = _fit(run) if run.run.get("kind") == "fit" else _search(run)
    ends: dict[Any, str] = {
        True: "The iteration converged.",
        False: "The iteration did not converge.",
    }
    stop = ends.get(run.run.get("converged"), "")
    parts = [_model(run), _data(run), _inference(run), found, stop, _software(run)]
    return " ".join(part for part in parts if part)


def references(run: Run) -> list[str]:
    """What to cite: the program, and the papers of the methods that this run used."""
    version = _version(run)
    found = [f"The Asterism developers. Asterism{version and ' ' + version}: {TITLE}."]
    if run.run.get("complete_data"):
        return [*found, NODELMAN]
    _, besides = IN_WORDS.get(_method(run), ("", ()))
    return [*found, LINZNER, *besides]


TITLE = "structure learning of continuous-time Bayesian networks from incomplete data"


def _model(run: Run) -> str:
    network = run.network
    sizes = sorted({len(states) for states in network.states.values() if states})
    smooth, jumping = len(network.drifts), len(network.nodes) - len(network.drifts)
    parts = []
    if smooth:
        parts.append(
            f"{counted(smooth, 'node')} that move{'s' * (smooth == 1)} continuously "
            "(Ornstein–Uhlenbeck processes whose resting levels follow their parents)"
        )
    if jumping:
        each = " each" if jumping > 1 and len(sizes) == 1 else ""
        parts.append(f"{counted(jumping, 'node')} with {_or(list(map(str, sizes)))} states{each}")
    what = "learned" if run.learned else "used"
    return f"We {what} a continuous-time Bayesian network of {' and '.join(parts)}."


def _data(run: Run) -> str:
    seen, sizes = run.observations, run.sizes
    if seen is None or not sizes:
        return ""
    unit = run.run.get("time_unit")
    first, last = float(seen["time"].min()), float(seen["time"].max())
    span = f"{first:g} to {last:g}{f' {unit}' if unit else ''}"
    return (
        f"The data were {counted(sizes['measurements'], 'measurement')} in "
        f"{counted(sizes['trajectories'], 'trajectory')}, at times from {span}."
    )


def _inference(run: Run) -> str:
    if run.run.get("complete_data"):
        return "All paths were observed completely, so the score of every family was exact."
    if run.network.drifts:
        drawn = " Graphs and paths were drawn too." if run.run.get("chains") else ""
        return f"Families of continuous nodes were scored in closed form.{drawn}"
    method = _method(run)
    how, _ = IN_WORDS.get(method, (method, ()))
    return f"Hidden paths were inferred by {how}." if how else ""


def _method(run: Run) -> str:
    """The method that was used, where "auto" chose one, else the one that was asked for."""
    return str(run.run.get("method") or run.setting("method") or "")


def _search(run: Run) -> str:
    if not run.learned:
        return ""
    parents = run.setting("max_parents")
    limit = ""
    if isinstance(parents, int):
        limit = f" with at most {counted(parents, 'parent')} per node"
    prior = run.run.get("prior")
    on_rates = ""
    if isinstance(prior, dict) and {"shape", "rate"} <= prior.keys():
        shape, rate = (as_text(prior[name]) for name in ("shape", "rate"))
        if prior.get("rates"):
            ends = map(as_text, (min(prior["rates"].values()), max(prior["rates"].values())))
            rate = f"{' to '.join(ends)}, by node"
        on_rates = f" and a Gamma prior on the rates (shape {shape}, rate {rate})"
    if len(run.network.nodes) == 1:
        return f"Its rates were learned{on_rates.replace(' and', ' with', 1)}."
    n_edges = sum(map(len, run.network.parents.values()))
    threshold = run.setting("threshold")
    reached = ""
    if run.setting("graph") == "probable" and isinstance(threshold, int | float):
        reached = f" with a probability of at least {threshold:g}"
    factor = run.run.get("tempering")
    tempered = ""
    if isinstance(factor, int | float) and factor < 1.0:
        tempered = f" The log marginal likelihood of each family was multiplied by {factor:.2g}."
    how = "Bayesian scoring of families"
    summed = "sum the posterior probabilities of the families that hold the edge"
    chains = run.run.get("chains")
    if isinstance(chains, dict):
        how = "Markov chain Monte Carlo over graphs, rates and paths"
        summed = (
            f"are averages over {counted(chains['chains'], 'chain')} of "
            f"{counted(chains['draws'], 'draw')} each"
        )
    return (
        f"The graph was learned by {how}{limit}{on_rates}; it has "
        f"{n_edges:,} edge{'s' * (n_edges != 1)}{reached}. Edge probabilities {summed}.{tempered}"
    )


def _fit(run: Run) -> str:
    """How the rates of a given graph were estimated."""
    how = "by maximum likelihood" if run.setting("prior") is None else "with a Gamma prior"
    text = f"Rates were estimated {how} (EM with quasi-Newton steps)"
    level = run.run.get("level")
    if isinstance(level, int | float):
        text += f"; {level:.0%} intervals come from the observed information"
    if run.run.get("covariates"):
        text += ". Covariates act on the logarithm of the rates"
    return text + "."


def _software(run: Run) -> str:
    version, seed = _version(run), run.run.get("seed")
    chosen = f" with random seed {seed}" if isinstance(seed, int) else ""
    return f"Computations used Asterism{version and ' ' + version}{chosen}."


def _version(run: Run) -> str:
    versions = run.run.get("versions")
    return str(versions.get("asterism", "")) if isinstance(versions, dict) else ""


def _or(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} or {items[-1]}"
