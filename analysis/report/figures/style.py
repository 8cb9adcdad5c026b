"""Style of every figure, written so that the same tables give the same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

SINGLE = 3.35  # inches, one column of a two-column paper
DOUBLE = 6.9  # inches, both columns
SCREEN = 110  # dots per inch in a notebook

# Okabe and Ito (2008), distinguished with every common form of colour blindness; yellow is too pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666")
# ColorBrewer's PuOr, safe for colour-blind readers, without its nearly black ends, where no mark is seen.
DIVERGING = LinearSegmentedColormap.from_list("puor", mpl.colormaps["PuOr"](np.linspace(0.1, 0.9, 65)))

_CLIP = re.compile(rb'(?<=["#])p[0-9a-f]{10}(?=[")])')  # an id that Matplotlib gives a clip
INK = "#1c2b33"  # text and axes on paper; in the report it becomes the colour of the page's text
FAINT = "#b9c2c7"
_SETTINGS = {
    "font.family": "DejaVu Sans",  # carried by matplotlib, so the same everywhere
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.unicode_minus": True,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.3,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "text.hinting": "no_hinting",  # text is as wide in the layout as it is drawn, at any resolution
    "text.parse_math": False,  # a $ in a prompt is a dollar
}


@dataclass(frozen=True, repr=False)
class Drawn:
    """A figure with its name, what it shows in words, and what a reader should know beside it. Jupyter shows it.

    ``figure`` is Matplotlib's; ``cells`` are the numbers of an atlas; ``links`` names the object behind each row that
    has the id ``row-0``, …; ``alt`` is its text alternative, without one the title.
    """

    name: str
    figure: Figure
    title: str
    caption: str
    wide: bool = False
    cells: dict | None = None
    links: list[str] | None = None
    alt: str = ""

    def __post_init__(self) -> None:
        """Lay the figure out for good, so that PDF, PNG and page show the same."""
        with style():
            for _ in range(2):  # ticks follow the size of the axes, and the size of the axes their labels
                self.figure.get_layout_engine().execute(self.figure)
            self.figure.set_layout_engine(None)  # "none" would draw each file twice

    def save(self, path: str | Path) -> Path:
        """Write the figure to a file of the kind that its ending names: .png (300 dpi), .pdf, .svg; return its path."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with style():
            self.figure.savefig(path, dpi=300, facecolor="white")
        return path

    def __repr__(self) -> str:
        width, height = self.figure.get_size_inches()
        return f"{self.title} ({width:.1f} x {height:.1f} inches; .save(path) writes it)\n{self.caption}"

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        with style():
            self.figure.savefig(
                data, format="png", dpi=SCREEN, facecolor="white", metadata={"Software": None}
            )
        return data.getvalue()


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this block; the caller's matplotlib settings are untouched."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def new_figure(width: float, height: float) -> Figure:
    """Make a figure of that many inches, free of pyplot's global state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.07)
    FigureCanvasAgg(figure)
    figure.patch.set_facecolor("none")
    return figure


def files(drawn: Drawn, formats: Sequence[str] = ("pdf", "png")) -> dict[str, bytes]:
    """Return a figure's files by name: SVG, PDF (TrueType fonts) or PNG (300 dpi), with no date in them."""
    options = {
        "svg": {"metadata": dict.fromkeys(("Date", "Creator", "Format", "Type"))},
        "pdf": {"metadata": {"CreationDate": None, "Producer": None, "Creator": None, "Title": drawn.title}},
        "png": {"metadata": {"Software": None}, "dpi": 300, "facecolor": "white"},
    }
    result = dict[str, bytes]()
    with style(), mpl.rc_context({"svg.hashsalt": drawn.name}):
        for name in formats:
            data = io.BytesIO()
            drawn.figure.savefig(data, format=name, **options[name])
            result[f"{drawn.name}.{name}"] = data.getvalue()
    if svg := result.get(f"{drawn.name}.svg"):
        # ids of clips are hashes of coordinates, whose last bits differ from time to time
        clips = {clip: b"clip%d" % number for number, clip in enumerate(dict.fromkeys(_CLIP.findall(svg)))}
        result[f"{drawn.name}.svg"] = _CLIP.sub(lambda clip: clips[clip[0]], svg)
    return result


def inline_svg(drawn: Drawn, file: bytes | None = None) -> str:
    """Turn a figure, or its SVG `file`, into an ``<svg>`` element to stand inside a page.

    Text and axes take the colour of the page's text, and lines the page's ``--series-0`` … where it sets
    them, so the figure suits a light and a dark page. Identifiers carry the figure's name, so several can
    stand in one page.
    """
    svg = (file or files(drawn, ["svg"])[f"{drawn.name}.svg"]).decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.S)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{drawn.name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{drawn.name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{drawn.name}-\1)", svg)
    svg = svg.replace(INK, "currentColor")
    for index, color in enumerate(PALETTE):
        svg = svg.replace(color.lower(), f"var(--series-{index}, {color})")
    label = (drawn.alt or drawn.title).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    head = f'<svg class="figure" role="img" aria-label="{label}" style="stroke-linejoin:round"'
    return svg.replace("<svg", head, 1).strip()


@dataclass(frozen=True)
class Saved:
    """A figure as files, and as it stands in a page."""

    files: dict[str, bytes]
    svg: str


def saved(figures: Mapping[str, Drawn], formats: Sequence[str]) -> dict[str, Saved]:
    """Return figures as files of some formats and as they stand in a page, by name."""
    result = dict[str, Saved]()
    for name, drawn in figures.items():
        written = files(drawn, [*dict.fromkeys(["svg", *formats])])
        svg = inline_svg(drawn, written[f"{name}.svg"])
        result[name] = Saved({file: written[file] for file in (f"{name}.{one}" for one in formats)}, svg)
    return result


def limits(values, pad: float = 0.08) -> tuple[float, float]:
    """Axis limits that hold all finite values and a little air; (-1, 1) where there are none."""
    finite = [float(v) for v in values if v == v and abs(v) != float("inf")]
    if not finite:
        return -1.0, 1.0
    low, high = min(finite), max(finite)
    air = (high - low) * pad or max(abs(high) * pad, 1e-6)
    return low - air, high + air
