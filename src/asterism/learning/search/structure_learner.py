"""Owns :class:`StructureLearner`: who influences whom, learned from data.

This file is the frame: settings in, fitted attributes out. Complete paths go to ``complete.py``,
measurements to ``task.py``; ``found.py`` turns scored families into probabilities of edges.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError, ModelError, Setting, require_positive
from asterism.learning.learner_settings import picked
from asterism.learning.search.found import SearchResult
from asterism.learning.search.settings import AUTO, Asked, HiddenNode, StructureSettings
from asterism.learning.tasks import Estimator, estimator
from asterism.model.network import Network
from asterism.model.priors import GammaPrior
from asterism.numerics.progress import ProgressListener, listener_for
from asterism.numerics.resources import minutes_limit

if TYPE_CHECKING:
    import networkx
    import xarray

    from asterism.learning.search.rate_factors import Check
    from asterism.learning.search.sampled import SampledGraphs
    from asterism.learning.search.unmeasured import UnmeasuredCause


@estimator
@dataclass(eq=False, repr=False, kw_only=True)
class StructureLearner(Estimator, Asked):
    """Learns the graph of a network, with a probability for every edge.

    Main arguments
    --------------
    emission
        How measurements arise from states: one emission, or {node: emission}; those with
        ``learn`` are fitted to every node alone. Not used for complete paths. ``am.Continuous()``
        is for nodes that move smoothly. "auto" (default): labels, and few whole numbers, are
        states; the evidence decides whether other numbers jump between 2 to 5 levels or move.
    max_parents
        Upper bound on the parents of a node: a number, or {node: number} (2 for nodes not named).
        By default two in a search and three where graphs are drawn.
    method
        "auto" (the default, also of the command line) searches with the star and then draws
        graphs, up to some hundred nodes; the number of sweeps follows from the size of the data,
        for about two minutes on two cores at most, and in larger networks the star's answer stays.
        "star" or "mean_field" alone; "clusters" searches with the star and then decides close
        cases, and reciprocal edges, by clusters; "sample" draws graphs for longer. Continuous
        nodes are scored in closed form; graphs are drawn with "sample", and by "auto" too where
        many cells are missing.
    prior
        Gamma prior of the rates, by default of shape 5, or 1 for complete paths. The rate "auto"
        takes the time scale from the data, so that minutes and hours give the same graph, and "by
        node" (the default) that of each node; ``GammaPrior(5, 10)`` is the paper's.
    random_state
        Seed of everything random.
    n_jobs
        Threads; −1 is one per core. Results do not depend on it.

    Other arguments
    ---------------
    structure_prior
        What is known about the graph: a :class:`StructurePrior`, one of its words ("sparse",
        "uniform", "by_size"), or a function (child, parents) -> log prior.
    states
        {node: labels} where the data do not show them all; also names hidden nodes.
    initial
        Start probabilities: "learn", "uniform", or {node: probabilities}.
    allowed_transitions
        {node: (S, S) true where a jump may happen}; other rates stay zero.
    graph, threshold
        Which graph is shown: "probable" has the edges whose probability reaches ``threshold``;
        "map" the most probable family of each node, as in the paper.
    minutes
        After these the search ends with the best graph so far, and says so.
    search
        How graphs are looked for: a :class:`Search` or "auto", "exhaustive", "screened".
    sampling
        How long graphs are drawn: a :class:`Sampling`.
    accuracy
        How exact inference is: an :class:`Accuracy`.
    ties
        "error", or "order" when rows of jumps at one time are in the order in which they happened.

    Attributes
    ----------
    network_ : Network
        The graph shown with the posterior means of its rates; of continuous nodes, the drifts.
    nodes_ : DataFrame
        node, kind, levels; of continuous nodes decay_time, resting_level and noise_sd; the log
        evidence of both kinds where "auto" compared them.
    targets_ : DataFrame
        stimulus, node, probability: which nodes a stimulus acts on.
    graph_ : networkx.DiGraph
        The same graph; edges carry their ``probability``.
    edge_probabilities_ : DataFrame
        Rows are parents, columns children (up to 2,000 nodes).
    edges_ : DataFrame
        parent, child, probability, in_graph, prior, bayes_factor, effect, fold_change (with
        _lower and _upper, a 90 % interval; for continuous nodes shift, with a 95 % interval: how
        many of its standard deviations one of the parent moves the child), error; surest first.
        Every allowed pair up to 200 nodes; beyond that those in the graph, those with a probability
        of at least .01, and the ten likeliest of each child. Edges outside the graph have no effect
        and no fold change.
    family_scores_ : DataFrame
        node, parents, score (structure prior included), probability.
    prior_ : GammaPrior
        With the rate that was used: the median, if each node has its own.
    prior_rates_ : Series
        The prior's rate β of every node; its single transitions may differ from that.
    levels_ : DataFrame
        node, levels, probability, means, offset_sd: where levels were counted. ``offset_sd`` is the
        standard deviation of shifts of whole trajectories, which were subtracted; 0 without.
    tempering_ : float
        The factor that was used.
    method_, stage_ : str
        What gave the probabilities ("sample", "star", "closed form", …), and a sentence on it, with
        how much probability sets of parents have that were not scored.
    known_share_ : float
        How much of what complete paths would say about rates the measurements say.
    hidden_ : dict
        Hidden nodes that were added, and the group whose common cause each began as.
    not_scored_ : list
        Nodes for which there was no time: their families have no scores, and the edges into them
        no probabilities (missing values in the tables).
    converged_, usable_ : bool
        Draws have converged if every edge with a probability between .02 and .98 has R̂ ≤ 1.05 and
        at least 100 effective draws. An answer that did not converge is still usable where the
        column ``error`` of ``edges_`` says how far each probability may be off.
    emission_, stop_reason_, history_, n_sweeps_
        The emissions at the end, and how the search went.
    """

    minutes: float | None = None

    def search_settings(self) -> StructureSettings:
        """All settings as a search reads them; refuses what cannot be."""
        require_positive("minutes", self.minutes)
        return picked(StructureSettings, self)

    _fitted = frozenset(["_found", "_observations", "_from_paths", "_groups_left_out"])

    # ------------------------------------------------------------------ learning
    def fit(
        self,
        data: Observations | Trajectories,
        y: object = None,
        *,
        progress: ProgressListener | bool | None = None,
    ) -> StructureLearner:
        """Learn from measurements, or exactly from complete paths; ``y`` is ignored.

        ``progress``: a bar is shown in notebooks; True shows one everywhere, False none.
        """
        settings = self.search_settings()
        listener = listener_for(progress)
        self._forget()
        if isinstance(data, Trajectories):
            from asterism.learning.search.complete import learn_from_trajectories

            if settings.search.hidden:
                raise ModelError(Setting("hidden"), " is for measurements, not for complete paths.")
            found = learn_from_trajectories(settings, data, listener)
        elif isinstance(data, Observations):
            from asterism.learning.search.influences import with_stimuli

            learn = importlib.import_module(settings.home)
            self._observations = data
            if not settings.may_be_continuous:
                settings, data = with_stimuli(settings, data)
            with minutes_limit(self.minutes):
                if settings.search.hidden:
                    from asterism.learning.search.unmeasured import about_hidden, with_hidden_nodes

                    settings = with_hidden_nodes(self, settings, self._observations, listener)
                found = learn.learn_from_observations(settings, data, listener)
            if settings.search.hidden:
                said = about_hidden(settings, found.sampled is not None)
                found = replace(found, stage=f"{found.stage} {said}".strip())
        else:
            raise DataError(
                f"StructureLearner learns from Observations or Trajectories, not from "
                f"{type(data).__name__}; make them with am.Observations.from_frame(table)."
            )
        self._from_paths = isinstance(data, Trajectories)
        prior = self.prior.for_paths() if self._from_paths else self.prior
        self._keep(found, prior.shape, settings.begins)
        return self

    def _keep(self, found: SearchResult, shape: float, hidden: Sequence[HiddenNode]) -> None:
        self._found = found
        self.emission_ = found.emission
        if found.continuous is None:
            self.prior_ = GammaPrior(shape, found.prior_rate)
            own = [found.prior_rates.get(n, found.prior_rate) for n in found.columns]
            self.prior_rates_ = pd.Series(own, index=list(found.columns), name="rate")
        self.converged_ = found.converged
        self.usable_ = found.converged if found.usable is None else found.usable
        self.stop_reason_ = found.stop_reason
        self.history_ = found.history
        self.n_sweeps_ = found.n_sweeps
        self.interrupted_ = found.sampled is not None and found.sampled.models.interrupted
        self.tempering_ = found.tempering
        self.method_ = self.method
        if self.method == AUTO:
            self.method_ = "star" if found.sampled is None else "sample"
        if found.continuous is not None and found.sampled is None:
            self.method_ = "closed form"
        self.stage_ = found.stage
        self.known_share_ = found.known_share
        self.not_scored_ = found.not_scored
        self.hidden_ = {one.node: one.children for one in hidden}

    # ------------------------------------------------------------------ what was found
    @property
    def _result(self) -> SearchResult:
        self._require_fitted("_found")
        return self._found

    @property
    def network_(self) -> Network:
        """The graph shown with the posterior means of its rates, or drifts of continuous nodes."""
        return self._result.network

    @property
    def nodes_(self) -> pd.DataFrame:
        """node, kind ("jumps" or "continuous"), levels; the log evidence of kinds if compared.

        Where hidden nodes were added, ``stands_for`` names the group that each began with.
        Continuous nodes have a decay time, a resting level and the noise of a measurement.
        """
        from asterism.learning.search.continuous_search import node_frame

        frame = node_frame(self._result)
        if self.hidden_:
            frame["stands_for"] = [", ".join(self.hidden_.get(n, ())) for n in frame["node"]]
        return frame

    @property
    def targets_(self) -> pd.DataFrame:
        """stimulus, node, probability: which nodes each stimulus acts on."""
        from asterism.learning.search.influences import target_frame

        return target_frame(self._result)

    # tables are made when asked for: some grow with N² or with the number of families
    @cached_property
    def edges_(self) -> pd.DataFrame:
        """One row per edge that is probable or in the graph, surest first."""
        from asterism.learning.search.edge_table import edge_frame
        from asterism.learning.search.rate_factors import with_caveats

        return with_caveats(edge_frame(self._result), self.checks_)

    @property
    def levels_(self) -> pd.DataFrame:
        """node, levels, probability, means, offset_sd: where levels were counted."""
        from asterism.learning.levels import level_frame

        return level_frame(self._result.levels)

    @property
    def level_record_(self) -> dict[str, Any]:
        """For files and the report: per node how many levels were counted, and how clearly."""
        return {choice.node: choice.to_dict() for choice in self._result.levels}

    @property
    def kind_record_(self) -> dict[str, Any] | None:
        """For files and the report: per node which kind it is, and how clearly; None if told."""
        from asterism.learning.kinds import kind_record

        return kind_record(self._result.kinds) if self._result.kinds else None

    @property
    def graph_(self) -> networkx.DiGraph:
        """The best graph; every edge carries its ``probability``."""
        graph = self._result.network.graph
        chosen = self.edges_[self.edges_["in_graph"]]
        for parent, child, probability in zip(
            chosen["parent"], chosen["child"], chosen["probability"]
        ):
            if not pd.isna(probability):
                graph.edges[parent, child]["probability"] = float(probability)
        return graph

    @cached_property
    def edge_probabilities_(self) -> pd.DataFrame:
        """Rows are parents, columns children; above 2,000 nodes use ``edges_``."""
        return self._result.edge_matrix()

    @property
    def rate_intervals_(self) -> pd.DataFrame | None:
        """node, configuration, from, to, rate, lower, upper: 90 % intervals given the graph.

        They take the expected transitions for counted ones, so they are rather too narrow. None
        where the method keeps no counts, and for very large networks.
        """
        from asterism.learning.search.edge_table import rate_frame

        return rate_frame(self._result)

    @cached_property
    def family_scores_(self) -> pd.DataFrame:
        """node, parents, score, probability; the best family of each node first."""
        return self._result.family_frame()

    @property
    def diagnostics_(self) -> pd.DataFrame:
        """For method "sample", edge by edge: probability, error, R̂ and effective draws."""
        return self._sampled().diagnostics(self._result.nodes)

    def to_arviz(self) -> xarray.DataTree:
        """For method "sample": all draws as a tree, as arviz reads.

        The groups are posterior, with (chain, draw, …) arrays, sample_stats and observed_data.
        """
        return self._sampled().to_arviz(self._result.nodes, self._observations)

    @property
    def chain_record_(self) -> dict[str, Any] | None:
        """For method "sample": chains of the edges known least well, thinned; for the page."""
        if self._result.sampled is None:
            return None
        return self._result.sampled.chain_record(self._result.nodes)

    def _sampled(self) -> SampledGraphs:
        if self._result.sampled is None:
            raise ModelError('There are no draws: only method="sample" on measurements makes some.')
        return self._result.sampled

    def score(
        self,
        data: Observations | Trajectories,
        y: object = None,
        *,
        progress: ProgressListener | bool | None = None,
    ) -> float:
        """Average ln P of a trajectory under the network learned: larger is better."""
        return float(self.score_samples(data, progress=progress).mean())

    def score_samples(
        self,
        data: Observations | Trajectories,
        *,
        progress: ProgressListener | bool | None = None,
    ) -> pd.Series:
        """ln P of every trajectory under the network learned, by name.

        A network that predicts gives trajectories it was not learned from a higher value than one
        without edges (``max_parents=0``). ``progress`` as in :meth:`fit`.
        """
        from asterism.learning.held_out import log_probabilities
        from asterism.learning.offsets import without_offsets

        if isinstance(data, Observations):
            data = without_offsets(data, self._result.levels)
        return log_probabilities(self, data, progress)

    @cached_property
    def checks_(self) -> list[Check]:
        """Do trajectories differ in a node's rates, do these change, do nodes move together?

        First the factors on rates, the surest first; then pairs of nodes without an edge, the most
        remarkable first: only where graphs were drawn with the default prior of rates. Then
        outliers and shifted trajectories in columns whose Gaussian noise you gave, and errors of
        measurements that go together or drift. A likely one is a ``caveat`` of the edges into its
        nodes. ``checks_left_out_`` says what was not checked.
        """
        given = self.emission if isinstance(self.emission, Mapping) else {}
        left_open = isinstance(self.emission, str | Mapping)
        levels = self._result.levels if left_open else ()
        return self._checked(decided=[one.node for one in levels if one.node not in given])

    def _checked(self, decided: Collection[str]) -> list[Check]:
        """All checks; the measurements of ``decided`` nodes were looked at before the search."""
        from asterism.learning.offsets import without_offsets
        from asterism.learning.search.measured_oddly import measured_oddly
        from asterism.learning.search.rate_factors import rate_factors
        from asterism.learning.search.residuals import moving_together
        from asterism.learning.search.sample_errors import odd_errors

        found: list[Check] = [*rate_factors(self._result), *moving_together(self._result)]
        if isinstance(getattr(self, "_observations", None), Observations):
            found += measured_oddly(self.emission_, self._observations, decided)
            seen = without_offsets(self._observations, self._result.levels)
            found += odd_errors(self.emission_, seen)
        return found

    @property
    def checks_left_out_(self) -> str:
        """Which of the checks could not be made, and why; "" if all were."""
        from asterism.learning.search.rate_factors import not_checked
        from asterism.learning.search.unmeasured import not_compared

        left_out = not_compared(getattr(self, "_groups_left_out", 0))
        return f"{not_checked(self._result)} {left_out}".strip()

    def unmeasured_causes(self, data: Observations) -> list[UnmeasuredCause]:
        """Compare the edges of every loop, clique and reciprocal pair with one hidden cause.

        ``data`` are those that were fitted. Edges that one hidden cause explains about as well get
        a ``caveat`` in ``edges_``; no probability changes. Only for nodes that jump.
        """
        if self._result.network is None or self._result.network.drifts or not self.graph_.edges:
            return []
        from asterism.learning.offsets import without_offsets
        from asterism.learning.search.unmeasured import CAVEAT, groups_of, unmeasured_causes

        found = unmeasured_causes(self, without_offsets(data, self._result.levels))
        self._groups_left_out = len(groups_of(self)) - len(found)
        marked = {edge for cause in found if cause.is_likely for edge in cause.edges}
        if marked:
            edges = self.edges_.copy()
            inside = [pair in marked for pair in zip(edges["parent"], edges["child"])]
            edges.loc[np.array(inside) & (edges["caveat"] == ""), "caveat"] = CAVEAT
            self.edges_ = edges
        return found

    def sample_graphs(self, n_graphs: int = 1, seed: Any = None) -> list[networkx.DiGraph]:
        """Graphs drawn from the family posteriors, each node independently of the others.

        With method "sample" they are graphs that were drawn, which keep what hangs together.

        ``seed`` defaults to ``random_state``.
        """
        import networkx

        if n_graphs < 0:
            raise ModelError(f"The number of graphs must not be negative, got {n_graphs}.")
        rng = np.random.default_rng(self.random_state if seed is None else seed)
        nodes = self._result.nodes
        graphs = []
        for parents in self._result.sample_parents(n_graphs, rng):
            graph = networkx.DiGraph()
            graph.add_nodes_from(self._result.columns)
            for child, above in zip(nodes, parents):
                graph.add_edges_from((nodes[p], child) for p in above)
            graphs.append(graph)
        return graphs

    def save(self, folder: str | Path, force: bool = False) -> Path:
        """Write a results folder, without page and courses; ``am.load`` reads it."""
        from asterism.results.folder import save_run
        from asterism.results.run import Run

        return save_run(Run.from_learner(self), folder, force)
