// SPDX-License-Identifier: Apache-2.0
// What every page needs: numbers as the terminal writes them, sortable tables, plots' looks.
"use strict";
const xp = (() => {
  const byId = (id) => document.getElementById(id);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function element(tag, set = {}, ...children) {
    const made = Object.assign(document.createElement(tag), set);
    made.append(...children);
    return made;
  }

  // ---- numbers as text, as report/text.py writes them
  const fixed = (x, decimals) =>
    x.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const threeDigits = (x) => fixed(x, x ? Math.max(2 - Math.floor(Math.log10(Math.abs(x))), 0) : 0);
  const count = (n) => n.toLocaleString("en-US");
  const factor = (x) => x.toLocaleString("en-US", { maximumFractionDigits: 2 });
  const timesLess = (x) => fixed(x, 1) + "x";
  const percent = (x) => fixed(100 * x, 2).replace(/^-(0\.00)$/, "$1") + " %";
  const TIMES = [["s", 1], ["ms", 1e3], ["us", 1e6]];
  const scaleOf = (x) => TIMES.find(([, scale]) => Math.abs(x) * scale >= 1) || TIMES[2];
  function amount(x, unit) {
    if (unit !== "s") return Number(x.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 20 }) + " " + unit;
    const [name, scale] = scaleOf(x);
    return threeDigits(x * scale) + " " + name;
  }
  // At a tick of an axis, where trailing zeros say nothing.
  function tick(x, unit) {
    if (unit !== "s") return Number(x.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 20 });
    const [name, scale] = x ? scaleOf(x) : TIMES[0];
    return Number((x * scale).toPrecision(3)).toLocaleString("en-US") + " " + name;
  }

  // ---- colours: distinct under the common colour vision deficiencies, the rest grey
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800"];
  const REST = "#8a919c";
  const colourOf = (rank) => COLOURS[rank] || REST;

  // ---- plots
  function axis(more) {
    const grid = { stroke: style("--line"), width: 1 };
    return { stroke: style("--ink"), font: "12px system-ui", labelFont: "600 12px system-ui", grid, ticks: grid, ...more };
  }
  // Lines and labels at powers of ten alone, where there are several; else at 1, 2 and 5 times those.
  const leading = (v) => Number((v / 10 ** Math.floor(Math.log10(v) + 1e-9)).toPrecision(9));
  function round(u, splits) {
    const tens = splits.filter((v) => leading(v) === 1).length > 2;
    return splits.map((v) => ((tens ? [1] : [1, 2, 3, 5]).includes(leading(v)) ? v : null));
  }
  const logarithmicAxis = (more) => ({ ...axis(more), filter: round, grid: { ...axis().grid, filter: round }, ticks: { ...axis().ticks, filter: round } });

  function showHover(u, box) {
    const at = byId("hover");
    at.hidden = !box;
    if (!box) return;
    at.replaceChildren(box);
    const over = u.over.getBoundingClientRect(), left = over.left + u.cursor.left;
    const beyond = left + at.offsetWidth + 32 > innerWidth;
    at.style.left = scrollX + left + (beyond ? -at.offsetWidth - 16 : 16) + "px";
    at.style.top = scrollY + over.top + u.cursor.top + 16 + "px";
  }
  function described(title, full, rows) {
    const lines = rows.flatMap(([name, text]) => [element("dt", { textContent: name }), element("dd", { textContent: text })]);
    return element("div", {}, element("b", { textContent: title, title: full }), element("dl", {}, ...lines));
  }

  // ---- tables
  const SHOWN = 500;
  const chosen = { mark: null }; // the `mark` of the rows that are chosen
  function markChosen(mark) {
    chosen.mark = mark;
    document.querySelectorAll("tr[data-mark]").forEach((tr) => tr.classList.toggle("chosen", tr.dataset.mark === mark));
  }

  // `columns`: {key, label, text(row) or cell(row), order(row), className}; `sorted`: the key to sort by
  // at first, null for the given order; a click on a row picks it.
  function fill(table, columns, rows, sorted, pick) {
    const head = table.createTHead().insertRow(), body = table.createTBody();
    let by = columns.findIndex((c) => c.key === sorted), descending = true, all = false;
    function sort() {
      const column = columns[by], sign = descending ? -1 : 1;
      const value = column.order || ((row) => row[column.key]);
      const known = (v) => v !== null && v !== undefined && v === v;
      rows.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (!known(x) || !known(y)) return known(y) - known(x);
        return x < y ? -sign : x > y ? sign : 0;
      });
    }
    function show() {
      if (by >= 0) sort();
      [...head.cells].forEach((cell, i) => i === by
        ? cell.setAttribute("aria-sort", descending ? "descending" : "ascending") : cell.removeAttribute("aria-sort"));
      body.replaceChildren(...rows.slice(0, all ? rows.length : SHOWN).map(line));
      if (all || rows.length <= SHOWN) return;
      const more = body.insertRow(), cell = more.insertCell();
      more.className = "more";
      cell.colSpan = columns.length;
      cell.append(`first ${count(SHOWN)} of ${count(rows.length)} `, element("button", { textContent: "Show all", onclick: () => { all = true; show(); } }));
    }
    function line(row) {
      const tr = element("tr", { className: row.className || "" });
      if (row.mark) tr.dataset.mark = row.mark;
      if (row.mark && row.mark === chosen.mark) tr.classList.add("chosen");
      for (const { key, text, cell, className } of columns) {
        const td = tr.insertCell();
        if (className) td.className = className;
        if (row[key] === undefined && !cell) continue;
        if (cell) td.append(...cell(row)); else td.textContent = text(row);
        if (className && row.full) td.title = row.full;
      }
      if (pick) {
        tr.classList.add("pick");
        tr.onclick = () => pick(row);
      }
      return tr;
    }
    columns.forEach(({ label, className, hint }, i) => {
      const th = element("th", { textContent: label, tabIndex: 0, className: className || "", title: hint || "" });
      th.onclick = () => { descending = i === by ? !descending : !className; by = i; show(); };
      th.onkeydown = (event) => { if (event.key === "Enter") th.click(); };
      head.append(th);
    });
    show();
  }

  const number = (key, label, text = (r) => count(r[key])) => ({ key, label, text });
  const beside = (text) => element("span", { className: "beside", textContent: text });
  // Numbers with bars: their shares of the column's largest.
  function bars(key, label, rows, text) {
    const most = Math.max(...rows.map((r) => r[key] || 0)) || 1;
    const bar = (r) => element("span", { className: "bar" }, element("span", { style: `width:${(100 * r[key]) / most}%` }));
    return { key, label, cell: (r) => (r[key] === undefined ? [] : [bar(r), beside(text(r))]) };
  }
  function signedBars(key, label, rows, text) {
    const most = Math.max(...rows.map((r) => Math.abs(r[key]))) || 1;
    const cell = (r) => {
      const width = (50 * Math.abs(r[key])) / most, over = r[key] > 0;
      const bar = element("span", { style: `width:${width}%;left:${over ? 50 : 50 - width}%;background:var(${over ? "--over" : "--under"})` });
      return [element("span", { className: "signed" }, bar), beside(text(r))];
    };
    return { key, label, cell, order: (r) => Math.abs(r[key]) };
  }

  return { byId, style, element, count, factor, timesLess, percent, scaleOf, amount, tick, colourOf, COLOURS, REST,
    axis, logarithmicAxis, showHover, described, fill, markChosen, number, bars, signedBars };
})();
