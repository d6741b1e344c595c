"""What all figures share: colours, and axes that are given or made.

The colours are those of Okabe and Ito, told apart by colour-blind readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY = PALETTE = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#4d4d4d",
)


def new_figure(width: float, height: float) -> Figure:
    """A figure that pyplot does not keep alive."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def axes_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The given axes, or those of a new figure."""
    return new_figure(*size).subplots() if ax is None else ax


def tidy(ax: Axes) -> None:
    """Two sides of a frame are enough."""
    ax.spines[["top", "right"]].set_visible(False)
