// A stand-in for a browser's document, as much of it as page.js uses: it runs the page's script on the tables and charts
// given on standard input and prints what came of them.
"use strict";
const { readFileSync } = require("node:fs");

class Node {
  constructor(tag) { Object.assign(this, { tag, children: [], attributes: {}, dataset: {}, style: {}, listeners: {} }); }
  setAttribute(key, value) { this.attributes[key] = String(value); }
  append(...nodes) { this.children.push(...nodes); }
  replaceChildren(...nodes) { this.children = nodes; }
  addEventListener(kind, handler) { this.listeners[kind] = handler; }
  getBoundingClientRect() { return { left: 0, top: 0, width: 600, height: 330 }; }
  get childNodes() { return this.children; }
  get clientWidth() { return 600; }
  get offsetWidth() { return 100; }
  get offsetHeight() { return 20; }
  all(tag) { return this.children.flatMap((c) => (c instanceof Node ? [...(c.tag === tag ? [c] : []), ...c.all(tag)] : [])); }
  querySelector(tag) { return this.all(tag)[0]; }
  querySelectorAll(tag) { return this.all(tag); }
}

const given = JSON.parse(readFileSync(0, "utf8"));
const cell = (text) => Object.assign(new Node("td"), { textContent: text });
const row = (texts) => Object.assign(new Node("tr"), { cells: texts.map(cell), texts });
const tables = given.tables.map(({ head, rows }) => {
  const body = { rows: rows.map(row), append(...sorted) { this.rows = sorted; } };
  return { tHead: head ? { rows: [row(head)] } : null, tBodies: [body] };
});
const figures = given.charts.map((chart) => {
  const figure = new Node("figure"), script = new Node("script");
  script.textContent = JSON.stringify(chart);
  figure.append(script);
  return figure;
});
const theme = new Node("button");
globalThis.document = {
  documentElement: new Node("html"),
  createElement: (tag) => new Node(tag),
  createElementNS: (_, tag) => new Node(tag),
  getElementById: () => theme,
  querySelectorAll: (what) => ({ "figure.chart": figures, table: tables })[what],
};
globalThis.matchMedia = () => ({ matches: false, addEventListener() {} });
globalThis.ResizeObserver = class { observe() {} };

new Function(readFileSync(process.argv[2], "utf8"))();

tables.forEach((table) => table.tHead?.rows[0].cells[given.column].listeners.click());
const press = (figure, text) => figure.all("button").find((b) => b.textContent === text)?.listeners.click();
const drawn = (figure) => figure.all("svg").flatMap((svg) =>
  svg.children.filter((c) => c instanceof Node).map((c) => [c.tag, c.attributes, c.textContent ?? null]));
const charts = figures.map((figure) => {
  const first = drawn(figure);
  const svg = figure.all("svg").at(-1);
  figure.children[2].listeners.pointermove({ clientX: 200, clientY: 100 });
  const tip = figure.children[4].children.map((c) => (c instanceof Node ? c.textContent : c)).join("");
  press(figure, "log y");
  return { first, log: drawn(figure), tip, labels: figure.all("button").map((b) => b.textContent) };
});
console.log(JSON.stringify({ rows: tables.map((t) => t.tBodies[0].rows.map((r) => r.texts)), charts }));
