// Follows a run: <main data-live="events"> names where its server sends news. Each message holds the page's sections
// as HTML; charts and tables are made of them as of those of any page.
function live(home) {
  const note = make("p", { class: "note", role: "status" });
  document.querySelector("header > div").append(note);
  const address = new URL(home.dataset.live, location.href);
  address.search = location.search;
  let source;
  const show = (message) => {
    if (home.contains(document.activeElement)) return; // somebody is reading with the keyboard
    const state = JSON.parse(message.data);
    redraws.length = 0; // those of the pictures that go
    home.innerHTML = state.html;
    home.querySelectorAll("figure.chart").forEach(chart);
    home.querySelectorAll("table").forEach(sortable);
    note.textContent = `As of ${new Date().toLocaleTimeString()}.`;
  };
  const follow = () => {
    source?.close(); // a browser holds few connections to one server, so a page that nobody sees keeps none
    if (document.hidden) return;
    source = new EventSource(address);
    source.addEventListener("message", show);
    source.addEventListener("error", () => { note.textContent = "The run does not answer; trying again."; });
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}
document.querySelectorAll("main[data-live]").forEach(live);
