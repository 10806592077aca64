// Tables sort by the column whose head is pressed; one without a head stays as it is.
const bothNumbers = (u, v) => u !== "" && v !== "" && !isNaN(u) && !isNaN(v);
const compared = (u, v) => bothNumbers(u, v) ? u - v : (u === "") - (v === "") || String(u).localeCompare(String(v));

// A button in the head of a column; `sort(up)` orders the rows.
function sortHead(head, sort) {
  const words = head.textContent;
  head.textContent = "";
  const b = make("button", { type: "button", class: "sort" }, head);
  words.split(/(?<=_)/).forEach((piece, k) => b.append(...(k ? [make("wbr")] : []), piece)); // names may break after _
  b.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    sort(up);
  });
}

function sortable(table) {
  if (!table.tHead) return;
  [...table.tHead.rows[0].cells].forEach((head, place) => {
    sortHead(head, (up) => {
      const key = (row) => row.cells[place].dataset.v ?? row.cells[place].textContent;
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compared(key(a), key(b)) * (up ? 1 : -1));
      table.tBodies[0].append(...rows);
    });
  });
}

// The table of all trials, a page of rows at a time: <div class="trials">, its data the trials of the page.
const ROWS = 50; // rows in sight at once
const LONGEST = 28; // letters of an error in its cell; the failures of the page have all of it
const MANY = 8; // a table with more columns than this has narrower cells, as in page.py
function trialTable(home) {
  const params = Object.keys(trials.columns).filter((key) => key.startsWith("p:"));
  const limits = Object.keys(trials.columns).filter((key) => key.startsWith("c:"));
  const values = trials.objectives?.map((name) => `v:${name}`) ?? ["value"];
  const keys = ["number", ...values, ...(trials.columns.seconds ? ["seconds"] : []), ...limits, ...params];
  const heads = { number: "trial" }, count = trials.columns.number.length;
  let order = trials.columns.number.map((_, i) => i), page = 0;
  const bar = make("div", { class: "pager" }, home);
  const scroll = make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "all trials" }, home);
  const table = make("table", keys.length > MANY ? { class: "many" } : {}, scroll);
  const top = make("tr", {}, make("thead", {}, table));
  const body = make("tbody", {}, table);
  for (const key of keys) {
    const words = trials.labels[key] ? { class: "words", scope: "col" } : { scope: "col" };
    sortHead(make("th", words, top, heads[key] ?? key.replace(/^[pcv]:/, "")), (up) => {
      const values = trials.columns[key], text = (i) => trials.labels[key]?.[values[i]] ?? values[i] ?? "";
      order.sort((a, b) => compared(text(a), text(b)) * (up ? 1 : -1) || a - b);
      page = 0;
      fill();
    });
  }
  const last = Math.max(0, Math.ceil(count / ROWS) - 1), buttons = {};
  const go = (to) => { page = Math.min(Math.max(to, 0), last); fill(); };
  const turn = (word, to) => {
    buttons[word] = make("button", { type: "button" }, bar, word);
    buttons[word].addEventListener("click", () => go(to()));
  };
  if (last) {
    turn("first", () => 0);
    turn("previous", () => page - 1);
    turn("next", () => page + 1);
    turn("last", () => last);
  }
  const find = make("button", { type: "button" }, bar, "best trial");
  find.textContent = trials.objectives ? "compromise" : "best trial";
  find.addEventListener("click", () => go(Math.floor(order.indexOf(trials.best) / ROWS)));
  const where = make("span", { class: "note", role: "status" }, bar);
  function fill() {
    const rows = order.slice(page * ROWS, (page + 1) * ROWS);
    body.replaceChildren(...rows.map((i) => {
      const row = make("tr", i === trials.best ? { class: "mark" } : {});
      for (const key of keys) {
        const v = trials.columns[key][i], failed = key === values[0] && v === null;
        const words = failed ? { class: "words failed" } : trials.labels[key] ? { class: "words" } : {};
        const error = `failed: ${trials.errors[i] ?? ""}`;
        const cell = make("td", words, row, failed ? short(error, LONGEST) : textOf(key, v));
        if (failed) cell.title = error;
      }
      return row;
    }));
    where.textContent = `rows ${count ? page * ROWS + 1 : 0} to ${page * ROWS + rows.length} of ${count}`;
    for (const [word, b] of Object.entries(buttons))
      b.disabled = ["first", "previous"].includes(word) ? page === 0 : page === last;
  }
  fill();
}
