// Puts a page together once all parts are known.
const root = document.documentElement;
const wish = matchMedia("(prefers-color-scheme: dark)");
const dress = (theme) => { root.dataset.theme = theme; redrawAll(); };
dress(wish.matches ? "dark" : "light");
wish.addEventListener("change", () => dress(wish.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => {
  dress(root.dataset.theme === "dark" ? "light" : "dark");
});
document.querySelectorAll("figure.chart").forEach(chart);
document.querySelectorAll("figure.surface").forEach(surface);
document.querySelectorAll("figure.parallel").forEach(parallel);
document.querySelectorAll("div.trials").forEach(trialTable);
document.querySelectorAll("table").forEach((table) => { if (!table.closest(".trials")) sortable(table); });
