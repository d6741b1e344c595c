"""The report page: one HTML file that needs neither network nor server.

The template, style and scripts lie in ``templates/``; numbers come from :mod:`page_data`. Python
decides what is shown and JavaScript only draws it. The paragraph of methods says what the run's
record holds; what it does not hold is left out rather than guessed.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from asterism.data.files import write_text
from asterism.errors import counted
from asterism.report.page_data import fit_sentence, json_for_script, page_data
from asterism.results.run import Run
from asterism.results.summary import as_text, sentences, settings_rows

#: in the order in which they build on each other
SCRIPTS = (
    *("shared.js", "svg.js", "network.js", "edge_table.js", "heatmap.js", "charts.js"),
    *("expected.js", "courses.js", "fit.js", "rates.js", "start.js"),
)

#: a drawing of more nodes takes the whole width of the page
LARGE_DRAWING = 40


def write_report(
    run: Run, path: str | Path, *, threshold: float = 0.5, node: str | None = None
) -> Path:
    """Write the page, atomically; see :func:`render`."""
    path = Path(path)
    if run.is_fit:
        from asterism.report.rates_page import Methods, write_rates_page

        methods = Methods(methods_paragraph(run), references(run))
        return write_rates_page(run, path, methods)
    write_text(path, render(run, _title(run, path), threshold=threshold, node=node))
    return path


def render(
    run: Run,
    title: str = "Asterism report",
    *,
    threshold: float = 0.5,
    node: str | None = None,
) -> str:
    """The page as text: ``threshold`` is where its slider starts, ``node`` what it shows first."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    data = page_data(run, threshold, node)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_text("report.html.j2"))
    return template.render(
        title=title,
        style=Markup(_text("report.css")),
        data=Markup(json_for_script(data)),
        script=Markup("\n".join(_text(name) for name in SCRIPTS)),
        sentences=sentences(run),
        facts=_facts(run),
        converged=run.run.get("converged"),
        stop_reason=run.run.get("stop_reason"),
        settings=settings_rows(run),
        decisions=run.run.get("decisions") or [],
        warnings=run.run.get("warnings") or [],
        learned=run.learned,
        threshold=threshold,
        several=len(run.network.nodes) > 1,
        has_edges=any(run.network.parents.values()),
        methods=methods_paragraph(run),
        references=references(run),
        prior=data["heatmap"]["prior"],
        fit=fit_sentence(data["fit"]),
        large=len(data["layout"]) > LARGE_DRAWING,
        has_courses=data["courses"] is not None,
        has_history=data["history"] is not None,
        traces=_traces(run),
        levels=_levels(run),
        truth=data["truth"],
        notices=[*run.run.get("notices", []), *data["notices"]],
    )


def _facts(run: Run) -> list[tuple[str, str]]:
    facts = [("nodes", f"{len(run.network.nodes):,}")]
    if len(run.network.nodes) > 1:
        facts.append(("edges", f"{sum(map(len, run.network.parents.values())):,}"))
    if run.observations is not None:
        facts.append(("trajectories", f"{run.observations['trajectory'].nunique():,}"))
        facts.append(("measurements", f"{len(run.observations):,}"))
    return facts


def _traces(run: Run) -> Any:
    """Drawings of the chains, where the run was sampled."""
    if not run.run.get("chains"):
        return None
    from asterism.report.chain_traces import chain_traces

    return chain_traces(run.run["chains"])


def _levels(run: Run) -> Any:
    """Histograms of measurements whose levels were counted."""
    if not isinstance(run.run.get("levels"), dict):
        return None
    from asterism.report.level_histograms import level_histograms

    return level_histograms(run.run["levels"], run.observations)


def _title(run: Run, path: Path) -> str:
    named = run.run.get("title") or path.resolve().parent.name
    return f"{named} · Asterism report"


def _text(name: str) -> str:
    return (resources.files("asterism.report") / "templates" / name).read_text(encoding="utf-8")


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
    parts = [_model(run), _data(run), _inference(run), found, _stop(run), _software(run)]
    return " ".join(part for part in parts if part)


def references(run: Run) -> list[str]:
    """What to cite: the program, and the papers of the methods that this run used."""
    version = _version(run)
    found = [f"The Asterism developers. Asterism{version and ' ' + version}: {TITLE}."]
    if run.run.get("complete_data"):
        return [*found, NODELMAN]
    _, besides = IN_WORDS.get(str(_setting(run, "method")), ("", ()))
    return [*found, LINZNER, *besides]


TITLE = "structure learning of continuous-time Bayesian networks from incomplete data"


def _model(run: Run) -> str:
    network = run.network
    sizes = sorted({len(states) for states in network.states.values()})
    several = len(network.nodes) > 1
    nodes = f"{len(network.nodes):,} node{'s' * several} with {_or(list(map(str, sizes)))} states"
    each = " each" if several and len(sizes) == 1 else ""
    what = "learned" if run.learned else "used"
    return f"We {what} a continuous-time Bayesian network of {nodes}{each}."


def _data(run: Run) -> str:
    seen = run.observations
    if seen is None or not len(seen):
        return ""
    unit = run.run.get("time_unit")
    first, last = float(seen["time"].min()), float(seen["time"].max())
    span = f"{first:g} to {last:g}{f' {unit}' if unit else ''}"
    # a fit keeps the courses of the first trajectories only, but counts all
    sizes = [run.run.get("n_measurements"), run.run.get("n_trajectories")]
    n_seen, n_trajectories = (
        size if isinstance(size, int) else known
        for size, known in zip(sizes, (len(seen), seen["trajectory"].nunique()))
    )
    return (
        f"The data were {counted(n_seen, 'measurement')} in "
        f"{counted(n_trajectories, 'trajectory')}, at times from {span}."
    )


def _inference(run: Run) -> str:
    if run.run.get("complete_data"):
        return "All paths were observed completely, so the score of every family was exact."
    method = _setting(run, "method")
    if not method:
        return ""
    how, _ = IN_WORDS.get(str(method), (str(method), ()))
    return f"Hidden paths were inferred by {how}."


def _search(run: Run) -> str:
    if not run.learned:
        return ""
    parents = _setting(run, "max_parents")
    limit = ""
    if isinstance(parents, int):
        limit = f" with at most {counted(parents, 'parent')} per node"
    prior = run.run.get("prior")
    on_rates = ""
    if isinstance(prior, dict) and {"shape", "rate"} <= prior.keys():
        shape, rate = (as_text(prior[name]) for name in ("shape", "rate"))
        on_rates = f" and a Gamma prior on the rates (shape {shape}, rate {rate})"
    if len(run.network.nodes) == 1:
        return f"Its rates were learned{on_rates.replace(' and', ' with', 1)}."
    n_edges = sum(map(len, run.network.parents.values()))
    threshold = _setting(run, "threshold")
    reached = ""
    if _setting(run, "graph") == "probable" and isinstance(threshold, int | float):
        reached = f" with a probability of at least {threshold:g}"
    factor = run.run.get("tempering")
    tempered = ""
    if isinstance(factor, int | float) and factor < 1.0:
        tempered = f" The log marginal likelihood of each family was multiplied by {factor:.2g}."
    return (
        f"The graph was learned by Bayesian scoring of families{limit}{on_rates}; it has "
        f"{n_edges:,} edge{'s' * (n_edges != 1)}{reached}. Edge probabilities sum the posterior "
        f"probabilities of the families that hold the edge.{tempered}"
    )


def _fit(run: Run) -> str:
    """How the rates of a given graph were estimated."""
    settings = run.run.get("settings")
    prior = settings.get("prior") if isinstance(settings, dict) else None
    how = "by maximum likelihood" if prior is None else "with a Gamma prior"
    text = f"Rates were estimated {how} (EM with quasi-Newton steps)"
    level = run.run.get("level")
    if isinstance(level, int | float):
        text += f"; {level:.0%} intervals come from the observed information"
    if run.run.get("covariates"):
        text += ". Covariates act on the logarithm of the rates"
    return text + "."


def _stop(run: Run) -> str:
    if run.run.get("converged") is True:
        return "The iteration converged."
    if run.run.get("converged") is False:
        return "The iteration did not converge."
    return ""


def _software(run: Run) -> str:
    version, seed = _version(run), run.run.get("seed")
    chosen = f" with random seed {seed}" if isinstance(seed, int) else ""
    return f"Computations used Asterism{version and ' ' + version}{chosen}."


def _version(run: Run) -> str:
    versions = run.run.get("versions")
    return str(versions.get("asterism", "")) if isinstance(versions, dict) else ""


def _setting(run: Run, name: str) -> Any:
    """From the command's flags, else from the learner's settings."""
    for group in ("command", "settings"):
        found = run.run.get(group)
        if isinstance(found, dict) and found.get(name) is not None:
            return found[name]
    return None


def _or(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} or {items[-1]}"
