"use strict";
// A button in each head of a table sorts its rows: rising, falling, as they stood. What is not there (—) comes last.
for (const table of document.querySelectorAll("table.disparity:not(.words, .dots)")) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const key = (row, at) => {
    const cell = row.cells[at], text = (cell.querySelector("data")?.value ?? cell.textContent).trim().replace("−", "-");
    const number = parseFloat(text.replace(/^[<+]\s*/, ""));
    return text[0] === "—" ? null : Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => typeof a === typeof b ? (typeof a === "number" ? a - b : a.localeCompare(b)) : typeof a === "number" ? -1 : 1;
  if (rows.length > 2) heads.forEach((head, at) => {
    const button = document.createElement("button"), term = head.querySelector("button");
    Object.assign(button, { type: "button", className: "sort" });
    if (term) button.setAttribute("aria-label", `Sort by ${term.textContent}`);
    else button.append(...head.childNodes);
    head.prepend(button);
    button.addEventListener("click", () => {
      const way = { ascending: -1, descending: 0 }[head.getAttribute("aria-sort")] ?? 1;
      heads.forEach((one) => one.removeAttribute("aria-sort"));
      if (way) head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
      const keys = new Map(rows.map((row) => [row, key(row, at)]));
      const sorted = (a, b) => a === b ? 0 : a === null ? 1 : b === null ? -1 : way * compare(a, b);
      body.append(...(way ? [...rows].sort((a, b) => sorted(keys.get(a), keys.get(b))) : rows));
    });
  });
}
