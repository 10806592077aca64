// A filled contour of the model for any two parameters: <figure class="surface"> with its data as JSON inside:
//   {axes: [{name, key, low, high, log, ticks, cells}], values, pairs: {"i,j": {low, high, z: [...]}}, recommended}
// z holds the means as whole numbers from 0 (low) to 999 (high), rows from the bottom, i across and j up, i < j.
const BANDS = 12; // colours of a filled contour
const STEPS = 999;
const THINNED = 5; // of the trials that slices show in a long run every fifth is drawn, the best one among them

function surface(figure) {
  const data = JSON.parse(figure.querySelector("script").textContent), { axes } = data;
  const controls = make("div", { class: "controls" }, figure);
  const stage = make("div", { class: "stage", tabindex: 0, role: "img" }, figure);
  const legend = make("div", { class: "legend" }, figure), { tip, put, say } = hintOf(figure);
  const state = { x: 0, y: 1, dots: true };
  let frame = null, cursor = null, redraw = () => {};
  const choose = (axis, other) => (to) => {
    if (state[other] === to) { state[other] = state[axis]; boxes[other].value = String(state[other]); }
    state[axis] = to;
    cursor = null;
    tip.hidden = true;
    redraw();
  };
  const names = axes.map((axis) => axis.name), boxes = {};
  boxes.x = selectOf(controls, "across", names, 0, choose("x", "y"));
  boxes.y = selectOf(controls, "up", names, 1, choose("y", "x"));
  const toggle = make("button", { type: "button", "aria-pressed": "true" }, controls, "trials");
  toggle.addEventListener("click", () => {
    state.dots = !state.dots;
    toggle.setAttribute("aria-pressed", String(state.dots));
    redraw();
  });

  // The mean at shares u across and v up of the picture: between grid points where both axes are lines.
  function sampler() {
    const { x, y } = state, turned = x > y, pair = data.pairs[turned ? `${y},${x}` : `${x},${y}`];
    const [a, b] = turned ? [axes[y], axes[x]] : [axes[x], axes[y]], { count: columns } = a, { count: rows } = b;
    const value = (c, r) => pair.low + (pair.high - pair.low) * pair.z[r * columns + c] / STEPS;
    const split = (share, n, cells) => {
      if (cells) { const k = Math.min(Math.floor(share * n), n - 1); return [k, k, 0]; }
      const at = share * (n - 1), k = Math.min(Math.floor(at), n - 2);
      return [k, k + 1, at - k];
    };
    return { pair, at: (u, v) => {
      if (turned) [u, v] = [v, u];
      const [c, d, s] = split(u, columns, a.cells), [r, q, t] = split(v, rows, b.cells);
      return (1 - t) * ((1 - s) * value(c, r) + s * value(d, r)) + t * ((1 - s) * value(c, q) + s * value(d, q));
    } };
  }

  function draw() {
    const width = Math.max(260, figure.clientWidth), height = Math.round(Math.min(520, Math.max(260, width * 0.6)));
    const [X, Y] = [axes[state.x], axes[state.y]], marks = (axis, n) => axis.ticks ?? ticks(axis.low, axis.high, axis.log, n, axis.whole);
    const box = { left: besideLabels(marks(Y, 6)), right: width - 14, top: 10, bottom: height - 42 };
    const { pair, at } = sampler(), wide = Math.round(box.right - box.left), tall = Math.round(box.bottom - box.top);
    stage.replaceChildren();
    const digits = digitsAmong([pair.low, pair.high]), range = `from ${show(pair.low, digits)} to ${show(pair.high, digits)}`;
    stage.setAttribute("aria-label", `${data.values} of the model over ${X.name} and ${Y.name}, ${range}`);
    const picture = make("canvas", { "aria-hidden": "true", class: "picture" }, stage);
    Object.assign(picture, { width: wide, height: tall });
    const shares = `left:${box.left / width * 100}%;width:${wide / width * 100}%`;
    picture.style.cssText = `${shares};top:${box.top}px;height:${tall}px`;
    const brush = picture.getContext("2d"), image = brush.createImageData(wide, tall), span = pair.high - pair.low || 1;
    const colours = [...Array(BANDS).keys()].map((k) => ramp(shade(k / (BANDS - 1))).match(/\d+/g).map(Number));
    for (let j = 0, p = 0; j < tall; j++) {
      for (let i = 0; i < wide; i++, p += 4) {
        const k = Math.floor((at((i + 0.5) / wide, 1 - (j + 0.5) / tall) - pair.low) / span * BANDS);
        const [r, g, b] = colours[Math.min(Math.max(k, 0), BANDS - 1)];
        image.data[p] = r; image.data[p + 1] = g; image.data[p + 2] = b; image.data[p + 3] = 255;
      }
    }
    brush.putImageData(image, 0, 0);
    const svg = make("svg:svg", { viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": "true" }, stage);
    const px = (v) => scaled(v, X.low, X.high, box.left, box.right, X.log);
    const py = (v) => scaled(v, Y.low, Y.high, box.bottom, box.top, Y.log);
    const names = { xName: X.name, yName: Y.name }, fit = Math.max(2, Math.round(wide / 90));
    axesOf(svg, box, height, { xs: marks(X, fit), ys: marks(Y, 6), px, py, ...names, grid: false });
    const drawn = trials.some?.filter((_, k) => (trials.some.length - 1 - k) % THINNED === 0);
    const places = (drawn ?? trials.columns.number.map((_, i) => i))
      .map((i) => [px(column(X.key)[i] ?? NaN), py(column(Y.key)[i] ?? NaN), i])
      .filter(([x, y, i]) => isNumber(x) && isNumber(y) && trials.columns.value[i] !== null);
    if (state.dots) {
      const pen = canvasOf(stage, width, height);
      pen.lineWidth = 1;
      pen.strokeStyle = "#ffffff";
      pen.fillStyle = "#1c2430";
      pen.beginPath();
      for (const [x, y] of places) { pen.moveTo(x + 2.6, y); pen.arc(x, y, 2.6, 0, 7); }
      pen.fill();
      pen.stroke();
    }
    const [x, y] = [data.recommended[state.x], data.recommended[state.y]];
    if (isNumber(x) && isNumber(y)) {
      const cross = `M${px(x) - 8} ${py(y)}h16M${px(x)} ${py(y) - 8}v16`;
      const look = { d: cross, "stroke-linecap": "round" };
      make("svg:path", { ...look, stroke: "#000000", "stroke-width": 7 }, svg);
      make("svg:path", { ...look, stroke: "#ffffff", "stroke-width": 3 }, svg);
    }
    legend.replaceChildren();
    make("span", {}, legend, show(pair.low, digits));
    const bar = make("span", { class: "bar", "aria-hidden": "true" }, legend);
    colours.forEach((c) => make("i", { style: `background:rgb(${c.join(",")})` }, bar));
    make("span", {}, legend, show(pair.high, digits));
    const key = `${data.values}, by the model; + is the recommended setting, dots are trials`;
    make("span", { class: "note" }, legend, key);
    frame = { svg, layer: make("svg:g", {}, svg), width, box, at, pair, places, X, Y };
  }
  const shade = (t) => data.minimize ? 1 - t : t; // the better, the brighter

  // -- hovering, and the same by keys
  const between = (a, b, share) => (1 - share) * a + share * b;
  const valueAt = (axis, share) => axis.ticks
    ? axis.ticks[Math.min(Math.floor(share * axis.count), axis.count - 1)][1]
    : show(axis.log ? Math.exp(between(Math.log(axis.low), Math.log(axis.high), share)) : between(axis.low, axis.high, share));
  const words = (u, v) => {
    const { at, pair, X, Y } = frame;
    return `${X.name} ${valueAt(X, u)}\n${Y.name} ${valueAt(Y, v)}\nmodel ${show(at(u, v), digitsAmong([pair.low, pair.high]))}`;
  };
  const leave = () => { tip.hidden = true; frame?.layer.replaceChildren(); };
  stage.addEventListener("pointermove", (e) => {
    if (!frame) return;
    const { svg, layer, width, box, places } = frame;
    layer.replaceChildren();
    const where = svg.getBoundingClientRect(), zoom = width / where.width;
    const mx = (e.clientX - where.left) * zoom, my = (e.clientY - where.top) * zoom;
    tip.replaceChildren();
    const u = (mx - box.left) / (box.right - box.left), v = (box.bottom - my) / (box.bottom - box.top);
    if (u >= 0 && u <= 1 && v >= 0 && v <= 1) {
      const near = state.dots ? places.filter(([x, y]) => Math.hypot(x - mx, y - my) < 8) : [];
      tip.append(near.length ? trialWords(near[0][2]) : words(u, v));
    }
    put(e.clientX, e.clientY);
  });
  stage.addEventListener("pointerleave", leave);
  stage.addEventListener("blur", leave);

  // The arrow keys walk from point to point of the grid; the walk begins at the recommended setting, as does Home.
  const STRIDES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1], Home: [0, 0] };
  const shareOf = (axis, k) => axis.cells ? (k + 0.5) / axis.count : k / (axis.count - 1); // cells have a middle
  const bounded = (axis, k) => Math.min(Math.max(k, 0), axis.count - 1);
  const start = (axis, recommended) => {
    const share = isNumber(recommended) ? scaled(recommended, axis.low, axis.high, 0, 1, axis.log) : 0.5;
    return bounded(axis, axis.cells ? Math.floor(share * axis.count) : Math.round(share * (axis.count - 1)));
  };
  stage.addEventListener("keydown", (e) => {
    if (e.key === "Escape") { cursor = null; leave(); return; }
    const stride = STRIDES[e.key];
    if (!stride || !frame) return;
    e.preventDefault();
    const { svg, layer, width, box, X, Y } = frame, both = [X, Y];
    if (!cursor || e.key === "Home") cursor = [state.x, state.y].map((k, i) => start(both[i], data.recommended[k]));
    else cursor = cursor.map((k, i) => bounded(both[i], k + stride[i]));
    const [u, v] = cursor.map((k, i) => shareOf(both[i], k));
    const x = box.left + u * (box.right - box.left), y = box.bottom - v * (box.bottom - box.top);
    layer.replaceChildren();
    make("svg:circle", { class: "cursor dark", cx: x, cy: y, r: 9 }, layer);
    make("svg:circle", { class: "cursor", cx: x, cy: y, r: 9 }, layer);
    tip.replaceChildren(words(u, v));
    say(tip.textContent);
    const home = svg.getBoundingClientRect(), zoom = home.width / width;
    put(home.left + x * zoom, home.top + y * zoom);
  });
  redraw = drawn(figure, draw, trials.columns.number.length > HEAVY);
}
