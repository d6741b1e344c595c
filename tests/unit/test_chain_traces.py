"""The drawing of a sampled run's chains."""

from __future__ import annotations

from xml.etree import ElementTree

from asterism.report.chain_traces import chain_traces

EDGE = {
    "parent": 'A"<b>',
    "child": "C",
    "probability": 0.314,
    "error": 0.0123,
    "r_hat": 1.02,
    "traces": [[0.0, 0.5, 1.0], [0.25, 0.25, 0.25]],
}


def test_nothing_was_sampled() -> None:
    assert chain_traces(None) is None
    assert chain_traces({"draws": 3, "edges": []}) is None


def test_one_line_per_chain_and_the_figures_beside_it() -> None:
    drawing = chain_traces({"draws": 1200, "edges": [EDGE, EDGE]})
    assert drawing is not None
    tree = ElementTree.fromstring(f"<div>{drawing}</div>")
    captions = [c.text for c in tree.iter("figcaption")]
    assert captions == ['A"<b> → C: 0.31 ± 0.012, R̂ 1.02'] * 2
    lines = list(tree.iter("polyline"))
    assert len(lines) == 4
    heights = [float(p.split(",")[1]) for p in lines[0].get("points", "").split()]
    assert heights == sorted(heights, reverse=True)
    flat = [float(p.split(",")[1]) for p in lines[1].get("points", "").split()]
    assert len(set(flat)) == 1
    assert "1,200 draws of each chain" in drawing
