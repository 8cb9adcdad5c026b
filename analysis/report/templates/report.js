"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const show = (x, digits = 4) => x === null || x === undefined ? "—" : (x < 0 ? "−" : "") + Number(Math.abs(x).toPrecision(digits));

  // A click on an object of a figure shows its images in the gallery.
  for (const [figure, names] of Object.entries(data.links)) names.forEach((name, i) => {
    const row = document.getElementById(`${figure}-row-${i}`);
    if (!row || !name || !document.querySelector("#gallery a")) return;
    const open = () => { location.href = `gallery/index.html#object=${encodeURIComponent(name)}`; };
    row.closest("svg").setAttribute("role", "group");
    row.setAttribute("tabindex", "0"); row.setAttribute("role", "link"); row.setAttribute("class", "link");
    row.setAttribute("aria-label", `${name}: the triplets that contain it`);
    row.addEventListener("click", open);
    row.addEventListener("keydown", (event) => { if (event.key === "Enter") open(); });
  });

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
      readout.textContent = `${atlas.sites[r]}, call ${atlas.steps[c]}${time === null ? "" : ` (timestep ${Math.round(time)})`}: gap${atlas.over_words ? " over words" : ""} ${show(gap)} ${bounds}${side}; adjusted p of the indicators’ own words ${show(get("p_sites"), 2)}; against words ${show(get("p_control_sites"), 2)}.`;
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
