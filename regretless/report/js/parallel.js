// Parallel coordinates: <figure class="parallel"> with its data as JSON inside:
//   {axes: [{name, key, low, high, log, ticks}], lines: [positions of trials, the worst first]}
// A line is a trial; its colour is its rank, and the best trial is drawn last and thickest.
const NAME_LETTER = 7.6; // the width of a letter of a name in bold, in pixels, about
const AXIS_ROOM = 92; // pixels from one axis to the next, at least: narrow windows scroll

function parallel(figure) {
  const data = JSON.parse(figure.querySelector("script").textContent), { axes, lines } = data;
  const controls = make("div", { class: "controls" }, figure);
  const words = `each trial as a line over ${axes.map((a) => a.name).join(", ")}`;
  const name = { class: "scroll stage", tabindex: 0, role: "img", "aria-label": words };
  const stage = make("div", { class: "stage" }, make("div", name, figure));
  const { tip, put } = hintOf(figure);
  let share = 1, frame = null, redraw = () => {};
  for (const [word, part] of [["all", 1], ["best quarter", 0.25], ["best tenth", 0.1]]) {
    const b = make("button", { type: "button", "aria-pressed": String(part === 1) }, controls, word);
    b.addEventListener("click", () => {
      share = part;
      for (const other of controls.children) other.setAttribute("aria-pressed", String(other === b));
      redraw();
    });
  }

  function draw() {
    const width = Math.max(figure.clientWidth, AXIS_ROOM * axes.length), height = 330;
    const marksOf = (axis) => (axis.ticks ?? ticks(axis.low, axis.high, axis.log, 5, axis.whole))
      .filter((t) => t[0] >= axis.low && t[0] <= axis.high)
      .map(([v, label]) => [v, short(label, axis.ticks ? 9 : 12)]);
    const widest = Math.max(0, ...marksOf(axes[axes.length - 1]).map(([, label]) => label.length));
    const box = { left: 50, right: width - Math.max(60, across("x".repeat(widest))), top: 40, bottom: height - 14 };
    const kept = lines.slice(lines.length - Math.max(1, Math.round(share * lines.length)));
    stage.replaceChildren();
    stage.style.width = `${width}px`;
    const pen = canvasOf(stage, width, height), grey = styled("--c9");
    const svg = make("svg:svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, stage);
    const xs = axes.map((_, k) => box.left + k / Math.max(1, axes.length - 1) * (box.right - box.left));
    const y = (axis, v) => {
      const at = scaled(v, axis.low, axis.high, box.bottom, box.top, axis.log);
      return Math.min(Math.max(at, box.top - 6), box.bottom + 6);
    };
    const placeOf = (i) => axes.map((axis) => {
      const v = column(axis.key)[i];
      return isNumber(v) ? y(axis, v) : null;
    });
    const places = kept.map(placeOf);
    places.forEach((ys, k) => {
      const best = kept[k] === trials.best;
      pen.strokeStyle = best ? styled("--best") : mixed(grey, styled("--late"), k / Math.max(1, kept.length - 1));
      pen.globalAlpha = best ? 1 : 0.25 + 0.5 * k / Math.max(1, kept.length - 1);
      pen.lineWidth = best ? 3.5 : 1.2;
      pen.beginPath();
      let on = false;
      ys.forEach((v, j) => {
        if (v === null) { on = false; return; }
        if (on) pen.lineTo(xs[j], v); else pen.moveTo(xs[j], v);
        on = true;
      });
      pen.stroke();
    });
    axes.forEach((axis, k) => {
      make("svg:line", { class: "axis", x1: xs[k], x2: xs[k], y1: box.top, y2: box.bottom }, svg);
      const room = (box.right - box.left) / Math.max(1, axes.length - 1);
      const name = short(axis.name, Math.floor(room / NAME_LETTER) - 1);
      const half = name.length * NAME_LETTER / 2, x = Math.min(Math.max(xs[k], half), width - half);
      const place = { class: "name", x, y: 16, "text-anchor": "middle" };
      make("svg:title", {}, make("svg:text", place, svg, name), axis.name);
      for (const [v, label] of apart(marksOf(axis), (v) => y(axis, v), upright))
        make("svg:text", { class: "halo", x: xs[k] + 5, y: y(axis, v) + 4 }, svg, label);
    });
    const layer = make("svg:g", {}, svg);
    frame = { svg, layer, xs, places, kept, placeOf };
  }

  function mark(ys) {
    const { layer, xs } = frame, points = xs.map((x, j) => ys[j] === null ? null : `${x},${ys[j]}`).filter(Boolean);
    make("svg:polyline", { points: points.join(" "), class: "chosen" }, layer);
  }
  lookers.push((i, from) => {
    if (!frame || from === frame.layer) return;
    frame.layer.replaceChildren();
    if (i !== null) mark(frame.placeOf(i));
  });

  stage.addEventListener("pointermove", (e) => {
    if (!frame) return;
    const { layer, svg, xs, places, kept } = frame, where = svg.getBoundingClientRect();
    const mx = e.clientX - where.left, my = e.clientY - where.top;
    const k = xs.findIndex((x, j) => j + 1 < xs.length && mx >= x && mx <= xs[j + 1]);
    layer.replaceChildren();
    tip.replaceChildren();
    let best = -1, least = 9;
    if (k >= 0) places.forEach((ys, i) => {
      if (ys[k] === null || ys[k + 1] === null) return;
      const d = Math.abs(ys[k] + (ys[k + 1] - ys[k]) * (mx - xs[k]) / (xs[k + 1] - xs[k]) - my);
      if (d < least) { least = d; best = i; }
    });
    if (best >= 0) {
      mark(places[best]);
      lookAt(kept[best], layer);
      tip.append(trialWords(kept[best]));
    }
    put(e.clientX, e.clientY);
  });
  stage.addEventListener("pointerleave", () => { tip.hidden = true; frame?.layer.replaceChildren(); lookAt(null); });
  redraw = drawn(figure, draw);
}
