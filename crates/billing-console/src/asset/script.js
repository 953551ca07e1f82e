// Keys, double clicks, sliders, and events as they come in. Every page works without this file.
"use strict";
document.addEventListener("keydown", event => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const search = document.getElementById("search");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  }
  if (event.key === "Escape" && typing) document.activeElement.blur();
});
// A form that was sent is not sent again while its answer is on the way; the service would do it once all the same.
document.addEventListener("submit", event => {
  const button = event.submitter || event.target.querySelector("button[type=submit]");
  if (button) setTimeout(() => { button.disabled = true; button.setAttribute("aria-busy", "true"); }, 0);
});
// Back from another page: the form can be used again.
addEventListener("pageshow", () => document.querySelectorAll("button[aria-busy]").forEach(button => {
  button.disabled = false; button.removeAttribute("aria-busy");
}));
// Where a slider of days stands, as the time that it comes to.
const slid = slider => {
  const { from, zone } = slider.dataset, days = Number(slider.value), to = new Date(Date.parse(from) + days * 86400000);
  slider.form.querySelector("output").textContent = `${days} ${days === 1 ? "day" : "days"}: ${to.toLocaleString("sv-SE", { timeZone: zone }).slice(0, 16)}`;
};
const slide = () => document.querySelectorAll("input[type=range][data-from]").forEach(slid);
document.addEventListener("input", event => { if (event.target.matches("input[type=range][data-from]")) slid(event.target); });
slide();
// Parts of pages come anew, some of them with a slider.
document.addEventListener("htmx:afterSwap", slide);
// Events as they come in: rows that the service has made, put at the top for as long as somebody looks.
const live = document.querySelector("[data-stream]");
if (live) {
  const texts = live.dataset, body = live.querySelector("tbody"), [status, button] = ["[role=status]", "button"].map(one => live.querySelector(one));
  const ROWS_MAX = 200, PARTS_HELD_MAX = 60, SAY_EVERY = 5000, HIDDEN_MAX = 30000, AGAIN_MAX = 30000;
  let count = 0, held = null, isOver = false, again = 1000, open = null, hides = 0, said = 0, saying = 0;
  // What is read aloud changes seldom, however much comes in.
  const say = () => {
    clearTimeout(saying);
    saying = setTimeout(() => {
      said = Date.now();
      status.textContent = isOver || (held ? texts.held : count ? `${count.toLocaleString("en")} ${texts.came}` : texts.waits);
    }, Math.max(0, said + SAY_EVERY - Date.now()));
  };
  const tell = text => { clearTimeout(saying); said = 0; status.textContent = text; };
  const end = text => { isOver = text; tell(text); close(); };
  const put = rows => {
    const made = document.createElement("tbody");
    made.innerHTML = rows;
    body.prepend(...made.children);
    while (body.children.length > ROWS_MAX) body.lastElementChild.remove();
  };
  const take = text => {
    if (!text.startsWith("data: ")) return;
    const part = JSON.parse(text.slice(6));
    if (part.over) return end(texts.over);
    count += part.count;
    if (held) held = [...held, part.rows].slice(-PARTS_HELD_MAX); else put(part.rows);
    say();
  };
  const read = async answer => {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = "";;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      parts.forEach(take);
    }
  };
  const begin = async () => {
    const mine = open = new AbortController();
    try {
      const answer = await fetch(texts.stream, { signal: mine.signal });
      if (answer.status === 429) return end(texts.many);
      if (answer.status < 500 && !answer.ok) return end(texts.over);
      if (answer.ok) { again = 1000; said = 0; say(); await read(answer); }
    } catch { /* The way is gone, or the page closed it. */ }
    if (open !== mine || isOver) return;
    tell(texts.lost);
    setTimeout(() => { if (open === mine) begin(); }, again);
    again = Math.min(2 * again, AGAIN_MAX);
  };
  const close = () => { if (open) open.abort(); open = null; };
  button.addEventListener("click", () => {
    if (held) held.splice(0).forEach(put);
    held = held ? null : [];
    button.textContent = held ? texts.resume : texts.pause;
    said = 0;
    say();
  });
  // A browser has few connections to one host: pages that nobody looks at give theirs back.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hides);
    if (document.hidden) hides = setTimeout(close, HIDDEN_MAX);
    else if (!open && !isOver) begin();
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", event => { if (event.persisted && !open && !isOver) begin(); });
  begin();
}
