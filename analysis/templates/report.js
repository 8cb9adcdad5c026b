"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const show = (x, digits = 4) => x === null || x === undefined ? "—" : (x < 0 ? "−" : "") + Number(Math.abs(x).toPrecision(digits));

  // Word maps. Colours run along black, purple, orange, pale yellow (a few stops of matplotlib's inferno).
  const stops = [[0, 0, 4], [40, 11, 84], [101, 21, 110], [159, 42, 99], [212, 72, 66], [245, 125, 21], [250, 193, 39], [252, 255, 164]];
  const colour = (v) => {
    const at = v * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2), f = at - i;
    return stops[i].map((c, k) => c + (stops[i + 1][k] - c) * f);
  };
  const strength = () => Number(document.getElementById("strength").value) / 100;
  const scale = () => document.querySelector("input[name=scale]:checked").value;

  const rowRange = (chips) => {
    let low = Infinity, high = -Infinity;
    for (const chip of chips) for (const [sample, index] of Object.entries(chip.index)) {
      const map = index === null ? null : (data.maps[sample] || {})[index];
      if (map) { low = Math.min(low, map[3]); high = Math.max(high, map[4]); }
    }
    return [low, high];
  };

  const paint = (canvas, map, range) => {
    const [packed, height, width, low, high] = map;
    const bytes = atob(packed), image = new ImageData(width, height);
    const [from, to] = range || [low, high];
    for (let i = 0; i < bytes.length; i++) {
      const raw = low + bytes.charCodeAt(i) / 255 * (high - low);
      const v = to > from ? Math.min(Math.max((raw - from) / (to - from), 0), 1) : 0;
      const [r, g, b] = colour(v);
      image.data.set([r, g, b, 255 * strength() * (0.35 + 0.65 * v)], 4 * i);
    }
    canvas.width = width; canvas.height = height;
    canvas.getContext("2d").putImageData(image, 0, 0);
    canvas.hidden = false;
  };

  const drawRow = (row) => {
    const chips = data.chips[row.dataset.row];
    const pressed = row.querySelector("button[aria-pressed=true]");
    const chip = pressed ? chips[Number(pressed.dataset.chip)] : null;
    const range = chip && scale() === "row" ? rowRange(chips) : null;
    for (const canvas of row.querySelectorAll("canvas")) {
      const sample = canvas.dataset.sample, peak = row.querySelector(`[data-peak="${CSS.escape(sample)}"]`);
      const index = chip ? chip.index[sample] : null;
      const map = index === null || index === undefined ? null : (data.maps[sample] || {})[index];
      canvas.hidden = true;
      peak.textContent = chip ? (map ? `peak ${show(map[5], 3)}` : "no such word") : "";
      if (map) paint(canvas, map, range);
    }
  };

  for (const row of document.querySelectorAll(".row")) {
    for (const button of row.querySelectorAll(".chips button")) {
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") === "true";
        for (const other of row.querySelectorAll(".chips button")) other.setAttribute("aria-pressed", "false");
        button.setAttribute("aria-pressed", String(!on));
        drawRow(row);
      });
    }
  }
  const tools = document.getElementById("tools");
  if (tools) {
    tools.addEventListener("input", () => document.querySelectorAll(".row").forEach(drawRow));
    tools.addEventListener("submit", (event) => event.preventDefault());
  }

  // Atlas: a cursor over the cells, by pointer or arrow keys.
  for (const cursor of document.querySelectorAll("[data-atlas]")) {
    const atlas = data.atlases[cursor.dataset.atlas], frame = cursor.firstElementChild;
    const readout = document.getElementById(`${cursor.dataset.atlas}-readout`);
    const rows = atlas.sites.length, columns = atlas.steps.length;
    const [left, top, width, height] = atlas.box.map((part) => `${100 * part}%`);
    Object.assign(cursor.style, { left, top, width, height });
    let at = [0, 0];
    const go = (y, x) => {
      at = [Math.min(Math.max(y, 0), rows - 1), Math.min(Math.max(x, 0), columns - 1)];
      const [r, c] = at, get = (key) => atlas[key][r][c], time = atlas.timesteps[c];
      Object.assign(frame.style, { display: "block", left: `${100 * c / columns}%`, top: `${100 * r / rows}%`, width: `${100 / columns}%`, height: `${100 / rows}%` });
      const gap = get("gap"), told = get("ci_low") > 0 || get("ci_high") < 0;
      const side = told ? `, ${atlas.reference} nearer to ${gap > 0 ? atlas.first : atlas.second}` : "";
      const bounds = get("ci_low") === null ? "no interval" : `[${show(get("ci_low"))}, ${show(get("ci_high"))}]`;
      readout.textContent = `${atlas.sites[r]}, call ${atlas.steps[c]}${time === null ? "" : ` (timestep ${Math.round(time)})`}: gap ${show(gap)} ${bounds}${side}; adjusted p ${show(get("p_adjusted"), 2)}; control gap ${show(get("control_gap"))}.`;
    };
    const point = (event) => {
      const box = cursor.getBoundingClientRect();
      go(Math.floor((event.clientY - box.top) / box.height * rows), Math.floor((event.clientX - box.left) / box.width * columns));
    };
    cursor.addEventListener("pointermove", point);
    cursor.addEventListener("pointerdown", point);
    cursor.addEventListener("focus", () => { if (cursor.matches(":focus-visible")) go(...at); });
    cursor.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!move) return;
      event.preventDefault();
      go(at[0] + move[0], at[1] + move[1]);
    });
  }
})();
