"use strict";
(() => {
  const PAGE = 24, KEPT = 96, TOGETHER = {{ together }};  // triplets on a page; files that stay in memory; triplets in a file
  const get = (id) => document.getElementById(id);
  const make = (name, attributes = {}, ...inside) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...inside);
    return node;
  };
  const svg = (name, attributes, ...inside) => {
    const node = document.createElementNS(["http:", "", "www.w3.org", "2000", "svg"].join("/"), name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...inside);
    return node;
  };
  const show = (x, digits = 4) => x === null || x === undefined ? "—" : (x < 0 ? "−" : "") + Number(Math.abs(x).toPrecision(digits));
  const many = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

  let data = null, rows = [], page = 0, what = "triplet", compares = true;
  const files = new Map(), waiting = new Map();

  // A page from disk may load scripts, so the files are scripts that call these two.
  window.triplets = (number, content) => {
    files.set(number, content);
    for (const old of [...files.keys()].slice(0, Math.max(0, files.size - KEPT))) files.delete(old);
    (waiting.get(number) || []).forEach((done) => done(content));
    waiting.delete(number);
  };
  const load = (number) => new Promise((done, failed) => {
    if (files.has(number)) { const kept = files.get(number); files.delete(number); files.set(number, kept); return done(kept); }
    if (waiting.has(number)) return waiting.get(number).push(done);
    waiting.set(number, [done]);
    const script = make("script", { src: `${String(number).padStart(5, "0")}.js` });
    script.addEventListener("load", () => script.remove());
    script.addEventListener("error", () => { waiting.delete(number); script.remove(); failed(new Error(script.src)); });
    document.head.append(script);
  });

  window.index = (content) => {
    data = content;
    data.n = data.triplet.length;
    compares = data.indicators.length > 1;
    if (!compares) what = "image";
    data.place = new Map(data.triplet.map((triplet, i) => [`t${triplet}s${data.seed[i]}`, i]));
    data.faulty = new Set(data.left_out);
    data.lower = data.prompts.map((prompt) => prompt.toLowerCase());
    data.mean = {};
    const order = get("order"), agreement = get("agreement");
    for (const [name, first, second, direction] of data.contrasts) {
      const own = data.gaps[name].filter((gap) => gap !== null);
      data.mean[name] = own.reduce((sum, gap) => sum + gap, 0) / Math.max(own.length, 1);
      order.append(make("option", { value: `+${name}` }, `gap, nearest to ${first} first`), make("option", { value: `-${name}` }, `gap, nearest to ${second} first`));
      const what = direction ? "what the report says" : "the mean";
      agreement.append(make("option", { value: `+${name}` }, `with ${what} (${name})`), make("option", { value: `-${name}` }, `against ${what} (${name})`));
    }
    const counts = Object.entries(data.objects).map(([name, lists]) => [name, lists.reduce((sum, list) => sum + list[2].length, 0)]);
    for (const [name, n] of counts.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))) get("object").append(make("option", { value: name }, `${name} (${n.toLocaleString("en")})`));
    data.groups.forEach((name, i) => get("group").append(make("option", { value: i }, name)));
    data.indicators.forEach(([name, word], i) => get("indicator").append(make("option", { value: i }, word && word !== name ? `${name} (“${word}”)` : name)));
    if (!counts.length) for (const name of ["object", "group", "indicator", "boxes", "masks"]) get(name).disabled = true;
    get("controls").disabled = !data.indicators.some(([, , control]) => control);
    get("legend").append(...data.groups.map((name, i) => make("i", { class: `g${i}` }, name)));
    const there = new URLSearchParams(location.hash.slice(1));
    for (const name of ["text", "object", "group", "indicator", "agreement", "order"]) if (there.has(name)) get(name).value = there.get(name);
    find(there.get("triplet"));
  };

  const holding = () => {
    const name = get("object").value, group = get("group").value, indicator = get("indicator").value;
    if (!name && !group && !indicator) return null;
    const found = new Set();
    for (const lists of name ? [data.objects[name] || []] : Object.values(data.objects)) for (const [place, of, rows] of lists) {
      if ((!group || Number(group) === place) && (!indicator || Number(indicator) === of)) rows.forEach((row) => found.add(row));
    }
    return found;
  };

  const find = (linked = null) => {
    const text = get("text").value.trim().toLowerCase(), holds = holding(), order = get("order").value, agreement = get("agreement").value;
    rows = [];
    for (let i = 0; i < data.n; i++) {
      if (text && !data.lower[data.prompt[i]].includes(text)) continue;
      if (holds && !holds.has(i)) continue;
      if (agreement) {
        const name = agreement.slice(1), gap = data.gaps[name][i], said = data.contrasts.find(([own]) => own === name)[3];
        if (gap === null || (gap * (said || data.mean[name]) > 0) !== (agreement[0] === "+")) continue;
      }
      rows.push(i);
    }
    if (order) {
      const gaps = data.gaps[order.slice(1)], sign = order[0] === "+" ? 1 : -1;
      rows.sort((a, b) => (gaps[a] === null) - (gaps[b] === null) || sign * (gaps[b] - gaps[a]) || a - b);
    }
    const at = linked ? rows.indexOf(data.place.get(linked)) : -1;
    page = at < 0 ? 0 : Math.floor(at / PAGE);
    draw(at < 0 ? null : linked);
  };

  const overlay = (entries) => {
    const layer = svg("svg", { class: "marks", viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" });
    for (const [label, group, [x, y, width, height], path, across, down] of entries) {
      const kind = `g${group}`, title = svg("title", {}, `${label}: ${data.groups[group]}`);
      if (get("masks").checked && path) layer.append(svg("svg", { viewBox: `0 0 ${across} ${down}`, width: 1, height: 1, preserveAspectRatio: "none", class: kind }, svg("path", { d: path, "fill-rule": "evenodd" }, title)));
      if (get("boxes").checked) layer.append(svg("rect", { x, y, width, height, class: kind }, title.cloneNode(true)));
    }
    return layer;
  };

  // Stops of matplotlib's inferno, as in the report.
  const stops = [[0, 0, 4], [40, 11, 84], [101, 21, 110], [159, 42, 99], [212, 72, 66], [245, 125, 21], [250, 193, 39], [252, 255, 164]];
  const colour = (v) => {
    const at = v * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2), f = at - i;
    return stops[i].map((c, k) => c + (stops[i + 1][k] - c) * f);
  };
  // `row` is the image's, `word` the number of a word in its prompt; `all` is the range of one scale, or nothing.
  const heat = (canvas, sprite, entry, row, word, all) => {
    const range = word < 0 ? null : entry.ranges[row][word], [width, height] = entry.map;
    canvas.hidden = !range;
    if (!range) return "";
    canvas.width = width; canvas.height = height;
    const context = canvas.getContext("2d", { willReadFrequently: true }), [low, high, peak] = range, [from, to] = all || range;
    context.drawImage(sprite, word * width, row * height, width, height, 0, 0, width, height);
    const pixels = context.getImageData(0, 0, width, height);
    for (let i = 0; i < pixels.data.length; i += 4) {
      const raw = low + pixels.data[i] / 255 * (high - low);
      const v = to > from ? Math.min(Math.max((raw - from) / (to - from), 0), 1) : 0;
      pixels.data.set([...colour(v), 255 * 0.75 * (0.35 + 0.65 * v)], i);
    }
    context.putImageData(pixels, 0, 0);
    return `peak ${show(peak, 3)}`;
  };
  const picture = (text) => new Promise((done) => {
    const image = new Image();
    image.addEventListener("load", () => done(image));
    image.addEventListener("error", () => done(null));
    image.src = `data:image/jpeg;base64,${text}`;
  });

  const fill = async (article, entry) => {
    const cells = article.querySelector(".cells");
    if (!entry.cells.length) { cells.append(make("p", { class: "note" }, compares ? "No image of this triplet can be read." : "This image cannot be read.")); return; }
    const hidden = new Set(get("controls").checked ? [] : data.indicators.filter(([, , control]) => control).map(([name]) => name));
    const sprite = get("maps").checked && entry.maps ? await picture(entry.maps) : null;
    const heats = [];
    entry.cells.forEach((cell, i) => {
      if (hidden.has(cell.of)) return;
      const frame = make("div", { class: "image" }, make("img", { src: cell.file, loading: "lazy", alt: `Image generated from the prompt “${cell.prompt}”` }));
      const peak = make("span", { class: "peak" });
      if (sprite) { const own = make("canvas", { "aria-hidden": "true" }); own.hidden = true; heats.push([own, i, peak]); frame.append(own); }
      if (get("boxes").checked || get("masks").checked) frame.append(overlay(cell.objects));
      const caption = make("figcaption", {}, ...(compares ? [make("b", {}, cell.of), cell.word !== cell.of ? ` “${cell.word}”` : ""] : []), ...(sprite ? [peak] : []));
      cells.append(make("figure", {}, frame, caption, make("p", { class: "list" }, cell.objects.map(([label]) => label).join(", "))));
    });
    if (!sprite) return;
    const ranges = entry.ranges.flat().filter(Boolean);
    const all = get("scale").checked ? [Math.min(...ranges.map(([low]) => low)), Math.max(...ranges.map(([, high]) => high))] : null;
    const chips = make("div", { class: "chips", role: "group", "aria-label": `Words of this ${compares ? "triplet" : "prompt"}` });
    entry.chips.forEach(([label, index]) => {
      const button = make("button", { type: "button", "aria-pressed": "false" }, label);
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        for (const other of chips.children) other.setAttribute("aria-pressed", "false");
        button.setAttribute("aria-pressed", String(on));
        for (const [canvas, i, peak] of heats) peak.textContent = heat(canvas, sprite, entry, i, on ? index[i] : -1, all);
      });
      chips.append(button);
    });
    article.append(chips);
  };

  const headings = () => [...document.querySelectorAll(".triplet h2 a")];
  let drawing = 0;
  const draw = (linked = null) => {
    const mine = ++drawing, last = Math.max(0, Math.ceil(rows.length / PAGE) - 1);
    page = Math.min(Math.max(page, 0), last);
    const from = page * PAGE, shown = rows.slice(from, from + PAGE);
    get("count").textContent = (rows.length === data.n ? many(data.n, what) : `${rows.length.toLocaleString("en")} of ${many(data.n, what)}`) + (data.of > data.n ? ` out of ${data.of.toLocaleString("en")} that the run holds` : "") + (compares ? " (a prompt with one seed)" : "") + `${data.left_out.length ? `, ${data.left_out.length.toLocaleString("en")} ${compares ? "with an image that enters" : data.left_out.length === 1 ? "enters" : "enter"} no mean` : ""}.`;
    get("legend").hidden = !(get("boxes").checked || get("masks").checked);
    for (const pages of document.querySelectorAll("nav.pages")) {
      const step = (label, to) => {
        const button = make("button", { type: "button", class: "pill" }, label);
        button.disabled = to < 0 || to > last || to === page;
        button.addEventListener("click", () => { page = to; draw(); headings()[0]?.focus({ preventScroll: true }); get("count").scrollIntoView(); });
        return button;
      };
      pages.replaceChildren(step("First", 0), step("Previous", page - 1), make("span", {}, rows.length ? `${(from + 1).toLocaleString("en")}–${(from + shown.length).toLocaleString("en")}` : "none"), step("Next", page + 1), step("Last", last));
    }
    get("rows").replaceChildren(...shown.map((i) => {
      const key = `t${data.triplet[i]}s${data.seed[i]}`;
      const gaps = data.contrasts.map(([name]) => `gap (${name}) ${show(data.gaps[name][i])}`);
      const said = [`seed ${data.seed[i]}`, ...gaps, ...(data.faulty.has(i) ? [compares ? "enters no mean: an image of it is left out" : "left out: it enters no mean"] : [])].join(" · ");
      const article = make("article", { class: key === linked ? "triplet linked" : "triplet", id: key },
        make("h2", {}, make("a", { href: `#triplet=${key}`, title: `Link to this ${what}` }, data.prompts[data.prompt[i]])), make("p", { class: "values" }, said), make("div", { class: "cells" }));
      load(Math.floor(i / TOGETHER)).then((content) => { if (mine === drawing) return fill(article, content[i % TOGETHER]); },
        (error) => article.append(make("p", { class: "note warning" }, `Not there: ${error.message}. Make the report again.`)));
      return article;
    }));
    if (linked && get(linked)) get(linked).scrollIntoView();
  };

  for (const name of ["text", "object", "group", "indicator", "agreement", "order"]) get(name).addEventListener("input", () => data && find());
  for (const name of ["boxes", "masks", "maps", "scale", "controls"]) get(name).addEventListener("input", () => data && draw());
  document.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], from = document.activeElement, own = from.closest(".triplet");
    if (from.closest("input, select") || event.ctrlKey || event.metaKey || event.altKey || !(step || event.key === "Escape")) return;
    event.preventDefault();
    if (!step) {
      const pressed = own?.querySelector("[aria-pressed=true]");
      return pressed ? pressed.click() : get("text").focus();
    }
    const chips = from.closest(".chips"), all = chips ? [...chips.children] : headings();
    const to = all.indexOf(chips ? from : own?.querySelector("h2 a")) + step;
    const turned = !chips && own && !all[to] && rows[(page + step) * PAGE] !== undefined;
    if (turned) { page += step; draw(); }
    (turned ? headings().at(step > 0 ? 0 : -1) : all[to])?.focus();
  });
  get("tools").addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", () => { const own = new URLSearchParams(location.hash.slice(1)).get("triplet"); if (data && own) find(own); });
})();
