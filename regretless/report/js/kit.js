// What the parts of a page share: elements, numbers as text, ticks, colours, the trials of a run, and redrawing.

const SVG = "http://www.w3.org/2000/svg";
const FLOOR = 1e-300; // values at or below this have no place on a log axis
const LETTER = 6.8; // the width of a letter of an axis label in pixels, about
const HEAVY = 2000; // a picture of more points than this is drawn when it comes near the window, not before

const make = (tag, attributes = {}, parent = null, text = null) => {
  const node = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  if (parent) parent.append(node);
  return node;
};
const raised = (k) => "10" + [...String(k)].map((c) => ({ "-": "⁻" })[c] ?? "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join("");
const show = (v, digits = 0) => {
  if (v === 0 || v === null || !Number.isFinite(v)) return String(v);
  const a = Math.abs(v);
  if (a < 1e5 && a >= 1e-3) return String(Number(v.toPrecision(Math.max(4, digits))));
  return v.toExponential(Math.max(2, digits - 1)).replace(/\.?0*e\+?/, "e");
};
// The digits that numbers of this size need, if those that differ by `step` are to look different.
const power = (v) => Math.floor(Math.log10(v) + 1e-9);
const digitsOf = (size, step) => step > 0 && size > 0 ? Math.min(15, 1 + power(size) - power(step)) : 0;
const digitsAmong = (values) => {
  const kept = values.filter(isNumber);
  const [low, high] = [kept.reduce((a, b) => Math.min(a, b), Infinity), kept.reduce((a, b) => Math.max(a, b), -Infinity)];
  return digitsOf(Math.max(Math.abs(low), Math.abs(high)), (high - low) / 20);
};
// A long text without its middle: labels often begin alike.
const short = (text, most = 14) => text.length <= most ? text
  : text.slice(0, Math.ceil((most - 1) / 2)) + "…" + text.slice(text.length - Math.floor((most - 1) / 2));
const isNumber = (v) => v !== null && Number.isFinite(v);

// Tick positions with labels between two ends, about `count` of them; of whole numbers none between them.
function ticks(low, high, log, count, whole = false) {
  if (log) {
    const a = Math.ceil(Math.log10(low) - 1e-9), b = Math.floor(Math.log10(high) + 1e-9), found = [];
    if (b - a >= 2) {
      const step = Math.max(1, Math.ceil((b - a) / count));
      for (let k = a; k <= b; k += step) found.push([10 ** k, k >= 0 && k <= 3 ? String(10 ** k) : raised(k)]);
      return found;
    }
    for (let k = a - 1; k <= b + 1; k++) {
      for (const m of b > a ? [1, 2, 5] : [1, 2, 3, 5]) {
        const v = m * 10 ** k;
        if (v >= low * 0.999 && v <= high * 1.001 && !(whole && v < 1)) found.push([v, show(v)]);
      }
    }
    if (found.length >= 2) return found;
  }
  const raw = (high - low) / count, size = 10 ** Math.floor(Math.log10(raw));
  const near = size * [1, 2, 5, 10].find((m) => m * size >= raw * 0.6), step = whole ? Math.max(1, near) : near;
  const digits = digitsOf(Math.max(Math.abs(low), Math.abs(high)), step), found = [];
  const first = Math.ceil(low / step - 1e-9), last = Math.min(first + 2 * count + 2, high / step + 1e-9);
  for (let k = first; k <= last; k++) found.push([k * step, show(k * step, digits)]);
  return found;
}

// The ticks whose labels do not run into the one before: `size` is the room that a label takes along the axis.
function apart(marks, place, size) {
  let last = -Infinity;
  return [...marks].sort((a, b) => place(a[0]) - place(b[0])).filter(([v, label]) => {
    if (place(v) - size(label) / 2 < last) return false;
    last = place(v) + size(label) / 2;
    return true;
  });
}
const across = (label) => label.length * LETTER + 8, upright = () => 15;

// Where v lies between two pixels, on an axis from a to b.
const scaled = (v, a, b, from, to, log) =>
  (log ? (Math.log(v) - Math.log(a)) / (Math.log(b) - Math.log(a)) : (v - a) / (b - a)) * (to - from) + from;

// The trials of the run that a page is about: columns of numbers, which charts name instead of repeating them.
const trials = (() => {
  const found = document.getElementById("trials");
  return found ? JSON.parse(found.textContent) : null;
})();
const column = (given) => typeof given === "string" ? trials.columns[given] : given;
const digitsIn = {};
const textOf = (key, v) => v === null || v === undefined ? ""
  : trials.labels[key]?.[v] ?? show(v, digitsIn[key] ??= digitsAmong(trials.columns[key]));
const broken = new Set(trials?.broken); // positions of trials that break a constraint
// Pictures that mark the trial at which another one is looked at: called with its position, null for none, and the
// layer on which it is marked already.
const lookers = [];
const lookAt = (i, from = null) => { for (const looker of lookers) looker(i, from); };
const MOST_WORDS = 12; // parameters named when the pointer is on a trial
function trialWords(i) {
  const value = trials.columns.value[i], named = Object.keys(trials.columns).filter((key) => key.startsWith("p:"));
  const lines = named.filter((key) => trials.columns[key][i] !== null).map((key) =>
    `${key.slice(2)} ${textOf(key, trials.columns[key][i])}`);
  const sd = trials.columns.sd?.[i], error = isNumber(sd) ? ` ± ${show(sd)}` : "";
  const rest = lines.length > MOST_WORDS ? [`and ${lines.length - MOST_WORDS} more`] : [];
  const several = trials.objectives?.map((name) => `${name} ${textOf(`v:${name}`, trials.columns[`v:${name}`][i])}`).join(", ");
  const head = `trial ${trials.columns.number[i]}: ${value === null ? "failed" : several ?? textOf("value", value) + error}`;
  const kinds = [i === trials.best && (several ? ", the compromise" : ", the best"), broken.has(i) && ", breaks a constraint",
    trials.probes?.includes(i) && ", a probe"].filter(Boolean);
  return [head + kinds.join(""), ...lines.slice(0, MOST_WORDS), ...rest].join("\n");
}

// Colours: those of the style sheet, mixed; `ramp` runs from dark blue over green to yellow (after viridis).
const styled = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const parts = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const mixed = (a, b, t) => {
  const [u, v] = [parts(a), parts(b)];
  return `rgb(${u.map((c, i) => Math.round(c + t * (v[i] - c))).join(",")})`;
};
const RAMP = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
const ramp = (t) => {
  const at = Math.min(Math.max(t, 0), 1) * (RAMP.length - 1), k = Math.min(Math.floor(at), RAMP.length - 2);
  return mixed(RAMP[k], RAMP[k + 1], at - k);
};

// Draws now, or when the node comes near the window (`late`), and again when its width or the colours change.
const redraws = [];
function drawn(node, draw, late = false) {
  let last = 0, seen = !late;
  const again = () => { if (seen) { last = node.clientWidth; draw(); } };
  redraws.push((all) => { seen ||= all; again(); });
  new ResizeObserver(() => { if (node.clientWidth !== last) again(); }).observe(node);
  if (late) {
    const watch = new IntersectionObserver((entries) => {
      if (!entries.some((e) => e.isIntersecting)) return;
      watch.disconnect();
      seen = true;
      again();
    }, { rootMargin: "300px" });
    watch.observe(node);
  }
  again();
  return again;
}
const redrawAll = (all = false) => redraws.forEach((redraw) => redraw(all));
window.addEventListener("beforeprint", () => redrawAll(true));

// A canvas for many small shapes; its pixels are those of the screen, its units those of the picture.
function canvasOf(parent, width, height) {
  const zoom = window.devicePixelRatio || 1, canvas = make("canvas", { "aria-hidden": "true" }, parent);
  Object.assign(canvas, { width: width * zoom, height: height * zoom });
  const pen = canvas.getContext("2d");
  pen.scale(zoom, zoom);
  return pen;
}

// The hint beside the pointer, inside a figure; `say` tells it to those who hear a page, when keys moved it.
function hintOf(figure) {
  const tip = make("div", { class: "tip", hidden: "" }, figure);
  const put = (clientX, clientY) => {
    tip.hidden = !tip.childNodes.length;
    if (tip.hidden) return;
    const home = figure.getBoundingClientRect(), left = clientX - home.left, top = clientY - home.top;
    const beside = left + 14 + tip.offsetWidth > home.width ? left - tip.offsetWidth - 14 : left + 14;
    tip.style.left = `${Math.max(0, beside)}px`;
    tip.style.top = `${Math.max(0, top - tip.offsetHeight / 2)}px`;
  };
  const spoken = make("div", { class: "spoken", role: "status" }, figure);
  return { tip, put, say: (words) => { spoken.textContent = words.replaceAll("\n", ", "); } };
}

// A box to choose one of several words from.
function selectOf(parent, label, words, at, change) {
  const wrap = make("label", {}, parent, `${label} `), box = make("select", {}, wrap);
  words.forEach((word, i) => make("option", { value: i }, box, word));
  box.value = String(at);
  box.addEventListener("change", () => change(Number(box.value)));
  return box;
}

// Where a picture begins: right of its axis' name and of the longest label of its ticks, of which so many letters show.
const LETTERS = 10, SIDE = 30;
const besideLabels = (marks) => SIDE + LETTER * Math.max(4, ...marks.map(([, label]) => short(label, LETTERS).length));

// The axes of a picture: grid lines, labels that keep apart, and the names; px and py map values to pixels.
function axesOf(svg, box, height, { xs, ys, px, py, xName, yName, grid = true }) {
  for (const [v, label] of apart(ys, (v) => py(v), upright)) {
    if (grid) make("svg:line", { class: "grid", x1: box.left, x2: box.right, y1: py(v), y2: py(v) }, svg);
    const text = make("svg:text", { x: box.left - 7, y: py(v) + 4, "text-anchor": "end" }, svg, short(label, LETTERS));
    if (label.length > LETTERS) make("svg:title", {}, text, label);
  }
  for (const [v, label] of apart(xs, px, (label) => across(short(label)))) {
    if (grid) make("svg:line", { class: "grid", x1: px(v), x2: px(v), y1: box.top, y2: box.bottom }, svg);
    const half = across(short(label)) / 2 - 4, x = Math.min(Math.max(px(v), half), box.right + 14 - half);
    const text = make("svg:text", { x, y: box.bottom + 16, "text-anchor": "middle" }, svg, short(label));
    if (label.length > 14) make("svg:title", {}, text, label);
  }
  make("svg:text", { x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle" }, svg, short(xName, 40));
  const middle = (box.top + box.bottom) / 2, turned = `rotate(-90 13 ${middle})`;
  make("svg:text", { x: 13, y: middle, "text-anchor": "middle", transform: turned }, svg, short(yName, 30));
}
