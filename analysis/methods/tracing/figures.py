"""Where and when it is decided: shares of a total effect as a forest, a map and bars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from analysis.report.figures.style import (
    DIVERGING,
    DOUBLE,
    FAINT,
    INK,
    PALETTE,
    SINGLE,
    Drawn,
    limits,
    new_figure,
    style,
)
from analysis.report.format import MINUS, fixed, over
from hooks.architectures.addresses import readable_name

PAD = 0.16  # inches: names of places, measured at 100 dpi, are wider at others
MAXIMUM_REACH = 2.0  # of an axis of shares: wider intervals end in an arrow at its end
ESTIMANDS = ("sufficiency", "necessity")
EFFECTS = {"sufficiency": "effect", "necessity": "necessity_effect"}  # their numerators
ADJUSTED = {"sufficiency": "p_adjusted", "necessity": "p_necessity_adjusted"}
BOTH_WAYS = "Sufficiency: the reference’s run with a word’s activations; necessity: a word’s run with the reference’s."
FLOOR = "floor: a word of the reference’s meaning as donor"


def patch_name(row: pd.Series) -> str:
    """The patched place of a row of shares, as a label: *mid · attn 0 · cross*, *all 3 together*."""
    sites = str(row["site"]).split(", ")
    where = readable_name(sites[0]) if len(sites) == 1 else f"all {len(sites)} together"
    positions = row.get("positions")
    return where if not isinstance(positions, str) else f"{where}, {positions.replace('+', ', ')}"


def draw_shares(shares: pd.DataFrame, level: float, alpha: float, unit: str = "prompt") -> Drawn | None:
    """Shares of places below each other with intervals and floor, sufficiency and necessity side by side."""
    rows = shares.reset_index(drop=True)
    if rows.empty or not (shown := _estimands(rows)):
        return None
    names = [patch_name(row) for _, row in rows.iterrows()]
    with style():
        figure = new_figure(DOUBLE, 0.95 + 0.2 * len(rows))
        figure.get_layout_engine().set(w_pad=PAD)
        panels = figure.subplots(1, len(shown), squeeze=False, sharey=True, sharex=True)[0]
        for axes, estimand in zip(panels, shown):
            _forest(axes, rows, estimand, alpha)
        low, high = _reach(rows, [*shown, "floor"])
        for axes in panels:
            axes.set_xlim(low, high)
        panels[0].set_yticks(range(len(rows)), names)
        panels[0].set_ylim(len(rows) - 0.5, -0.5)
        groups = [
            number for number in range(1, len(rows)) if rows["kind"][number] != rows["kind"][number - 1]
        ]
        for axes in panels:
            for number in groups:
                axes.axhline(number - 0.5, color=FAINT, lw=0.7)
        figure.supxlabel("share of the total effect", fontsize=8)
    caption = (
        f"Share of the total effect of both words by place, with {100 * level:g} % intervals {over(unit)} that hold "
        f"for all rows at once. {BOTH_WAYS} Filled: more than the floor (necessity: than 0), p < {alpha:g}, "
        f"adjusted over all rows. Grey diamonds: the {FLOOR}."
    )
    return Drawn("trace-shares", figure, "Shares of the total effect by place", caption, wide=True)


def draw_effects(
    shares: pd.DataFrame, level: float, alpha: float, outcome: str, unit: str = "prompt"
) -> Drawn | None:
    """The effect of each place on the outcome, with its interval: where no total effect gives shares."""
    rows = shares[shares["effect"].notna()].reset_index(drop=True) if len(shares) else shares
    if rows.empty:
        return None
    place = np.arange(len(rows))
    ended = ~np.isinf(rows[["effect_low", "effect_high"]].to_numpy(float)).any(axis=1)
    one = rows["n_prompts"].max() == 1
    with style():
        figure = new_figure(DOUBLE, 0.8 + 0.2 * len(rows))
        figure.get_layout_engine().set(w_pad=PAD)
        axes = figure.subplots()
        axes.axvline(0.0, color=INK, lw=0.6, zorder=0)
        axes.hlines(
            place[ended], rows["effect_low"][ended], rows["effect_high"][ended], color=PALETTE[0], lw=1.6
        )
        _marks(axes, rows, "effect", "sufficiency", PALETTE[0], alpha)
        axes.set_yticks(place, [patch_name(row) for _, row in rows.iterrows()])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        if not rows[["effect", "effect_low", "effect_high"]].fillna(0.0).to_numpy().any():
            axes.set_xlim(-1.0, 1.0)  # of zeros alone
        elif not ended.all():
            low, high = limits([0.0, *rows[["effect", "effect_low", "effect_high"]].to_numpy(float).ravel()])
            axes.hlines(place[~ended], low, high, color=PALETTE[0], lw=0.8, linestyles=":")
            axes.set_xlim(low, high)
        axes.set_xlabel(f"what the place moves the {outcome} by")
    caption = f"Effect of both words on the {outcome} by place. Of one {unit}: no interval can be given."
    if not one:
        caption = (
            f"Mean effect of both words on the {outcome} by place, with {100 * level:g} % intervals {over(unit)} that "
            f"hold for all rows at once. Filled: more than a word of the reference’s meaning does, p < {alpha:g}, "
            "adjusted over all rows. No shares: the total effect cannot be told from 0."
        ) + ("" if ended.all() else " Dotted: too few prompts for an interval with ends.")
    return Drawn("trace-effects", figure, "What each place moves", caption, wide=True)


def _estimands(rows: pd.DataFrame) -> list[str]:
    return [name for name in ESTIMANDS if rows[name].notna().any()]


def _reach(rows: pd.DataFrame, shown: Sequence[str]) -> tuple[float, float]:
    """Limits of an axis of shares: what is drawn, 0 and 1, and no farther than `MAXIMUM_REACH`."""
    names = [f"{name}{end}" for name in shown for end in ("", "_low", "_high")]
    values = rows[list(dict.fromkeys([*names, "floor"]))].to_numpy(float).ravel()
    low, high = limits([0.0, 1.0, *values[np.isfinite(values)]])
    return max(low, 1 - MAXIMUM_REACH), min(high, MAXIMUM_REACH)


def _ends(rows: pd.DataFrame, name: str) -> tuple[pd.Series, pd.Series]:
    """Ends of intervals; one without an end goes as far as no axis does."""
    low, high = (
        rows[f"{name}_{end}"].clip(-10 * MAXIMUM_REACH, 10 * MAXIMUM_REACH) for end in ("low", "high")
    )
    return low, high


def told(rows: pd.DataFrame, estimand: str, alpha: float) -> np.ndarray:
    """Tell which shares are marked: sufficiency beyond the floor, necessity beyond 0, after adjustment."""
    return (rows[ADJUSTED[estimand]] < alpha).to_numpy()


def _forest(axes: Axes, rows: pd.DataFrame, estimand: str, alpha: float) -> None:
    place = np.arange(len(rows))
    for value in (0.0, 1.0):
        axes.axvline(value, color=INK, lw=0.6, zorder=0)
    if estimand == "sufficiency" and rows["floor"].notna().any():
        axes.hlines(place + 0.22, *_ends(rows, "floor"), color=FAINT, lw=2.2)
        axes.plot(rows["floor"], place + 0.22, "D", color=PALETTE[6], ms=2.6, mec="none")
    color = PALETTE[0] if estimand == "sufficiency" else PALETTE[1]
    axes.hlines(place, *_ends(rows, f"{estimand}_joint"), color=color, lw=1.6)
    _marks(axes, rows, estimand, estimand, color, alpha)
    axes.set_title(estimand, loc="left")


def _marks(axes: Axes, rows: pd.DataFrame, column: str, estimand: str, color: str, alpha: float) -> None:
    """A mark a row, filled where it is told; no line at the left."""
    place, beyond = np.arange(len(rows)), told(rows, estimand, alpha)
    for chosen, face in ((beyond, color), (~beyond, "white")):
        axes.plot(rows[column][chosen], place[chosen], "o", ms=4.4, mfc=face, mec=color, mew=1.1)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def draw_windows(
    windows: pd.DataFrame, alpha: float, unit: str = "prompt", outcome: str = "outcome"
) -> Drawn | None:
    """The map of shares: places down, windows of steps across, with interval and marks in each cell.

    Where there are no shares, as of one prompt, it is the map of the effects themselves.
    """
    if windows.empty:
        return None
    columns = {name: name for name in _estimands(windows)}
    shares = bool(columns)
    columns = columns or {name: one for name, one in EFFECTS.items() if windows[one].notna().any()}
    if not columns:
        return None
    most = 1.0 if shares else np.nanmax(np.abs(windows[[*columns.values()]].to_numpy(float))) or 1.0
    sites = list(dict.fromkeys(windows["site"]))
    spans = sorted(set(zip(windows["first_step"], windows["stop_step"])))
    height = 0.3 * len(sites)
    with style():
        figure = new_figure(DOUBLE, 1.15 + height)
        figure.get_layout_engine().set(w_pad=PAD)
        panels = figure.subplots(1, len(columns), squeeze=False, sharey=True)[0]
        norm = Normalize(-most, most)
        for axes, (estimand, column) in zip(panels, columns.items()):
            cells = {(row["site"], row["first_step"], row["stop_step"]): row for _, row in windows.iterrows()}
            values = np.full((len(sites), len(spans)), np.nan)
            for (site, *span), row in cells.items():
                down, across = sites.index(site), spans.index(tuple(span))
                values[down, across] = row[column]
                strong = abs(row[column]) > 0.85 * most
                _cell(axes, across, down, row, estimand, column, strong, len(spans) * len(columns), alpha)
            mesh = axes.pcolormesh(
                np.ma.masked_invalid(values), cmap=DIVERGING.reversed(), norm=norm, zorder=0
            )
            axes.set_xticks(np.arange(len(spans)) + 0.5, [f"{first}–{stop - 1}" for first, stop in spans])
            axes.set_title(estimand, loc="left")
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
        panels[0].set_ylim(len(sites), 0)
        panels[0].set_yticks(np.arange(len(sites)) + 0.5, [_site(site) for site in sites])
        bar = figure.colorbar(mesh, ax=list(panels), fraction=0.02, pad=0.012, extend="both")
        bar.outline.set_visible(False)
        bar.set_label("share" if shares else f"what it moves the {outcome} by")
        figure.supxlabel("calls of the denoiser within which the activations are exchanged", fontsize=8)
    what = "Share of the total effect of both words" if shares else f"Effect of both words on the {outcome}"
    if windows["n_prompts"].max() == 1:
        beneath, bold = "", f" Of one {unit}: no interval can be given."
    else:
        beneath = f", beneath it its interval {over(unit)}"
        bold = f" Bold: beyond the floor (necessity: beyond 0), p < {alpha:g}, adjusted over all cells."
    caption = f"{what} by place and window of steps{beneath}. {BOTH_WAYS}{bold}"
    title = f"Map of {'shares' if shares else 'effects'}: places by windows of steps"
    return Drawn("trace-windows", figure, title, caption, wide=True)


def _cell(
    axes: Axes,
    across: int,
    down: int,
    row: pd.Series,
    estimand: str,
    column: str,
    strong: bool,
    columns: int,
    alpha: float,
) -> None:
    """Write share or effect and its interval into a cell of the map."""
    share, low, high = (row[f"{column}{end}"] for end in ("", "_low", "_high"))
    color = "white" if strong else "black"
    weight = "bold" if row[ADJUSTED[estimand]] < alpha else "normal"
    place = {"ha": "center", "va": "center", "color": color}
    ends = not np.isnan(low) and columns <= 10
    axes.text(
        across + 0.5, down + (0.36 if ends else 0.5), short_share(share), weight=weight, size=7, **place
    )
    if ends:
        axes.text(across + 0.5, down + 0.74, f"{short_share(low)} to {short_share(high)}", size=4.8, **place)


def short_share(value: float) -> str:
    if np.isinf(value):
        return f"{MINUS if value < 0 else ''}∞"
    return fixed(value, 2, "").replace("-", MINUS)


def _site(site: str) -> str:
    return patch_name(pd.Series({"kind": "site", "site": site}))


def draw_heads(heads: pd.DataFrame, level: float, alpha: float, unit: str = "prompt") -> Drawn | None:
    """The shares of heads as bars with intervals, one panel per place."""
    if heads.empty or heads["sufficiency"].isna().all():
        return None
    panels_of = [(site, rows.reset_index(drop=True)) for site, rows in heads.groupby("site", sort=False)]
    across = min(4, len(panels_of))
    down = -(-len(panels_of) // across)
    with style():
        figure = new_figure(DOUBLE if across > 1 else SINGLE, 0.3 + 1.55 * down)
        grid = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
        for axes, (site, rows) in zip(grid, panels_of):
            place = np.arange(len(rows))
            beyond = told(rows, "sufficiency", alpha)
            faces = [PALETTE[0] if one else "none" for one in beyond]
            axes.bar(place, rows["sufficiency"], 0.7, color=faces, edgecolor=PALETTE[0], lw=0.9)
            axes.vlines(place, *_ends(rows, "sufficiency"), color=INK, lw=0.9)
            if rows["floor"].notna().any():
                axes.plot(place, rows["floor"], "D", color=PALETTE[6], ms=2.6)
            axes.axhline(0, color=INK, lw=0.7)
            axes.set_title(_site(site), loc="left")
            axes.set_xticks(place, rows["heads"])
            axes.tick_params(axis="x", length=0)
        for axes in grid[len(panels_of) :]:
            axes.set_axis_off()
        low, high = _reach(heads, ["sufficiency"])
        grid[0].set_ylim(low, high)
        figure.supxlabel("head", fontsize=8)
        figure.supylabel("sufficiency", fontsize=8)
    caption = (
        f"Share of the total effect of both words by head, with {100 * level:g} % intervals {over(unit)}. Filled: "
        f"beyond the floor (grey diamonds), p < {alpha:g}, max-T over all heads."
    )
    return Drawn("trace-heads", figure, "Shares of heads", caption, wide=across > 1)
