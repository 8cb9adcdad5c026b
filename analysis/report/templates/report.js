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

  const marks = new Map();  // by sample: are its objects shown, and which one is chosen
  const mark = (sample) => marks.get(sample) || { on: false, chosen: null };
  const guided = (sample) => {
    const { on, chosen } = mark(sample), entry = on && chosen !== null ? data.objects[sample][chosen] : null;
    return entry && entry.word !== null && entry.word !== undefined ? entry.word : null;
  };

  const drawRow = (row) => {
    const chips = data.chips[row.dataset.row];
    const pressed = row.querySelector("button[aria-pressed=true]");
    const chip = pressed ? chips[Number(pressed.dataset.chip)] : null;
    const range = chip && scale() === "row" ? rowRange(chips) : null;
    for (const canvas of row.querySelectorAll("canvas")) {
      const sample = canvas.dataset.sample, peak = row.querySelector(`[data-peak="${CSS.escape(sample)}"]`);
      const own = guided(sample), index = own !== null ? own : chip ? chip.index[sample] : null;
      const map = index === null || index === undefined ? null : (data.maps[sample] || {})[index];
      canvas.hidden = true;
      peak.textContent = own !== null || chip ? (map ? `peak ${show(map[5], 3)}` : "no such word") : "";
      if (map) paint(canvas, map, own !== null && scale() === "row" ? rowRange(chips) : range);
    }
  };

  // Objects: boxes and masks over an image, a list of names beneath it.
  const svg = (name, attributes, inside = []) => {
    const node = document.createElementNS(document.querySelector(".marks").namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...inside);
    return node;
  };
  const title = (entry) => {
    const node = svg("title", {});
    node.textContent = `${entry.label}: ${data.groups[entry.group]}`;
    return node;
  };
  const wanted = (name) => { const box = document.getElementById(`show-${name}`); return !box || box.checked; };
  const describe = (sample, entry) => {
    if (!entry.box) return `“${entry.label}” stands in the prompt; no object was detected for it.`;
    const words = data.words[sample], word = entry.word === null ? null : words[entry.word];
    const by = entry.coverage === null ? "no word map to hold it against"
      : `${data.groups[entry.group].endsWith("guided") ? "guided by" : "nearest map:"} “${word ?? "?"}”, which covers ${show(100 * entry.coverage, 3)} %`;
    return `${entry.label}: ${data.groups[entry.group]}; ${by}; score ${show(entry.score, 2)}.`;
  };

  const drawMarks = (cell) => {
    const sample = cell.dataset.cell, { on, chosen } = mark(sample), entries = data.objects[sample] || [];
    const layer = cell.querySelector(".marks"), list = cell.querySelector(".list");
    layer.toggleAttribute("hidden", !on);
    layer.classList.toggle("one", chosen !== null);
    layer.classList.toggle("mapped", guided(sample) !== null);
    list.hidden = !on;
    cell.querySelector("[data-objects]").setAttribute("aria-pressed", String(on));
    if (!on) return;
    if (!list.childElementCount) {
      list.append(...entries.map((entry, i) => {
        const button = document.createElement("button");
        button.type = "button"; button.className = `g${entry.group}`; button.textContent = entry.label;
        button.addEventListener("click", () => pick(cell, i));
        return button;
      }), Object.assign(document.createElement("p"), { className: "said" }));
    }
    [...list.querySelectorAll("button")].forEach((button, i) => button.setAttribute("aria-pressed", String(i === chosen)));
    list.querySelector(".said").textContent = chosen === null ? "" : describe(sample, entries[chosen]);
    layer.replaceChildren(...entries.flatMap((entry, i) => {
      if (!entry.box || (chosen !== null && i !== chosen)) return [];
      const kind = `g${entry.group}`, [x, y, width, height] = entry.box, [w, h] = entry.view;
      const found = [];
      if (wanted("masks")) found.push(svg("svg", { viewBox: `0 0 ${w} ${h}`, width: 1, height: 1, preserveAspectRatio: "none", class: kind }, [svg("path", { d: entry.path, "fill-rule": "evenodd" }, [title(entry)])]));
      if (wanted("boxes")) found.push(svg("rect", { x, y, width, height, class: kind }, [title(entry)]));
      return found;
    }));
  };
  const choose = (cell, chosen, on = mark(cell.dataset.cell).on) => {
    marks.set(cell.dataset.cell, { on, chosen });
    drawMarks(cell);
  };
  const pick = (cell, i) => {
    choose(cell, mark(cell.dataset.cell).chosen === i ? null : i, true);
    drawRow(cell.closest(".row"));
  };
  for (const cell of document.querySelectorAll("[data-cell]")) {
    cell.querySelector("[data-objects]").addEventListener("click", () => {
      choose(cell, null, !mark(cell.dataset.cell).on);
      drawRow(cell.closest(".row"));
    });
  }
  const everywhere = document.getElementById("show-all");
  if (everywhere) everywhere.addEventListener("input", () => {
    for (const cell of document.querySelectorAll("[data-cell]")) choose(cell, null, everywhere.checked);
  });

  // A click on an object of a figure or a table shows the rows of the gallery that contain it.
  const holds = (sample, name) => (data.objects[sample] || []).findIndex((entry) => entry.name === name && entry.box);
  const showing = document.getElementById("showing");
  const filter = (name) => {
    let n = 0;
    for (const row of document.querySelectorAll(".row")) {
      const cells = [...row.querySelectorAll("[data-cell]")];
      const has = name !== null && cells.some((cell) => holds(cell.dataset.cell, name) >= 0);
      row.hidden = name === null ? row.dataset.extra === "yes" : !has;
      n += has;
      for (const cell of cells) {
        const at = name === null ? -1 : holds(cell.dataset.cell, name);
        choose(cell, at >= 0 ? at : null, at >= 0);
      }
      drawRow(row);
    }
    if (everywhere) everywhere.checked = false;
    showing.hidden = name === null;
    if (name === null) return;
    for (const folded of document.querySelectorAll("#gallery details")) folded.open = true;
    const all = data.present[name] || 0;
    showing.querySelector("span").textContent = `Rows that contain “${name}”: ${n} here; it was detected in images of ${all} of ${data.triplets} triplets.`;
    showing.scrollIntoView();
    showing.querySelector("button").focus({ preventScroll: true });
  };
  if (showing) {
    showing.querySelector("button").addEventListener("click", () => filter(null));
    for (const [figure, names] of Object.entries(data.links)) names.forEach((name, i) => {
      const row = document.getElementById(`${figure}-row-${i}`);
      if (!row) return;
      row.setAttribute("tabindex", "0"); row.setAttribute("role", "button"); row.setAttribute("class", "link");
      row.setAttribute("aria-label", `${name}: show the triplets that contain it`);
      row.addEventListener("click", () => filter(name));
      row.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); filter(name); }
      });
    });
    for (const button of document.querySelectorAll("[data-show]")) button.addEventListener("click", () => filter(button.dataset.show));
  }

  for (const row of document.querySelectorAll(".row")) {
    for (const button of row.querySelectorAll(".chips button")) {
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") === "true";
        for (const other of row.querySelectorAll(".chips button")) other.setAttribute("aria-pressed", "false");
        button.setAttribute("aria-pressed", String(!on));
        for (const cell of row.querySelectorAll("[data-cell]")) choose(cell, null);
        drawRow(row);
      });
    }
  }
  const tools = document.getElementById("tools");
  if (tools) {
    tools.addEventListener("input", () => {
      document.querySelectorAll(".row").forEach(drawRow);
      document.querySelectorAll("[data-cell]").forEach(drawMarks);
    });
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
      const gap = get("gap"), clear = get("low") > 0 || get("high") < 0;
      const side = clear ? `, ${atlas.reference} nearer to ${gap > 0 ? atlas.first : atlas.second}` : "";
      const bounds = get("low") === null ? "no interval" : `[${show(get("low"))}, ${show(get("high"))}]`;
      readout.textContent = `${atlas.sites[r]}, call ${atlas.steps[c]}${time === null ? "" : ` (timestep ${Math.round(time)})`}: gap${atlas.over_words ? " over words" : ""} ${show(gap)} ${bounds}${side}; adjusted p of the indicators’ own words ${show(get("p_adjusted"), 2)}; against words ${show(get("p_control_adjusted"), 2)}.`;
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
